<%namespace file="reduce.mako" import="sum_of"/>
<%namespace file="vector.mako" import="row, run, zero, total"/>
<%namespace file="normalisation.mako" import="around"/>
<%def name="mean()">
${sum_of(t, "X", "mean", c_float(call["mean"].elements / call["X"].elements))}
</%def>
<%def name="deviation()">
<%
    layout = call.operator.layout(call)
    rows, inside = list(layout.rows), list(layout.inside)
    target = t.at("inv_std", *rows)
    share, epsilon = c_float(call["inv_std"].elements / call["X"].elements), c_float(call.attributes["epsilon"])
%>
${around(t, rows)}
    {
        const ${t.ctype("X")} centre = ${t.at("mean", *rows) if t.has("mean") else 0};
${zero(t.ctype("X"), "part")}
${around(t, inside[:-1])}
${run(t, "net_sum_squares", "s", rows + inside, ("X",), ("part",), ("centre",))}
        const ${t.ctype("X")} sum = (range->first ? 0 : ${target}) + ${total("part")};
        ${target} = range->last ? 1 / net_sqrt(sum * ${share} + ${epsilon}) : sum;
    }
</%def>
<%def name="normalise()">
<%
    layout = call.operator.layout(call)
    rows, inside, weights = list(layout.rows), list(layout.inside), layout.weights
    image = rows + inside
    biased = t.has("B")
    def plus(text, bias):
        return f"{text} + {bias}" if biased else text
%>
${around(t, rows)}
    {
        const ${t.ctype("X")} centre = ${t.at("mean", *rows) if t.has("mean") else 0}, inv_std_all = ${t.at("inv_std", *rows)};
% if weights == ("s",):
<%
    index = {"X": image, "Y": image, "scale": weights} | ({"B": weights} if biased else {})
    reads = [name for name in index if name != "Y"]
%>
${row(t, "s", index, reads, {"Y": plus("(X - centre) * inv_std_all * scale", "B")})}
% else:
${around(t, inside[:-1])}
        {
            const ${t.ctype("X")} factor = ${t.at("scale", *weights)} * inv_std_all, shift = ${t.at("B", *weights)};
${run(t, "net_normalise", "s", image, ("Y", "X"), (), ("centre", "factor", "shift"))}
        }
% endif
    }
</%def>
