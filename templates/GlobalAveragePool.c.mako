<%namespace file="reduce.mako" import="sum_of"/>
<%def name="main()">
${sum_of(t, "X", "Y", c_float(call["Y"].elements / call["X"].elements))}
</%def>
