<%def name="main()">
<% input = t.at("input", "n", "a", "s") %>
    for (${t.loop("n")})
    for (${t.loop("s")}) {
        ${t.ctype("output")} largest = ${t.at("input", "n", t.begin("a"), "s")}, sum = 0;
        for (${t.loop("a")})
            largest = net_larger(${input}, largest);
        for (${t.loop("a")})
            sum += net_exp(${input} - largest);
        const ${t.ctype("output")} offset = largest + net_log(sum);
        for (${t.loop("a")})
            ${t.at("output", "n", "a", "s")} = ${input} - offset;
    }
</%def>
