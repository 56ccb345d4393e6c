<%def name="main()">
    for (${t.loop("i")}) {
        const ${t.ctype("x")} value = ${t.at("x", "i")};
        ${t.at("y", "i")} = value < 0 ? 0 : value; /* keeps NaN */
    }
</%def>
