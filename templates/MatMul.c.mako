## Products of stacks of matrices: the loops m, n, k come last, those before choose the matrices.
<%def name="main()">
<%
    t.kernels["gemm"] = ("gemm.h", "")
    stack = [l.name for l in t.phase.loops][:-3]
    alpha = call.attributes.get("alpha", 1.0)
    axes = {"m": t.begin("m"), "n": t.begin("n"), "k": t.begin("k")}
    rank = len(stack)
    index = {name: t.index(name) for name in ("A", "B", "Y")}
    def address(operand):
        return f"&{t.at(operand, *index[operand][:rank], *(axes[text] for text in index[operand][rank:]))}"
    def stride(operand, loop):
        return t.stride(operand, rank + index[operand][rank:].index(loop))
%>
% for name in stack:
    for (${t.loop(name)})
% endfor
% if t.variant() == "blocked":
    {
        ${t.ctype("Y")} *const y = ${address("Y")};
        const net_gemm_t gemm = {
            .a = ${address("A")},
            .b = ${address("B")},
            .start = range->first ? NULL : y,
            .y = y,
            .m = ${t.count("m")},
            .n = ${t.count("n")},
            .k = ${t.count("k")},
            .a_m = ${stride("A", "m")},
            .a_k = ${stride("A", "k")},
            .b_k = ${stride("B", "k")},
            .b_n = ${stride("B", "n")},
            .start_m = ${stride("Y", "m")},
            .start_n = 1,
            .y_m = ${stride("Y", "m")},
        };
        net_gemm(range->core, range->cores, &gemm);
    }
% else:
    for (${t.loop("m")})
    for (${t.loop("n")}) {
        ${t.ctype("Y")} sum = 0;
        for (${t.loop("k")})
            sum += ${t.at("A", *index["A"])} * ${t.at("B", *index["B"])};
        ${t.at("Y", *index["Y"])} = (range->first ? 0 : ${t.at("Y", *index["Y"])}) + ${"sum" if alpha == 1.0 else f"{c_float(alpha)} * sum"};
    }
% endif
</%def>
