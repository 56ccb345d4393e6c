<%namespace file="vector.mako" import="run"/>
<%def name="main()">
    if (reset[0])
${run(t, "net_copy", "i", ("i",), ("buffer_out", "value"))}
    else
${run(t, "net_add", "i", ("i",), ("buffer_out", "buffer", "value"))}
</%def>
