<%def name="main()">
<% share = c_float(1 / call["log_prob"].shape[0] if call.attributes["reduction"] == "mean" else 1.0) %>
    const ${t.ctype("d_scores")} factor = ${share} * dY[0];
    for (${t.loop("n")}) {
        const int32_t truth = ${t.at("label", "n")};
        ${t.ctype("d_scores")} rest = 0; /* probability of all other classes: 1 - p[truth] without cancellation */
        for (${t.loop("c")})
            if (c != truth) {
                const ${t.ctype("d_scores")} probability = net_exp(${t.at("log_prob", "n", "c")});
                ${t.at("d_scores", "n", "c")} = factor * probability;
                rest += probability;
            }
        ${t.at("d_scores", "n", "truth")} = -factor * rest;
    }
</%def>
