<%def name="scale_gradient()">
    for (${t.loop("c")}) {
        const ${t.ctype("X")} factor = 1 / net_sqrt(${t.at("var", "c")} + ${c_float(call.attributes["epsilon"])});
        const ${t.ctype("X")} centre = ${t.at("mean", "c")};
        ${t.ctype("X")} sum = range->first ? 0 : ${t.at("dscale", "c")};
        for (${t.loop("n")})
            for (${t.loop("s")})
                sum += ${t.at("dY", "n", "c", "s")} * ((${t.at("X", "n", "c", "s")} - centre) * factor);
        ${t.at("dscale", "c")} = sum;
    }
</%def>
<%def name="bias_gradient()">
    for (${t.loop("c")}) {
        ${t.ctype("dY")} sum = range->first ? 0 : ${t.at("dB", "c")};
        for (${t.loop("n")})
            for (${t.loop("s")})
                sum += ${t.at("dY", "n", "c", "s")};
        ${t.at("dB", "c")} = sum;
    }
</%def>
<%def name="input_gradient()">
    for (${t.loop("c")}) {
        const ${t.ctype("dY")} slope = ${t.at("scale", "c")} / net_sqrt(${t.at("var", "c")} + ${c_float(call.attributes["epsilon"])});
        for (${t.loop("n")})
            for (${t.loop("s")})
                ${t.at("dX", "n", "c", "s")} = ${t.at("dY", "n", "c", "s")} * slope;
    }
</%def>
