<%def name="main()">
    const ${t.ctype("learning_rate")} rate = learning_rate[0];
    for (${t.loop("i")})
        ${t.at("updated", "i")} = ${t.at("weight", "i")} - rate * ${t.at("gradient", "i")};
</%def>
