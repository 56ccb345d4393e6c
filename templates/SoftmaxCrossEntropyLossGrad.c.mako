<%def name="main()">
<% share = c_float(1 / call["log_prob"].shape[0] if call.attributes["reduction"] == "mean" else 1.0) %>
    const ${t.ctype("d_scores")} factor = ${share} * dY[0];
    for (${t.loop("n")})
        for (${t.loop("c")}) {
            const ${t.ctype("d_scores")} truth = ${t.at("label", "n")} == c ? 1 : 0;
            ${t.at("d_scores", "n", "c")} = factor * (net_exp(${t.at("log_prob", "n", "c")}) - truth);
        }
</%def>
