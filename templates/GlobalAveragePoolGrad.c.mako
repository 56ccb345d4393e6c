<%namespace file="broadcast.mako" import="elementwise"/>
<%def name="main()">
<% share = c_float(call["dY"].elements / call["dX"].elements) %>
${elementwise(t, ("dY",), "dX", ("{} * " + share).format)}
</%def>
