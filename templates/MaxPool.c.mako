<%namespace name="conv" file="conv.mako"/>
<%def name="main()">
${conv.constants(call)}
    for (${t.loop("n")})
    for (${t.loop("c")})
    for (${t.loop("oy")}) {
        const int32_t top = oy * STRIDE_Y - PAD_TOP;
        const int32_t ky_begin = net_inside_begin(top, DILATION_Y, ${t.start("X", 2)}, ${t.begin("ky")});
        const int32_t ky_end = net_inside_end(top, DILATION_Y, ${t.start("X", 2)}, ${t.size("X", 2)}, ${t.end("ky")});
        for (${t.loop("ox")}) {
            const int32_t left = ox * STRIDE_X - PAD_LEFT;
            const int32_t kx_begin = net_inside_begin(left, DILATION_X, ${t.start("X", 3)}, ${t.begin("kx")});
            const int32_t kx_end = net_inside_end(left, DILATION_X, ${t.start("X", 3)}, ${t.size("X", 3)}, ${t.end("kx")});
            ${t.ctype("Y")} largest = ${t.at("X", "n", "c", "(top + ky_begin * DILATION_Y)", "(left + kx_begin * DILATION_X)")};
            for (int32_t ky = ky_begin; ky < ky_end; ++ky)
                for (int32_t kx = kx_begin; kx < kx_end; ++kx) {
                    const ${t.ctype("X")} value = ${t.at("X", "n", "c", "(top + ky * DILATION_Y)", "(left + kx * DILATION_X)")};
                    largest = value > largest ? value : largest;
                }
            ${t.at("Y", "n", "c", "oy", "ox")} = largest;
        }
    }
</%def>
