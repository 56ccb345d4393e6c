<%namespace file="gather.mako" import="row_number"/>
<%def name="main()">
    for (${t.loop("n")}) {
        if (range->first)
            for (int32_t row = 0; row < ${t.extent("dX", 1)}; ++row)
                for (${t.loop("s")})
                    ${t.at("dX", "n", "row", "s")} = 0;
        for (${t.loop("i")}) {
${row_number(t, "dX")}
            for (${t.loop("s")})
                ${t.at("dX", "n", "row", "s")} += ${t.at("dY", "n", "i", "s")};
        }
    }
</%def>
