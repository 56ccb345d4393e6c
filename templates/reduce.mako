## Sum over the reduction loops, started on the first tile of the reduction and scaled on the last.
<%namespace file="vector.mako" import="run, zero, total"/>
<%def name="sum_of(t, data, result, scale=None)">
<%
    names = [l.name for l in t.phase.loops]
    kept = [l.name for l in t.phase.loops if l.kind == "parallel"]
    summed = [l.name for l in t.phase.loops if l.kind == "reduction"]
    target = t.at(result, *(kept or ["0"]))
%>
% for name in kept:
    for (${t.loop(name)})
% endfor
    {
% if summed[-1:] == names[-1:]:
${zero(t.ctype(result), "part")}
% for name in summed[:-1]:
        for (${t.loop(name)})
% endfor
${run(t, "net_sum", names[-1], names, (data,), ("part",))}
        const ${t.ctype(result)} sum = (range->first ? 0 : ${target}) + ${total("part")};
% else:
        ${t.ctype(result)} sum = range->first ? 0 : ${target};
% for name in summed:
        for (${t.loop(name)})
% endfor
            sum += ${t.at(data, *names)};
% endif
        ${target} = ${f"range->last ? sum * {scale} : sum" if scale else "sum"};
    }
</%def>
