<%!
    ROWS, COLUMNS = 2, 4  # of a block of sums

    def plus(name, step):
        return f"{name} + {step}" if step else name

    class Side:
        """How the blocks read A or B: `name`_0, .. point to the first value of k, one per row or, where k is the matrix'
        first axis and rows therefore are neighbours, one for all of them."""

        def __init__(self, t, operand, outer, count, k_first):
            k = t.begin("k")
            starts = [t.at(operand, k, outer)] if k_first else [t.at(operand, plus(outer, i), k) for i in range(count)]
            self.operand, self.count, self.k_first = operand, count, k_first
            self.names = [f"{operand}_{i}" for i in range(len(starts))]
            self.pointers = ", ".join(f"*{operand}_{i} = &{start}" for i, start in enumerate(starts))
            self.step = t.stride(operand, 0)
            self.opaque = t.opaque(f"{operand}_0")

        def value(self, i, k):
            return f"{self.operand.lower()}{i}_{k}"

        def load(self, ctype, i, k):
            source = f"{self.operand}_0[{i}]" if self.k_first else f"{self.operand}_{i}[{k}]"
            return f"const {ctype} {self.value(i, k)} = {source};"

        def next(self):
            return [f"{self.operand}_0 += {self.step};", self.opaque] if self.k_first else []

        def advance(self, ks):
            return [] if self.k_first else [f"{self.operand}_{i} += {ks};" for i in range(self.count)]

    def turn(t, left, right, ks):
        """Lines that add the products of `ks` values of k to the sums."""
        ctype, rows, columns = t.ctype("Y"), range(left.count), range(right.count)
        def product(i, j, k):
            return f"sum{i}{j} += {left.value(i, k)} * {right.value(j, k)};"
        if left.k_first or right.k_first:  # one value of k after the other
            loads = [
                [*(left.load(ctype, i, k) for i in rows), *left.next(), *(right.load(ctype, j, k) for j in columns), *right.next()]
                for k in range(ks)
            ]
            lines = t.interleaved(loads, [[product(i, j, k) for i in rows for j in columns] for k in range(ks)])
        else:  # one row of B after the other: its values lie in different banks
            lines = [left.load(ctype, i, k) for i in rows for k in range(ks)]
            loads = [[right.load(ctype, j, k) for k in range(ks)] for j in columns]
            lines += t.interleaved(loads, [[product(i, j, k) for k in range(ks) for i in rows] for j in columns])
        return lines + left.advance(ks) + right.advance(ks)
%>
## A block of `rows` x `columns` sums at (m, n). Every sum runs over k in order with one accumulator, so that it does not
## matter which block computes it.
<%def name="block(t, a, rows, columns, store)">
<%
    left, right = Side(t, "A", "m", rows, bool(a["transA"])), Side(t, "B", "n", columns, not a["transB"])
    ctype, cells = t.ctype("Y"), [(i, j) for i in range(rows) for j in range(columns)]
    ks = 4
%>
    {
        const ${ctype} ${left.pointers};
        const ${ctype} ${right.pointers};
        ${ctype} ${", ".join(f"sum{i}{j} = 0" for i, j in cells)};
        ${t.opaque(*left.names, *right.names)}
        int32_t left = ${t.end("k")} - ${t.begin("k")};
        for (; left >= ${ks}; left -= ${ks}) {
% for line in turn(t, left, right, ks):
            ${line}
% endfor
        }
        for (; left > 0; --left) {
% for line in turn(t, left, right, 1):
            ${line}
% endfor
        }
        if (range->first) {
% for i, j in cells:
            ${store(plus("m", i), plus("n", j), f"sum{i}{j}", True)}
% endfor
        } else {
% for i, j in cells:
            ${store(plus("m", i), plus("n", j), f"sum{i}{j}", False)}
% endfor
        }
    }
</%def>
<%def name="band(t, a, rows, store)">
    int32_t n = ${t.begin("n")};
    for (; n + ${COLUMNS} <= ${t.end("n")}; n += ${COLUMNS})
${block(t, a, rows, COLUMNS, store)}
    for (; n < ${t.end("n")}; ++n)
${block(t, a, rows, 1, store)}
</%def>
## k has one value (the gradient of a weight, one sample): Y = A' * B' without sums.
<%def name="outer_product(t, a, rows)">
<%
    k, ctype = t.begin("k"), t.ctype("Y")
