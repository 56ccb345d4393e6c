<%namespace file="vector.mako" import="run"/>
<%def name="main()">
    const ${t.ctype("learning_rate")} rate = learning_rate[0];
${run(t, "net_descend", "i", ("i",), ("updated", "weight", "gradient"), (), ("rate",))}
</%def>
