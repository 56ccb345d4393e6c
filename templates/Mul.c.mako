<%namespace file="broadcast.mako" import="elementwise"/>
<%def name="main()">
${elementwise(t, ("A", "B"), "C", "{} * {}".format, "net_mul")}
</%def>
