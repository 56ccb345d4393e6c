<%namespace name="conv" file="conv.mako"/>
<%def name="main()">
<%
    out_channel, in_channel = conv.module.channels(call)
    dw = t.at("dW", out_channel, "ci", "ky", "kx")
%>
${conv.constants(call)}
    for (${t.loop("g")})
    for (${t.loop("co")})
    for (${t.loop("ci")})
    for (${t.loop("ky")}) {
        const int32_t top = ky * DILATION_Y - PAD_TOP;
        const int32_t oy_begin = net_inside_begin(top, STRIDE_Y, ${t.start("X", 2)}, ${t.begin("oy")});
        const int32_t oy_end = net_inside_end(top, STRIDE_Y, ${t.start("X", 2)}, ${t.size("X", 2)}, ${t.end("oy")});
        for (${t.loop("kx")}) {
            const int32_t left = kx * DILATION_X - PAD_LEFT;
            const int32_t ox_begin = net_inside_begin(left, STRIDE_X, ${t.start("X", 3)}, ${t.begin("ox")});
            const int32_t ox_end = net_inside_end(left, STRIDE_X, ${t.start("X", 3)}, ${t.size("X", 3)}, ${t.end("ox")});
            ${t.ctype("dW")} *const result = &${dw};
            ${t.ctype("dW")} sum = range->first ? 0 : *result;
            for (${t.loop("n")})
                for (int32_t oy = oy_begin; oy < oy_end; ++oy)
                    for (int32_t ox = ox_begin; ox < ox_end; ++ox)
                        sum += ${t.at("dY", "n", out_channel, "oy", "ox")} *
                               ${t.at("X", "n", in_channel, "(top + oy * STRIDE_Y)", "(left + ox * STRIDE_X)")};
            *result = sum;
        }
    }
</%def>
