<%namespace file="vector.mako" import="stream"/>
<%def name="main()">
${stream(t, ("dy", "y"), {"dx": "y > 0 ? dy : 0"}, bits=("dy", "dx"))}
</%def>
