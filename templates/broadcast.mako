## An element-wise operator over the loops of the nest; operands repeat along axes where they have one element. `function`
## of elementwise.h does the same where none repeats along the last.
<%namespace file="vector.mako" import="row, run, walk"/>
<%def name="elementwise(t, inputs, output, formula, function=None, costly=False)">
<%
    names = [l.name for l in t.phase.loops]
    last = len(names) - 1
    along = [name for name in inputs if t.extent(name, last) > 1 or t.extent(output, last) == 1]
    value = formula(*(name if name in along else f"{name}_all" for name in inputs))
%>
% for name in names[:-1]:
    for (${t.loop(name)})
% endfor
    {
% for name in inputs:
% if name not in along:
        const ${t.ctype(name)} ${name}_all = ${t.at(name, *names[:-1], "0")};
% endif
% endfor
% if function and len(along) == len(inputs):
${run(t, function, names[-1], names, (output, *inputs))}
% else:
${(walk if costly else row)(t, names[-1], dict.fromkeys((*along, output), names), along, {output: value})}
% endif
    }
</%def>
