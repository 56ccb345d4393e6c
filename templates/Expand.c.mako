<%namespace file="broadcast.mako" import="elementwise"/>
<%def name="main()">
${elementwise(t, ("input",), "output", "{}".format, "net_copy")}
</%def>
