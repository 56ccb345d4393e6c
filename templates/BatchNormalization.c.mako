<%namespace file="vector.mako" import="run"/>
<%! IMAGE = ("n", "c", "s") %>
<%def name="main()">
    for (${t.loop("c")}) {
        const ${t.ctype("X")} average = ${t.at("input_mean", "c")};
        const ${t.ctype("X")} inv_std = 1 / net_sqrt(${t.at("input_var", "c")} + ${c_float(call.attributes["epsilon"])});
        const ${t.ctype("X")} centre = net_far(average, inv_std), factor = ${t.at("scale", "c")} * inv_std;
        const ${t.ctype("X")} shift = ${t.at("B", "c")} - (average - centre) * factor;
        for (${t.loop("n")})
${run(t, "net_normalise", "s", IMAGE, ("Y", "X"), (), ("centre", "factor", "shift"))}
    }
</%def>
