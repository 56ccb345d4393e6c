<%def name="main()">
    for (${t.loop("c")}) {
        ${t.ctype("dB")} sum = range->first ? 0 : ${t.at("dB", "c")};
        for (${t.loop("n")})
            for (${t.loop("s")})
                sum += ${t.at("dY", "n", "c", "s")};
        ${t.at("dB", "c")} = sum;
    }
</%def>
