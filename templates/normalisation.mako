## Headers of loops around what follows.
<%def name="around(t, names)">
% for name in names:
    for (${t.loop(name)})
% endfor
</%def>
