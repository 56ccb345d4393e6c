<%def name="main()">
<%
    a = call.attributes
    left = t.at("A", *(("k", "m") if a["transA"] else ("m", "k")))
    right = t.at("B", *(("n", "k") if a["transB"] else ("k", "n")))
    scale = lambda factor, text: text if factor == 1.0 else f"{c_float(factor)} * {text}"
    seed = scale(a["beta"], t.at("C", "m", "n")) if t.has("C") else "0"
%>
    for (${t.loop("m")})
        for (${t.loop("n")}) {
            ${t.ctype("Y")} sum = 0;
            for (${t.loop("k")})
                sum += ${left} * ${right};
            ${t.at("Y", "m", "n")} = (range->first ? ${seed} : ${t.at("Y", "m", "n")}) + ${scale(a["alpha"], "sum")};
        }
</%def>
