<%namespace file="vector.mako" import="run, zero, total"/>
<%! IMAGE = ("n", "c", "s") %>
<%def name="sums()">
    for (${t.loop("c")}) {
        const ${t.ctype("X")} average = ${t.at("saved_mean", "c")}, inv_std = ${t.at("saved_inv_std", "c")};
        const ${t.ctype("X")} centre = net_far(average, inv_std);
${zero(t.ctype("X"), "plain", "product")}
        for (${t.loop("n")})
${run(t, "net_sum_products", "s", IMAGE, ("dY", "X"), ("plain", "product"), ("centre",))}
        const ${t.ctype("X")} sum = ${total("plain")};
        const ${t.ctype("X")} products = ${total("product")} - (average - centre) * sum;
        const ${t.ctype("X")} along = (range->first ? 0 : ${t.at("dscale", "c")}) + products;
        ${t.at("dscale", "c")} = range->last ? along * inv_std : along;
        ${t.at("dB", "c")} = (range->first ? 0 : ${t.at("dB", "c")}) + sum;
    }
</%def>
<%def name="apply()">
<% share = c_float(call["saved_mean"].elements / call["X"].elements) %>
    for (${t.loop("c")}) {
        const ${t.ctype("X")} average = ${t.at("saved_mean", "c")}, inv_std = ${t.at("saved_inv_std", "c")};
        const ${t.ctype("X")} centre = net_far(average, inv_std), factor = ${t.at("scale", "c")} * inv_std;
        const ${t.ctype("X")} slope = ${t.at("dscale", "c")} * ${share} * inv_std * factor;
        const ${t.ctype("X")} shift = ${t.at("dB", "c")} * ${share} * factor - (average - centre) * slope;
        for (${t.loop("n")})
${run(t, "net_project", "s", IMAGE, ("dX", "dY", "X"), (), ("centre", "factor", "shift", "slope"))}
    }
</%def>
