<%namespace file="vector.mako" import="copy"/>
## Each element of the result is one of the data: that which the access relation says.
<%def name="main()">
<%
    (read,), (write,) = t.phase.reads, t.phase.writes
    names = [l.name for l in t.phase.loops]
    source, result = t.index(read.operand), t.index(write.operand)
    last = names[-1]
    run = source[-1].split(" + ")[0] == last and not any(last in text.split(" ") for text in source[:-1])
%>
% for name in names[:-1] if run else names:
    for (${t.loop(name)})
% endfor
% if run:
${copy(t, last, (write.operand, result), (read.operand, source))}
% else:
        ${t.at(write.operand, *result)} = ${t.at(read.operand, *source)};
% endif
</%def>
