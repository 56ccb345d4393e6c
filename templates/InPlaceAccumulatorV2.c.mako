<%namespace file="vector.mako" import="stream"/>
<%def name="main()">
    if (reset[0])
${stream(t, ("value",), {"buffer_out": "value"})}
    else
${stream(t, ("buffer", "value"), {"buffer_out": "buffer + value"})}
</%def>
