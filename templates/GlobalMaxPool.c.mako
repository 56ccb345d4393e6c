<%def name="main()">
<%
    kept = [l.name for l in t.phase.loops if l.kind == "parallel"]
    reduced = [l.name for l in t.phase.loops if l.kind == "reduction"]
    target = t.at("Y", *(kept or ["0"]))
    first = [t.begin(name) if name in reduced else name for name in t.index("X")]
%>
% for name in kept:
    for (${t.loop(name)})
% endfor
    {
        ${t.ctype("Y")} largest = range->first ? ${t.at("X", *first)} : ${target};
% for name in reduced:
        for (${t.loop(name)})
% endfor
            largest = net_larger(${t.at("X", *t.index("X"))}, largest);
        ${target} = largest;
    }
</%def>
