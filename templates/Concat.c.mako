<%! from itertools import accumulate %>
<%namespace file="vector.mako" import="copy"/>
<%def name="main()">
<%
    reads = t.phase.reads
    ends = list(accumulate(read.view[1] for read in reads))
    parts = [(read.operand, end - read.view[1], end) for read, end in zip(reads, ends)]
%>
    for (${t.loop("n")}) {
% for operand, start, end in parts:
        {
            const int32_t begin = net_max(${t.begin("s")}, ${start}), end = net_min(${t.end("s")}, ${end});
            if (begin < end)
${copy(t, "s", ("concat_result", ("n", "s")), (operand, ("n", f"s - {start}" if start else "s")), "begin", "end")}
        }
% endfor
    }
</%def>
