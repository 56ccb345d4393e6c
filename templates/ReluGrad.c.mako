<%def name="main()">
    for (${t.loop("i")})
        ${t.at("dx", "i")} = ${t.at("y", "i")} > 0 ? ${t.at("dy", "i")} : 0;
</%def>
