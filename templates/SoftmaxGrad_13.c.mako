<%def name="main()">
<% dy, y = t.at("dY", "n", "a", "s"), t.at("Y", "n", "a", "s") %>
    for (${t.loop("n")})
    for (${t.loop("s")}) {
        ${t.ctype("dX")} sum = 0;
        for (${t.loop("a")})
            sum += ${dy} * ${y};
        for (${t.loop("a")})
            ${t.at("dX", "n", "a", "s")} = ${y} * (${dy} - sum);
    }
</%def>
