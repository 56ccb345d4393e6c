<%!
    import re

    LANES = 8  # elements per turn of the loop
    AHEAD = 2  # elements that are loaded before the first is used
    PARTS = 4  # of a sum, so that no addition waits for the one before

    def address(t, loop, operand, index):
        """Where this worker's part of a run along `loop` begins; `index` is in names of loops."""
        return f"&{t.at(operand, *(t.begin(loop) if text == loop else text for text in index))}"

    def placed(index, loop, value):
        """An index with a value for the loop."""
        return [re.sub(rf"\b{loop}\b", value, text) for text in index]

    def in_lane(text, names, lane):
        return re.sub(rf"\b({'|'.join(names)})\b", rf"\1_{lane}", text)
%>
## One walk along a contiguous run: this worker's part of the loop `loop`, the last one in every operand's index.
##
##   index: operand -> its index, in names of loops.
##   reads: operands that are loaded.
##   values: name -> C expression of one element, of the operands in `reads` and values before it; operands are stored.
##   sums: name -> C expression of one element that is added to the sum's parts (see zero() and total()).
<%def name="row(t, loop, index, reads, values={}, sums={})">
<%
    writes = [name for name in values if name in index]
    used = [*reads, *(name for name in writes if name not in reads)]
    first, names = used[0], (*reads, *values)
    count = f"({t.end(loop)} - {t.begin(loop)})"
    def kind(name):
        return t.ctype(name if name in index else first)
    def pointer(name):
        const = "" if name in writes else "const "
        return f"{const}{kind(name)} *{name}_at = {address(t, loop, name, index[name])};"
    def computation(lane):
        return [
            *(f"const {kind(name)} {name}_{lane} = {in_lane(text, names, lane)};" for name, text in values.items()),
            *(f"{name}[{lane % PARTS}] += {in_lane(text, names, lane)};" for name, text in sums.items()),
        ]
    loads = [[f"const {kind(name)} {name}_{lane} = {name}_at[{lane}];" for name in reads] for lane in range(LANES)]
    stores = [[f"{name}_at[{lane}] = {name}_{lane};" for name in writes] for lane in range(LANES)]
%>
    {
% for name in used:
        ${pointer(name)}
% endfor
        ${t.opaque(*(f"{name}_at" for name in used))}
        const ${kind(first)} *const end = ${first}_at + ${count}, *const stop = end - ${count} % ${LANES};
        while (${first}_at != stop) {
% for line in t.interleaved(loads, [computation(lane) for lane in range(LANES)], stores, AHEAD):
            ${line}
% endfor
% for name in used:
            ${name}_at += ${LANES};
% endfor
        }
        while (${first}_at != end) {
% for line in (*loads[0], *computation(0), *stores[0]):
            ${line}
% endfor
% for name in used:
            ++${name}_at;
% endfor
        }
    }
</%def>

## row(), one element after the other: for values that take so many cycles that the loop does not matter.
<%def name="walk(t, loop, index, reads, values)">
<%
    writes = [name for name in values if name in index]
    used = [*reads, *(name for name in writes if name not in reads)]
    names = (*reads, *values)
    def kind(name):
        return t.ctype(name if name in index else used[0])
    begins = {name: address(t, loop, name, index[name]) for name in used}
    count = t.count(loop)
%>
    {
% for name, begin in begins.items():
        ${"" if name in writes else "const "}${kind(name)} *${name}_at = ${begin};
% endfor
        for (int32_t left = ${count}; left > 0; --left) {
% for name in reads:
            const ${kind(name)} ${name}_0 = *${name}_at;
% endfor
% for name, text in values.items():
            const ${kind(name)} ${name}_0 = ${in_lane(text, names, 0)};
% endfor
% for name in writes:
            *${name}_at = ${name}_0;
% endfor
% for name in used:
            ++${name}_at;
% endfor
        }
    }
</%def>

## The same by a function of elementwise.h: its sums, its operands (the result first), its constants, the length.
##
##   index: that of all operands, in names of loops.
<%def name="run(t, function, loop, index, operands, sums=(), constants=())">
<%
    t.kernels["elementwise"] = ("elementwise.h", "")
    addresses = [address(t, loop, name, index) for name in operands]
    arguments = [*sums, *addresses, *constants, f"{t.end(loop)} - {t.begin(loop)}"]
%>
        ${function}(
% for argument in arguments[:-1]:
            ${argument},
% endfor
            ${arguments[-1]});
</%def>

## row() over operands of equal size, along their one loop `i`.
<%def name="stream(t, reads, values)">
${row(t, "i", {name: ("i",) for name in (*reads, *values)}, reads, values)}
</%def>

## Declares sums.
<%def name="zero(ctype, *sums)">
        ${ctype} ${", ".join(f"{name}[{PARTS}] = {{0}}" for name in sums)};
</%def>

## The value of a sum.
<%def name="total(name)">((${name}[0] + ${name}[1]) + (${name}[2] + ${name}[3]))</%def>

## A run of elements copied: those of the loop `loop` from `begin` to `end`, or this worker's part of it. `result` and `data`
## are each an operand and its index, in which the loop moves the last axis, one by one.
<%def name="copy(t, loop, result, data, begin=None, end=None)">
<%
    t.kernels["elementwise"] = ("elementwise.h", "")
    first = begin or t.begin(loop)
    to, source = (t.at(operand, *placed(index, loop, first)) for operand, index in (result, data))
%>
            net_copy(&${to}, &${source}, ${end or t.end(loop)} - ${first});
</%def>
