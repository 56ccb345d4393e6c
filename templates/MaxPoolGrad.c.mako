<%namespace name="conv" file="conv.mako"/>
<%!
    from math import gcd
%>
## Each dX element gathers from the windows whose first maximum it is: later taps may equal it, earlier ones may not.
<%def name="main()">
<%
    a = call.attributes
    every = [s // gcd(s, d) for s, d in zip(a["strides"], a["dilations"])]
    other = t.at("X", "n", "c", "(iy + (ty - ky) * DILATION_Y)", "(ix + (tx - kx) * DILATION_X)")
    dy = t.at("dY", "n", "c", "((iy + PAD_TOP - ky * DILATION_Y) / STRIDE_Y)", "((ix + PAD_LEFT - kx * DILATION_X) / STRIDE_X)")
%>
${conv.constants(call)}
    enum { EVERY_Y = ${every[0]}, EVERY_X = ${every[1]}, HEIGHT = ${t.extent("X", 2)}, WIDTH = ${t.extent("X", 3)} };
    for (${t.loop("n")})
    for (${t.loop("c")})
    for (${t.loop("iy")}) {
        const net_taps_t rows = net_gather_taps(iy + PAD_TOP, DILATION_Y, STRIDE_Y, EVERY_Y, ${t.start("dY", 2)},
                                                ${t.size("dY", 2)}, ${t.begin("ky")}, ${t.end("ky")});
        for (${t.loop("ix")}) {
            const net_taps_t columns = net_gather_taps(ix + PAD_LEFT, DILATION_X, STRIDE_X, EVERY_X, ${t.start("dY", 3)},
                                                       ${t.size("dY", 3)}, ${t.begin("kx")}, ${t.end("kx")});
            const ${t.ctype("X")} value = ${t.at("X", "n", "c", "iy", "ix")};
            ${t.ctype("dX")} sum = 0;
            for (int32_t ky = rows.first; ky < rows.end; ky += EVERY_Y)
                for (int32_t kx = columns.first; kx < columns.end; kx += EVERY_X) {
                    bool wins = true;
                    const int32_t ty_begin = net_inside_begin(iy - ky * DILATION_Y, DILATION_Y, 0, ${t.begin("ty")});
                    const int32_t ty_end = net_inside_end(iy - ky * DILATION_Y, DILATION_Y, 0, HEIGHT, ${t.end("ty")});
                    const int32_t tx_begin = net_inside_begin(ix - kx * DILATION_X, DILATION_X, 0, ${t.begin("tx")});
                    const int32_t tx_end = net_inside_end(ix - kx * DILATION_X, DILATION_X, 0, WIDTH, ${t.end("tx")});
                    for (int32_t ty = ty_begin; ty < ty_end; ++ty)
                        for (int32_t tx = tx_begin; tx < tx_end; ++tx) {
                            const bool earlier = ty < ky || (ty == ky && tx < kx);
                            wins &= earlier ? ${other} < value : ${other} <= value;
                        }
                    sum += wins ? ${dy} : 0;
                }
            ${t.at("dX", "n", "c", "iy", "ix")} = sum;
        }
    }
</%def>
