<%namespace file="vector.mako" import="row, walk"/>
<%!
    from deeploy_ext.operators.expression import c_values, costly
%>
<%def name="main()">
<%
    operator, result = call.operator, call.operator.outputs[0]
    formula = operator.value(call)
    scalars = [name for name in operator.scalars if t.has(name)]
    reads = [name for name in operator.inputs if name not in operator.scalars]
    index = {name: ("i",) for name in (*reads, result)}
    values = c_values(formula, call.attributes, c_float, result, {name: f"{name}_all" for name in scalars})
%>
% for name in scalars:
    const ${t.ctype(name)} ${name}_all = ${name}[0];
% endfor
% if costly(formula):
${walk(t, "i", index, reads, values)}
% else:
${row(t, "i", index, reads, values)}
% endif
</%def>
