<%namespace name="conv" file="conv.mako"/>
<%! from deeploy_ext.operators.average_pool import same_counts %>
<%def name="main()">
<%
    rows, columns = call.attributes["kernel_shape"]
    count = f"({t.ctype('Y')})((ky_end - ky_begin) * (kx_end - kx_begin))"
    mean = f"sum * {c_float(1 / (rows * columns))}" if same_counts(call) else f"sum / {count}"
%>
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
            ${t.ctype("Y")} sum = 0;
            for (int32_t ky = ky_begin; ky < ky_end; ++ky)
                for (int32_t kx = kx_begin; kx < kx_end; ++kx)
                    sum += ${t.at("X", "n", "c", "(top + ky * DILATION_Y)", "(left + kx * DILATION_X)")};
            ${t.at("Y", "n", "c", "oy", "ox")} = ${mean};
        }
    }
</%def>
