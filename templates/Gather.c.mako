<%namespace file="gather.mako" import="row_number"/>
<%namespace file="vector.mako" import="copy"/>
<%def name="main()">
    for (${t.loop("n")})
    for (${t.loop("i")}) {
${row_number(t, "data")}
${copy(t, "s", ("output", ("n", "i", "s")), ("data", ("n", "row", "s")))}
    }
</%def>
