<%!
    import re

    LANES = 8  # elements per turn of the loop
    AHEAD = 2  # elements that are loaded before the first is used
    PARTS = 4  # of a sum, so that no addition waits for the one before

    def in_lane(text, names, lane):
        return re.sub(rf"\b({'|'.join(names)})\b", rf"\1_{lane}", text)
%>
## One walk along a contiguous run: this worker's part of the loop `loop`, the last one in every operand's index.
##
##   index: operand -> its index, in names of loops.
##   reads: operands that are loaded.
##   values: name -> C expression of one element, of the operands in `reads` and values before it; operands are stored.
##   sums: name -> C expression of one element that is added to the sum's parts (see zero() and total()).
##   bits: operands seen as 32-bit words, so that a choice between values needs no branch.
<%def name="row(t, loop, index, reads, values={}, sums={}, bits=())">
<%
    writes = [name for name in values if name in index]
    used = [*reads, *(name for name in writes if name not in reads)]
    first, names = used[0], (*reads, *values)
    count = f"({t.end(loop)} - {t.begin(loop)})"
    def kind(name):
        return "net_bits_t" if name in bits else t.ctype(name if name in index else first)
    def pointer(name):
        start = t.at(name, *(t.begin(loop) if text == loop else text for text in index[name]))
        const = "" if name in writes else "const "
        cast = f"({const}net_bits_t *)" if name in bits else ""
        return f"{const}{kind(name)} *{name}_at = {cast}&{start};"
    def computation(lane):
        return [
            *(f"const {kind(name)} {name}_{lane} = {in_lane(text, names, lane)};" for name, text in values.items()),
            *(f"{name}_{lane % PARTS} += {in_lane(text, names, lane)};" for name, text in sums.items()),
        ]
    loads = [[f"const {kind(name)} {name}_{lane} = {name}_at[{lane}];" for name in reads] for lane in range(LANES)]
    stores = [[f"{name}_at[{lane}] = {name}_{lane};" for name in writes] for lane in range(LANES)]
%>
    {
% if bits:
        typedef uint32_t __attribute__((may_alias)) net_bits_t;
% endif
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

## row() over operands of equal size, along their one loop `i`.
<%def name="stream(t, reads, values, bits=())">
${row(t, "i", {name: ("i",) for name in (*reads, *values)}, reads, values, bits=bits)}
</%def>

## Declares sums.
<%def name="zero(ctype, *sums)">
% for name in sums:
        ${ctype} ${", ".join(f"{name}_{part} = 0" for part in range(PARTS))};
% endfor
</%def>

## The value of a sum.
<%def name="total(name)">((${name}_0 + ${name}_1) + (${name}_2 + ${name}_3))</%def>
