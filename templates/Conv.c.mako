<%namespace name="conv" file="conv.mako"/>
<%def name="main()">
% if t.variant() == "pad":
<% k, s = call["W"].shape[2], call.attributes["strides"][0] %>
${conv.constants(call)}
    const int32_t rows = (${t.count("oy")} - 1) * ${s} + ${k}, columns = (${t.count("ox")} - 1) * ${s} + ${k};
${conv.pad(t, "X", f"{t.begin('oy')} * STRIDE_Y - PAD_TOP", f"{t.begin('ox')} * STRIDE_X - PAD_LEFT", "rows", "columns")}
% elif t.variant() in ("transform", "product"):
<% bias = f"range->first ? &B[{t.begin('co')} - {t.start('B', 0)}] : NULL" if t.has("B") else "NULL" %>
${conv.constants(call)}
${conv.winograd(t, "forward", "X", "Y", "W", bias, "ci", "co", "oy", "ox", f"{t.begin('oy')} - PAD_TOP", f"{t.begin('ox')} - PAD_LEFT")}
% elif t.variant() == "depthwise":
<% bias = f"&B[{t.begin('g')} - {t.start('B', 0)}]" if t.has("B") else "NULL" %>
${conv.depthwise_x(t, call, "", "Y", "W", bias, "false")}
% elif t.variant() == "blocked":
<%
    k, s = call["W"].shape[2], call.attributes["strides"][0]
    first = conv.module.channels(call)[0].replace("co", t.begin("co")).replace("g ", t.begin("g") + " ")
    kernel = t.kernel("conv_4x4.h", "NET_CONV_4X4", k, s, False) if k > 1 else t.kernel("conv_1x1.h", "NET_CONV_1X1", s, 1, False)
%>
    const int32_t rows = ${t.count("oy")}, columns = ${t.count("ox")};
    net_conv_t conv = {
        .x = ${"tile->scratch" if k > 1 else "X"},
        .w = W,
        .bias = ${f"range->first ? &B[{first} - {t.start('B', 0)}] : NULL" if t.has("B") else "NULL"},
        .y = Y,
        .in = ${t.count("ci")},
        .out = ${t.count("co")},
        .rows = rows,
        .columns = columns,
        .x_row = ${f"(columns - 1) * {s} + {k}" if k > 1 else f"{s} * {t.stride('X', 2)}"},
        .y_row = ${t.stride("Y", 2)},
        .y_plane = ${t.stride("Y", 1)},
        .w_in = ${t.stride("W", 1)},
        .w_out = ${t.stride("W", 0)},
        .images = ${t.count("n")},
        .y_image = ${t.stride("Y", 0)},
% if call.attributes["group"] > 1:
        .groups = ${t.count("g")},
        .w_group = ${call["W"].shape[0] // call.attributes["group"]} * ${t.stride("W", 0)},
        .y_group = ${call["W"].shape[0] // call.attributes["group"]} * ${t.stride("Y", 1)},
% else:
        .groups = 1,
% endif
        .claimed = range->claimed,
        .accumulate = !range->first,
    };
    conv.x_plane = ${f"conv.x_row * ((rows - 1) * {s} + {k})" if k > 1 else t.stride("X", 1)};
    conv.x_image = ${t.size("X", 1) if call.attributes["group"] > 1 else "conv.in"} * conv.x_plane;
% if call.attributes["group"] > 1:
    conv.x_group = ${call["W"].shape[1]} * conv.x_plane;
% endif
    ${kernel}(&conv);
% else:
${portable()}
% endif
</%def>
<%def name="portable()">
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
