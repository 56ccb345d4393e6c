<%namespace file="vector.mako" import="row"/>
<%! IMAGE = ("n", "c", "s") %>
<%def name="main()">
    for (${t.loop("c")}) {
        const ${t.ctype("X")} factor = ${t.at("scale", "c")} / net_sqrt(${t.at("input_var", "c")} + ${c_float(call.attributes["epsilon"])});
        const ${t.ctype("X")} shift = ${t.at("B", "c")}, centre = ${t.at("input_mean", "c")};
        for (${t.loop("n")})
${row(t, "s", {"X": IMAGE, "Y": IMAGE}, ("X",), {"centred": "X - centre", "Y": "centred * factor + shift"})}
    }
</%def>
