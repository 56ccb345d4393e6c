<%namespace file="vector.mako" import="stream"/>
<%def name="main()">
<% height = c_float(call.attributes["height"]) %>
${stream(t, ("dy", "x"), {"dx": f"dy * {height} * (1.0f - x * x) / ((1.0f + x * x) * (1.0f + x * x))"})}
</%def>
