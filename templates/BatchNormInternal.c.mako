<%namespace file="vector.mako" import="row, zero, total"/>
<%! IMAGE = ("n", "c", "s") %>
<%def name="mean()">
<% share = c_float(call["saved_mean"].elements / call["X"].elements) %>
    for (${t.loop("c")}) {
${zero(t.ctype("X"), "part")}
        for (${t.loop("n")})
${row(t, "s", {"X": IMAGE}, ("X",), sums={"part": "X"})}
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
${row(t, "s", {"X": IMAGE}, ("X",), {"centred": "X - centre"}, {"part": "centred * centred"})}
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
        const ${t.ctype("X")} factor = ${t.at("scale", "c")} * ${t.at("saved_inv_std", "c")};
        const ${t.ctype("X")} shift = ${t.at("B", "c")}, centre = ${t.at("saved_mean", "c")};
        for (${t.loop("n")})
${row(t, "s", {"X": IMAGE, "Y": IMAGE}, ("X",), {"centred": "X - centre", "Y": "centred * factor + shift"})}
    }
</%def>
