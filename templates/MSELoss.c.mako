<%def name="main()">
    ${t.ctype("loss")} sum = range->first ? 0 : loss[0];
    for (${t.loop("i")}) {
        const ${t.ctype("loss")} difference = ${t.at("prediction", "i")} - ${t.at("target", "i")};
        sum += difference * difference;
    }
    loss[0] = range->last ? sum * ${c_float(1 / call["prediction"].elements)} : sum;
</%def>
