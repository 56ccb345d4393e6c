<%namespace file="vector.mako" import="row, zero, total"/>
<%def name="main()">
    for (${t.loop("c")}) {
${zero(t.ctype("dB"), "sum")}
        for (${t.loop("n")})
${row(t, "s", {"dY": ("n", "c", "s")}, ("dY",), sums={"sum": "dY"})}
        ${t.at("dB", "c")} = (range->first ? 0 : ${t.at("dB", "c")}) + ${total("sum")};
    }
</%def>
