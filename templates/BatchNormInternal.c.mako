<%def name="mean()">
<% share = c_float(call["saved_mean"].elements / call["X"].elements) %>
    for (${t.loop("c")}) {
        ${t.ctype("X")} sum = range->first ? 0 : ${t.at("saved_mean", "c")};
        for (${t.loop("n")})
            for (${t.loop("s")})
                sum += ${t.at("X", "n", "c", "s")};
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
        ${t.ctype("X")} sum = range->first ? 0 : ${t.at("saved_inv_std", "c")};
        for (${t.loop("n")})
            for (${t.loop("s")}) {
                const ${t.ctype("X")} centred = ${t.at("X", "n", "c", "s")} - centre;
                sum += centred * centred;
            }
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
        const ${t.ctype("X")} factor = ${t.at("scale", "c")} * ${t.at("saved_inv_std", "c")};
        const ${t.ctype("X")} shift = ${t.at("B", "c")}, centre = ${t.at("saved_mean", "c")};
        for (${t.loop("n")})
            for (${t.loop("s")})
                ${t.at("Y", "n", "c", "s")} = (${t.at("X", "n", "c", "s")} - centre) * factor + shift;
    }
</%def>
