<%namespace file="vector.mako" import="row, run, zero, total"/>
<%! IMAGE = ("n", "c", "s") %>
<%def name="scale_gradient()">
    for (${t.loop("c")}) {
        const ${t.ctype("X")} centre = ${t.at("mean", "c")};
${zero(t.ctype("X"), "product")}
        for (${t.loop("n")})
${row(t, "s", {"dY": IMAGE, "X": IMAGE}, ("dY", "X"), {"centred": "X - centre"}, {"product": "dY * centred"})}
        const ${t.ctype("X")} sum = (range->first ? 0 : ${t.at("dscale", "c")}) + ${total("product")};
        ${t.at("dscale", "c")} = range->last ? sum / net_sqrt(${t.at("var", "c")} + ${c_float(call.attributes["epsilon"])}) : sum;
    }
</%def>
<%def name="bias_gradient()">
    for (${t.loop("c")}) {
${zero(t.ctype("dY"), "sum")}
        for (${t.loop("n")})
${run(t, "net_sum", "s", IMAGE, ("dY",), ("sum",))}
        ${t.at("dB", "c")} = (range->first ? 0 : ${t.at("dB", "c")}) + ${total("sum")};
    }
</%def>
<%def name="input_gradient()">
    for (${t.loop("c")}) {
        const ${t.ctype("dY")} slope = ${t.at("scale", "c")} / net_sqrt(${t.at("var", "c")} + ${c_float(call.attributes["epsilon"])});
        for (${t.loop("n")})
${row(t, "s", {"dY": IMAGE, "dX": IMAGE}, ("dY",), {"dX": "dY * slope"})}
    }
</%def>
