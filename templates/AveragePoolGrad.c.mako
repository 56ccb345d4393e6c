<%namespace name="conv" file="conv.mako"/>
<%!
    from math import gcd

    from deeploy_ext.operators.average_pool import same_counts
%>
## Each dX element gathers from the windows that hold it.
<%def name="main()">
<%
    a = call.attributes
    every = [s // gcd(s, d) for s, d in zip(a["strides"], a["dilations"])]
    rows, columns = a["kernel_shape"]
    same = same_counts(call)
    # where there is one window on an axis its number is not asked for
    oy, ox = "(iy + PAD_TOP - ky * DILATION_Y) / STRIDE_Y", "(ix + PAD_LEFT - kx * DILATION_X) / STRIDE_X"
%>
${conv.constants(call)}
    enum { EVERY_Y = ${every[0]}, EVERY_X = ${every[1]} };
% if not same:
    enum { HEIGHT = ${t.extent("dX", 2)}, WIDTH = ${t.extent("dX", 3)} };
% endif
    for (${t.loop("n")})
    for (${t.loop("c")})
    for (${t.loop("iy")}) {
        const net_taps_t rows = net_gather_taps(iy + PAD_TOP, DILATION_Y, STRIDE_Y, EVERY_Y, ${t.start("dY", 2)},
                                                ${t.size("dY", 2)}, ${t.begin("ky")}, ${t.end("ky")});
        for (${t.loop("ix")}) {
            const net_taps_t columns = net_gather_taps(ix + PAD_LEFT, DILATION_X, STRIDE_X, EVERY_X, ${t.start("dY", 3)},
                                                       ${t.size("dY", 3)}, ${t.begin("kx")}, ${t.end("kx")});
            ${t.ctype("dX")} sum = 0;
            for (int32_t ky = rows.first; ky < rows.end; ky += EVERY_Y)
                for (int32_t kx = columns.first; kx < columns.end; kx += EVERY_X) {
% if same:
                    sum += ${t.at("dY", "n", "c", f"({oy})", f"({ox})")};
% else:
                    const int32_t oy = ${oy}, ox = ${ox};
                    const int32_t top = oy * STRIDE_Y - PAD_TOP, left = ox * STRIDE_X - PAD_LEFT;
                    const int32_t down = net_inside_end(top, DILATION_Y, 0, HEIGHT, ${t.end("ky")})
                        - net_inside_begin(top, DILATION_Y, 0, ${t.begin("ky")});
                    const int32_t across = net_inside_end(left, DILATION_X, 0, WIDTH, ${t.end("kx")})
                        - net_inside_begin(left, DILATION_X, 0, ${t.begin("kx")});
                    sum += ${t.at("dY", "n", "c", "oy", "ox")} / (${t.ctype("dY")})(down * across);
% endif
                }
            ${t.at("dX", "n", "c", "iy", "ix")} = ${f"sum * {c_float(1 / (rows * columns))}" if same else "sum"};
        }
    }
</%def>
