<%namespace file="vector.mako" import="row, run, zero, total"/>
<%namespace file="normalisation.mako" import="around"/>
## Statistics of a row, by their names.
<%def name="statistics(t, rows)">
        const ${t.ctype("X")} centre = ${t.at("mean", *rows) if t.has("mean") else 0}, inv_std_all = ${t.at("inv_std", *rows)};
</%def>
<%def name="sums()">
<%
    layout = call.operator.layout(call)
    rows, inside, weights = list(layout.rows), list(layout.inside), layout.weights
    image, ctype = rows + inside, t.ctype("X")
    index = {"dY": image, "X": image, "scale": weights}
%>
${around(t, rows)}
    {
${statistics(t, rows)}
% if weights == ("s",):
${zero(ctype, "plain", "along")}
${row(t, "s", index, list(index), {"weighted": "dY * scale"}, {"plain": "weighted", "along": "weighted * (X - centre)"})}
        const ${ctype} sums = ${total("plain")}, products = ${total("along")};
% else:
        ${ctype} sums = 0, products = 0;
${around(t, inside[:-1])}
        {
            const ${ctype} weight = ${t.at("scale", *weights)};
${zero(ctype, "plain", "along")}
${run(t, "net_sum_products", "s", image, ("dY", "X"), ("plain", "along"), ("centre",))}
            sums += weight * ${total("plain")};
            products += weight * ${total("along")};
        }
% endif
% if t.has("sum"):
        ${t.at("sum", *rows)} = (range->first ? 0 : ${t.at("sum", *rows)}) + sums;
% else:
        (void)sums; /* nothing depends on the mean */
% endif
        ${t.at("product", *rows)} = (range->first ? 0 : ${t.at("product", *rows)}) + products * inv_std_all;
    }
</%def>
<%def name="input()">
<%
    layout = call.operator.layout(call)
    rows, inside, weights = list(layout.rows), list(layout.inside), layout.weights
    image, ctype = rows + inside, t.ctype("X")
    share = c_float(call["product"].elements / call["X"].elements)
    index = {"dY": image, "X": image, "scale": weights, "dX": image}
%>
${around(t, rows)}
    {
${statistics(t, rows)}
        const ${ctype} shift = ${f"{t.at('sum', *rows)} * {share} * inv_std_all" if t.has("sum") else 0};
        const ${ctype} slope = ${t.at("product", *rows)} * ${share} * inv_std_all * inv_std_all;
% if weights == ("s",):
${row(t, "s", index, ["dY", "X", "scale"], {"dX": "dY * scale * inv_std_all - shift - (X - centre) * slope"})}
% else:
${around(t, inside[:-1])}
        {
            const ${ctype} factor = ${t.at("scale", *weights)} * inv_std_all;
${run(t, "net_project", "s", image, ("dX", "dY", "X"), (), ("centre", "factor", "shift", "slope"))}
        }
% endif
    }
</%def>
<%def name="parameters()">
<%
    layout = call.operator.layout(call)
    rows, inside, weights = list(layout.rows), list(layout.inside), layout.weights
    image, ctype = rows + inside, t.ctype("X")
    made = [name for name in ("dscale", "dB") if t.has(name)]
    targets = {name: t.at(name, *weights) for name in made}
%>
% if weights == ("s",):
    if (range->first)
        for (${t.loop("s")}) {
% for target in targets.values():
            ${target} = 0;
% endfor
        }
    for (${t.loop("n")}) {
${statistics(t, rows)}
        for (${t.loop("s")}) {
            const ${ctype} slope = ${t.at("dY", *image)};
% if "dscale" in made:
            ${targets["dscale"]} += slope * (${t.at("X", *image)} - centre) * inv_std_all;
% endif
% if "dB" in made:
            ${targets["dB"]} += slope;
% endif
        }
    }
% else:
${around(t, weights)}
    {
        ${ctype} sums = 0, products = 0;
        for (${t.loop("n")}) {
${statistics(t, rows)}
${zero(ctype, "plain", "along")}
${run(t, "net_sum_products", "s", image, ("dY", "X"), ("plain", "along"), ("centre",))}
            sums += ${total("plain")};
            products += ${total("along")} * inv_std_all;
        }
% if "dscale" in made:
        ${targets["dscale"]} = (range->first ? 0 : ${targets["dscale"]}) + products;
% endif
% if "dB" in made:
        ${targets["dB"]} = (range->first ? 0 : ${targets["dB"]}) + sums;
% endif
    }
% endif
</%def>
