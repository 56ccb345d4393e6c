<%! import math %>
<%namespace file="vector.mako" import="copy"/>
## Rows of the result: outside the data, or a run of them between two of the constant.
<%def name="main()">
<%
    names = [l.name for l in t.phase.loops]
    last, value = names[-1], call.operator.value(call)
    (read,), (write,) = t.phase.reads, t.phase.writes
    before = [-index.offset for index in read.index]
    inside = [
        f"{name} >= {start} && {name} < {start + extent}"
        for name, start, extent, l in zip(names[:-1], before, read.view, t.phase.loops) if extent < l.extent
    ]
    bits = {math.inf: "0x7f800000u", -math.inf: "0xff800000u"}.get(value, "0x7fc00000u")
    literal = c_float(value) if math.isfinite(value) else f"net_from_bits({bits})"
    end = f"net_min({t.end(last)}, {before[-1] + read.view[-1]})"
%>
    const ${t.ctype("output")} around = ${literal};
% for name in names[:-1]:
    for (${t.loop(name)})
% endfor
    {
        ${t.ctype("output")} *const row = &${t.at("output", *names[:-1], t.begin(last))};
        const int32_t begin = ${" && ".join(inside) + " ? " if inside else ""}net_min(net_max(${t.begin(last)}, ${before[-1]}), ${t.end(last)})${f" : {t.end(last)}" if inside else ""};
        const int32_t end = net_max(begin, ${end});
        for (int32_t i = ${t.begin(last)}; i < begin; ++i)
            row[i - ${t.begin(last)}] = around;
        if (begin < end)
${copy(t, last, ("output", names), ("data", t.index("data")), "begin", "end")}
        for (int32_t i = end; i < ${t.end(last)}; ++i)
            row[i - ${t.begin(last)}] = around;
    }
</%def>
