<%namespace name="conv" file="conv.mako"/>
<%def name="main()">
<%
    out_channel, in_channel = conv.module.channels(call)
    y = t.at("Y", "n", out_channel, "oy", "ox")
%>
${conv.constants(call)}
    for (${t.loop("n")})
    for (${t.loop("g")})
    for (${t.loop("oy")}) {
        const int32_t top = oy * STRIDE_Y - PAD_TOP;
        const int32_t ky_begin = net_inside_begin(top, DILATION_Y, ${t.start("X", 2)}, ${t.begin("ky")});
        const int32_t ky_end = net_inside_end(top, DILATION_Y, ${t.start("X", 2)}, ${t.size("X", 2)}, ${t.end("ky")});
        for (${t.loop("ox")}) {
            const int32_t left = ox * STRIDE_X - PAD_LEFT;
            const int32_t kx_begin = net_inside_begin(left, DILATION_X, ${t.start("X", 3)}, ${t.begin("kx")});
            const int32_t kx_end = net_inside_end(left, DILATION_X, ${t.start("X", 3)}, ${t.size("X", 3)}, ${t.end("kx")});
            for (${t.loop("co")}) {
                ${t.ctype("Y")} *const result = &${y};
                ${t.ctype("Y")} sum = range->first ? ${t.at("B", out_channel) if t.has("B") else "0"} : *result;
                for (${t.loop("ci")})
                    for (int32_t ky = ky_begin; ky < ky_end; ++ky)
                        for (int32_t kx = kx_begin; kx < kx_end; ++kx)
                            sum += ${t.at("X", "n", in_channel, "(top + ky * DILATION_Y)", "(left + kx * DILATION_X)")} *
                                   ${t.at("W", out_channel, "ci", "ky", "kx")};
                *result = sum;
            }
        }
    }
</%def>
