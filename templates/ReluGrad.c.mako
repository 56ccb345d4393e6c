<%namespace file="vector.mako" import="run"/>
<%def name="main()">
${run(t, "net_relu_grad", "i", ("i",), ("dx", "dy", "y"))}
</%def>
