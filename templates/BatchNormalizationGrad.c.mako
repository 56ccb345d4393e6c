<%namespace file="vector.mako" import="row, zero, total"/>
<%! IMAGE = ("n", "c", "s") %>
<%def name="sums()">
    for (${t.loop("c")}) {
        const ${t.ctype("X")} centre = ${t.at("saved_mean", "c")};
${zero(t.ctype("X"), "plain", "product")}
        for (${t.loop("n")})
${row(t, "s", {"dY": IMAGE, "X": IMAGE}, ("dY", "X"), {"centred": "X - centre"}, {"plain": "dY", "product": "dY * centred"})}
        const ${t.ctype("X")} sum = (range->first ? 0 : ${t.at("dscale", "c")}) + ${total("product")};
        ${t.at("dscale", "c")} = range->last ? sum * ${t.at("saved_inv_std", "c")} : sum;
        ${t.at("dB", "c")} = (range->first ? 0 : ${t.at("dB", "c")}) + ${total("plain")};
    }
</%def>
<%def name="apply()">
<% share = c_float(call["saved_mean"].elements / call["X"].elements) %>
    for (${t.loop("c")}) {
        const ${t.ctype("X")} centre = ${t.at("saved_mean", "c")}, inv_std = ${t.at("saved_inv_std", "c")};
        const ${t.ctype("X")} factor = ${t.at("scale", "c")} * inv_std;
        const ${t.ctype("X")} shift = ${t.at("dB", "c")} * ${share} * factor;
        const ${t.ctype("X")} slope = ${t.at("dscale", "c")} * ${share} * inv_std * factor;
        for (${t.loop("n")})
${row(t, "s", {"dY": IMAGE, "X": IMAGE, "dX": IMAGE}, ("dY", "X"), {"scaled": "dY * factor - shift", "centred": "X - centre", "dX": "scaled - centred * slope"})}
    }
</%def>
