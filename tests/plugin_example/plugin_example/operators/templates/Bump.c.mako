<%namespace file="vector.mako" import="stream"/>
<%def name="main()">
${stream(t, ("x",), {"y": f"{c_float(call.attributes['height'])} * x / (1.0f + x * x)"})}
</%def>
