<%def name="sums()">
    for (${t.loop("c")}) {
        const ${t.ctype("X")} centre = ${t.at("saved_mean", "c")}, inv_std = ${t.at("saved_inv_std", "c")};
        ${t.ctype("X")} sum_dy = range->first ? 0 : ${t.at("dB", "c")};
        ${t.ctype("X")} sum_product = range->first ? 0 : ${t.at("dscale", "c")};
        for (${t.loop("n")})
            for (${t.loop("s")}) {
                const ${t.ctype("X")} dy = ${t.at("dY", "n", "c", "s")};
                sum_dy += dy;
                sum_product += dy * ((${t.at("X", "n", "c", "s")} - centre) * inv_std);
            }
        ${t.at("dB", "c")} = sum_dy;
        ${t.at("dscale", "c")} = sum_product;
    }
</%def>
<%def name="apply()">
<% share = c_float(call["saved_mean"].elements / call["X"].elements) %>
    for (${t.loop("c")}) {
        const ${t.ctype("X")} centre = ${t.at("saved_mean", "c")}, inv_std = ${t.at("saved_inv_std", "c")};
        const ${t.ctype("X")} factor = ${t.at("scale", "c")} * inv_std;
        const ${t.ctype("X")} mean_dy = ${t.at("dB", "c")} * ${share};
        const ${t.ctype("X")} slope = ${t.at("dscale", "c")} * ${share} * inv_std;
        for (${t.loop("n")})
            for (${t.loop("s")})
                ${t.at("dX", "n", "c", "s")} =
                    factor * (${t.at("dY", "n", "c", "s")} - mean_dy - (${t.at("X", "n", "c", "s")} - centre) * slope);
    }
</%def>
