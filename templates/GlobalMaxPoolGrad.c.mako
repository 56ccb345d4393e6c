<%def name="main()">
    for (${t.loop("n")}) {
        int32_t winner = ${t.begin("s")};
        for (${t.loop("s")}) {
            winner = ${t.at("X", "n", "s")} > ${t.at("X", "n", "winner")} ? s : winner;
            ${t.at("dX", "n", "s")} = 0;
        }
        ${t.at("dX", "n", "winner")} = ${t.at("dY", "n")};
    }
</%def>
