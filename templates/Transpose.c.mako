<%def name="main()">
<%
    perm = list(call.attributes["perm"]) or list(range(len(call["data"].shape)))[::-1]
    names = [l.name for l in t.phase.loops]
    source = [names[perm.index(i)] for i in range(len(perm))] or names
%>
% for name in names:
    for (${t.loop(name)})
% endfor
        ${t.at("transposed", *names)} = ${t.at("data", *source)};
</%def>
