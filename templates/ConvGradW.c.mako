<%namespace name="conv" file="conv.mako"/>
<%def name="main()">
<% k, s, parts = call["dW"].shape[2], call.attributes["strides"][0], call.operator.parts(call) %>
% if t.variant() == "pad":
${conv.constants(call)}
    const int32_t rows = (${t.count("oy")} - 1) * ${s} + ${k}, columns = (${t.count("ox")} - 1) * ${s} + ${k};
${conv.pad(t, "X", f"{t.begin('oy')} * STRIDE_Y - PAD_TOP", f"{t.begin('ox')} * STRIDE_X - PAD_LEFT", "rows", "columns")}
% elif t.variant() in ("transform", "product"):
${conv.constants(call)}
${conv.winograd(t, "dw", "X", "dY", "dW", "NULL", "ci", "co", "oy", "ox", f"{t.begin('oy')} - PAD_TOP", f"{t.begin('ox')} - PAD_LEFT")}
% elif t.variant() == "depthwise":
${conv.depthwise_x(t, call, "_GRAD_W", "dY", "dW", "NULL", "parts == 1 && !range->first" if call.operator.reduced(call) else "!range->first",
                    f"(parts > 1 ? parts * {t.count('g')} * {k * k} : 0)" if call.operator.reduced(call) else None)}
% elif t.variant() == "blocked":
<%
    pointwise = ("conv_1x1.h", "NET_CONV_1X1_GRAD_W", s)
    kernel = t.kernel(*(("conv_grad_w.h", "NET_CONV_GRAD_W", k, s, 4 if k <= 4 else 2) if k > 1 else pointwise))
%>
    const int32_t rows = ${t.count("oy")}, columns = ${t.count("ox")};
    net_conv_w_t conv = {
        .x = ${"tile->scratch" if k > 1 else "X"},
        .dy = dY,
        .dw = ${"NULL" if parts > 1 else "dW"},
        .in = ${t.count("ci")},
        .out = ${t.count("co")},
        .rows = rows,
        .columns = columns,
        .x_row = ${f"(columns - 1) * {s} + {k}" if k > 1 else t.stride("X", 2)},
        .y_row = ${t.stride("dY", 2)},
        .y_plane = ${t.stride("dY", 1)},
        .w_out = ${f"{t.count('ci')} * {k * k}" if parts > 1 else t.stride("dW", 0)},
        .parts = ${parts},
        .part = 0,
        .images = ${t.count("n")},
        .y_image = ${t.stride("dY", 0)},
% if call.attributes["group"] > 1:
        .groups = ${t.count("g")},
        .y_group = ${call["W"].shape[0] // call.attributes["group"]} * ${t.stride("dY", 1)},
        .w_group = ${call["W"].shape[0] // call.attributes["group"]} * ${t.stride("dW", 0)},
% else:
        .groups = 1,
% endif
        .claimed = range->claimed,
        .accumulate = ${"false" if parts > 1 else "!range->first"},
    };
    conv.x_plane = ${f"conv.x_row * ((rows - 1) * {s} + {k})" if k > 1 else t.stride("X", 1)};
    conv.x_image = ${t.size("X", 1) if call.attributes["group"] > 1 else "conv.in"} * conv.x_plane;
% if call.attributes["group"] > 1:
    conv.x_group = ${call["W"].shape[1]} * conv.x_plane;
% endif
% if parts > 1:
    conv.dw = (float *)tile->scratch + conv.images * conv.x_image; /* the parts' sums */
    conv.part = conv.out * conv.w_out;
% endif
    ${kernel}(&conv);
% elif t.variant() == "reduce":
% if call.operator.depthwise(call):
<% t.kernels["reduce"] = ("depthwise.h", "") %>
    const int32_t channels = ${t.count("g")}, parts = net_depthwise_parts(channels, ${t.count("oy")});
    net_depthwise_add_parts(range->core, range->cores, dW, tile->scratch, parts, channels * ${k * k}, !range->first);
% else:
<% t.kernels["reduce"] = ("conv_grad_w.h", "") %>
    const int32_t rows = (${t.count("oy")} - 1) * ${s} + ${k}, columns = (${t.count("ox")} - 1) * ${s} + ${k};
    const int32_t in = ${t.count("ci")}, out = ${t.count("co")}, length = in * ${k * k};
    const float *const sums = (const float *)tile->scratch + ${t.count("n")} * in * rows * columns;
    net_add_parts(range->core, range->cores, ${parts}, dW, ${t.stride("dW", 0)}, sums, out, length, out * length, !range->first);
% endif
% else:
${portable()}
% endif
</%def>
<%def name="portable()">
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
