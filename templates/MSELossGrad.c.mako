<%def name="main()">
    const ${t.ctype("d_prediction")} factor = ${c_float(2 / call["prediction"].elements)} * dY[0];
    for (${t.loop("i")})
        ${t.at("d_prediction", "i")} = factor * (${t.at("prediction", "i")} - ${t.at("target", "i")});
</%def>
