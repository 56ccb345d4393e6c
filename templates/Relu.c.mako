<%namespace file="vector.mako" import="run"/>
<%def name="main()">
${run(t, "net_relu", "i", ("i",), ("y", "x"))}
</%def>
