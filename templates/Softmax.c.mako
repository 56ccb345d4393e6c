<%def name="main()">
<% input, output = t.at("input", "n", "a", "s"), t.at("output", "n", "a", "s") %>
    for (${t.loop("n")})
    for (${t.loop("s")}) {
        ${t.ctype("output")} largest = ${t.at("input", "n", t.begin("a"), "s")}, sum = 0;
        for (${t.loop("a")})
            largest = net_larger(${input}, largest);
        for (${t.loop("a")}) {
            const ${t.ctype("output")} power = net_exp(${input} - largest);
            sum += power;
            ${output} = power;
        }
        const ${t.ctype("output")} share = 1 / sum;
        for (${t.loop("a")})
            ${output} *= share;
    }
</%def>
