<%namespace file="vector.mako" import="stream"/>
<%def name="main()">
    const ${t.ctype("learning_rate")} rate = learning_rate[0];
${stream(t, ("weight", "gradient"), {"updated": "weight - rate * gradient"})}
</%def>
