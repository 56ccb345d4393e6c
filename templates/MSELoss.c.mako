<%namespace file="vector.mako" import="row, zero, total"/>
<%def name="main()">
${zero(t.ctype("loss"), "squares")}
${row(t, "i", {"prediction": ("i",), "target": ("i",)}, ("prediction", "target"), {"difference": "prediction - target"}, {"squares": "difference * difference"})}
    const ${t.ctype("loss")} sum = (range->first ? 0 : loss[0]) + ${total("squares")};
    loss[0] = range->last ? sum * ${c_float(1 / call["prediction"].elements)} : sum;
</%def>
