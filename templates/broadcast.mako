## An element-wise operator over the loops of the nest; operands repeat along axes where they have one element.
<%def name="elementwise(t, inputs, output, formula)">
<% names = [l.name for l in t.phase.loops] %>
% for name in names:
    for (${t.loop(name)})
% endfor
        ${t.at(output, *names)} = ${formula(*(t.at(operand, *names) for operand in inputs))};
</%def>
