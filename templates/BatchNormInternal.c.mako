<%namespace file="vector.mako" import="run, zero, total"/>
<%! IMAGE = ("n", "c", "s") %>
<%def name="mean()">
<% share = c_float(call["saved_mean"].elements / call["X"].elements) %>
    for (${t.loop("c")}) {
${zero(t.ctype("X"), "part")}
        for (${t.loop("n")})
${run(t, "net_sum", "s", IMAGE, ("X",), ("part",))}
        const ${t.ctype("X")} sum = (range->first ? 0 : ${t.at("saved_mean", "c")}) + ${total("part")};
        ${t.at("saved_mean", "c")} = range->last ? sum * ${share} : sum;
    }
</%def>
<%def name="variance()">
<%
    share = c_float(call["saved_mean"].elements / call["X"].elements)
    keep, new = c_float(call.attributes["momentum"]), c_float(1 - call.attributes["momentum"])
%>
    for (${t.loop("c")}) {
        const ${t.ctype("X")} centre = ${t.at("saved_mean", "c")};
${zero(t.ctype("X"), "part")}
        for (${t.loop("n")})
${run(t, "net_sum_squares", "s", IMAGE, ("X",), ("part",), ("centre",))}
        ${t.ctype("X")} sum = (range->first ? 0 : ${t.at("saved_inv_std", "c")}) + ${total("part")};
        if (range->last) {
            const ${t.ctype("X")} variance = sum * ${share};
            sum = 1 / net_sqrt(variance + ${c_float(call.attributes["epsilon"])});
% if t.has("running_mean"):
            ${t.at("running_mean", "c")} = ${keep} * ${t.at("mean", "c")} + ${new} * centre;
% endif
% if t.has("running_var"):
            ${t.at("running_var", "c")} = ${keep} * ${t.at("var", "c")} + ${new} * variance;
% endif
        }
        ${t.at("saved_inv_std", "c")} = sum;
    }
</%def>
<%def name="normalise()">
    for (${t.loop("c")}) {
        const ${t.ctype("X")} average = ${t.at("saved_mean", "c")}, inv_std = ${t.at("saved_inv_std", "c")};
        const ${t.ctype("X")} centre = net_far(average, inv_std), factor = ${t.at("scale", "c")} * inv_std;
        const ${t.ctype("X")} shift = ${t.at("B", "c")} - (average - centre) * factor;
        for (${t.loop("n")})
${run(t, "net_normalise", "s", IMAGE, ("Y", "X"), (), ("centre", "factor", "shift"))}
    }
</%def>
