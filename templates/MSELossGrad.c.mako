<%namespace file="vector.mako" import="stream"/>
<%def name="main()">
    const ${t.ctype("d_prediction")} factor = ${c_float(2 / call["prediction"].elements)} * dY[0];
${stream(t, ("prediction", "target"), {"d_prediction": "factor * (prediction - target)"})}
</%def>