%>
    {
        const ${ctype} ${", ".join(f"a{i} = {t.at('A', *((k, plus('m', i)) if a['transA'] else (plus('m', i), k)))}" for i in range(rows))};
        const ${ctype} *B_0 = &${t.at("B", *((t.begin("n"), k) if a["transB"] else (k, t.begin("n"))))}, *const end = B_0 + (${t.end("n")} - ${t.begin("n")});
        const ${ctype} *const stop = end - (${t.end("n")} - ${t.begin("n")}) % ${COLUMNS};
        ${ctype} ${", ".join(f"*Y_{i} = &{t.at('Y', plus('m', i), t.begin('n'))}" for i in range(rows))};
        while (B_0 != stop) {
            const ${ctype} ${", ".join(f"b{j} = B_0[{j}]" for j in range(COLUMNS))};
% for i in range(rows):
            ${" ".join(f"Y_{i}[{j}] = a{i} * b{j};" for j in range(COLUMNS))}
% endfor
            B_0 += ${COLUMNS};
            ${" ".join(f"Y_{i} += {COLUMNS};" for i in range(rows))}
        }
        for (; B_0 != end; ++B_0) {
            ${" ".join(f"*Y_{i}++ = a{i} * *B_0;" for i in range(rows))}
        }
    }
</%def>
<%def name="blocked(a)">
<%
    t.kernels["gemm"] = ("gemm.h", "")
    axes = {"m": t.begin("m"), "n": t.begin("n"), "k": t.begin("k")}
    def strides(operand, first, second):
        return {first: t.stride(operand, 0), second: t.stride(operand, 1)}
    left = strides("A", *("km" if a["transA"] else "mk"))
    right = strides("B", *("nk" if a["transB"] else "kn"))
    def address(operand, names):
        return f"&{t.at(operand, *(axes[name] for name in names))}"
    bias = [t.stride("C", i) if t.extent("C", i) > 1 else "0" for i in range(2)] if t.has("C") else ["0", "0"]
%>
    const bool first = range->first;
    ${t.ctype("Y")} *const y = ${address("Y", "mn")};
    const net_gemm_t gemm = {
        .a = ${address("A", left)},
        .b = ${address("B", right)},
        .start = first ? ${address("C", "mn") if t.has("C") else "NULL"} : y,
        .y = y,
        .m = ${t.count("m")},
        .n = ${t.count("n")},
        .k = ${t.count("k")},
        .a_m = ${left["m"]},
        .a_k = ${left["k"]},
        .b_k = ${right["k"]},
        .b_n = ${right["n"]},
        .start_m = first ? ${bias[0]} : ${t.stride("Y", 0)},
        .start_n = first ? ${bias[1]} : 1,
        .y_m = ${t.stride("Y", 0)},
    };
    net_gemm(range->core, range->cores, &gemm);
</%def>
<%def name="vector(a, kind)">
<%
    t.kernels["vector"] = ("gemm_vector.h", "")
    m, n, k = (t.begin(name) for name in "mnk")
    outer = kind == "outer"
    left, right = t.at("A", *((k, m) if a["transA"] else (m, k))), t.at("B", *((n, k) if a["transB"] else (k, n)))
    w, x = (left, right) if outer else (right, left)
    bias = t.has("C") and t.extent("C", 1) > 1
%>
    ${t.ctype("Y")} *const y = &${t.at("Y", m, n)};
    const net_vector_t vector = {
        .w = &${w},
        .x = &${x},
        .start = range->first ? ${f"&{t.at('C', m, n)}" if t.has("C") else "NULL"} : y,
        .y = y,
        .sums = ${t.count("m" if outer else "n")},
        .terms = ${t.count("n" if outer else "k")},
        .row = ${t.stride("Y" if outer else "B", 0)},
        .start_next = ${"range->first ? 0 : 1" if t.has("C") and not bias else "1"},
        .claimed = range->claimed,
    };
    net_gemm_${kind}(range->core, range->cores, &vector);
</%def>
<%def name="main()">
% if t.variant() == "vector":
${vector(call.attributes, call.operator.vector(call))}
% elif t.variant() == "blocked":
${blocked(call.attributes)}
% else:
${portable()}
% endif
</%def>
<%def name="portable()">
<%
    a = call.attributes
    inner = call["A"].shape[0 if a["transA"] else 1]
    def scaled(factor, text):
        return text if factor == 1.0 else f"{c_float(factor)} * {text}"
    def store(m, n, total, first):
        result, total = t.at("Y", m, n), scaled(a["alpha"], total)
        if not first:
            return f"{result} += {total};"
        return f"{result} = {scaled(a['beta'], t.at('C', m, n))} + {total};" if t.has("C") else f"{result} = {total};"
%>
    int32_t m = ${t.begin("m")};
% if inner == 1 and a["alpha"] == 1.0 and not t.has("C"):
    for (; m + 4 <= ${t.end("m")}; m += 4)
${outer_product(t, a, 4)}
    for (; m < ${t.end("m")}; ++m)
${outer_product(t, a, 1)}
% else:
% if call["Y"].shape[0] > 1:
    for (; m + ${ROWS} <= ${t.end("m")}; m += ${ROWS}) {
${band(t, a, ROWS, store)}
    }
% endif
    for (; m < ${t.end("m")}; ++m) {
${band(t, a, 1, store)}
    }
% endif
</%def>
