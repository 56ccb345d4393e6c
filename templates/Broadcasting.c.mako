<%namespace file="broadcast.mako" import="elementwise"/>
<%!
    from deeploy_ext.operators.expression import c_values, costly, operands_of

    def text_of(formula, inputs, literal):
        """A function from the C names of the inputs to the formula in C."""
        return lambda *names: c_values(formula, {}, literal, "C", dict(zip(inputs, names)))["C"]
%>
<%def name="main()">
<%
    formula = call.operator.value(call)
    inputs = operands_of(formula)
%>
${elementwise(t, inputs, "C", text_of(formula, inputs, c_float), call.operator.kernel_function, costly(formula))}
</%def>
