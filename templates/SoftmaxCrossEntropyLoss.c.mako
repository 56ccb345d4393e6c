<%def name="log_softmax()">
    for (${t.loop("n")}) {
        ${t.ctype("scores")} largest = ${t.at("scores", "n", t.begin("c"))}, sum = 0;
        for (${t.loop("c")})
            largest = ${t.at("scores", "n", "c")} > largest ? ${t.at("scores", "n", "c")} : largest;
        for (${t.loop("c")})
            sum += net_exp(${t.at("scores", "n", "c")} - largest);
        const ${t.ctype("scores")} offset = largest + net_log(sum);
        for (${t.loop("c")})
            ${t.at("log_prob", "n", "c")} = ${t.at("scores", "n", "c")} - offset;
    }
</%def>
<%def name="loss()">
<% scale = c_float(1 / call["scores"].shape[0] if call.attributes["reduction"] == "mean" else 1.0) %>
    ${t.ctype("output")} sum = range->first ? 0 : output[0];
    for (${t.loop("n")})
        sum -= ${t.at("log_prob", "n", t.at("labels", "n"))};
    output[0] = range->last ? sum * ${scale} : sum;
</%def>
