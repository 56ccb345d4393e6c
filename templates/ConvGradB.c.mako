<%namespace file="vector.mako" import="run, zero, total"/>
<%def name="main()">
    for (${t.loop("c")}) {
${zero(t.ctype("dB"), "sum")}
        for (${t.loop("n")})
${run(t, "net_sum", "s", ("n", "c", "s"), ("dY",), ("sum",))}
        ${t.at("dB", "c")} = (range->first ? 0 : ${t.at("dB", "c")}) + ${total("sum")};
    }
</%def>
