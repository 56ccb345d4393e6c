<%namespace file="reduce.mako" import="sum_of"/>
<%def name="main()">
${sum_of(t, "data", "reduced", c_float(call.operator.share(call)))}
</%def>
