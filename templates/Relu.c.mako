<%namespace file="vector.mako" import="stream"/>
<%def name="main()">
${stream(t, ("x",), {"y": "net_from_bits(x) < 0 ? 0 : x"}, bits=("x", "y"))} /* keeps NaN */
</%def>
