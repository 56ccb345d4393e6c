<%namespace name="conv" file="conv.mako"/>
<%!
    from itertools import product
    from math import gcd

    def parities(t, call):
        """Parities (y, x) that the first row and column of a tile can have, as the layer's padding and the tile's size say."""
        pads = call.attributes["pads"]
        return product(*((0, 1) if t.tile(loop) % 2 else (pads[i] % 2,) for i, loop in enumerate(("iy", "ix"))))
%>
## Gather where the whole image of dY and dX is in the tile, else scatter: both accept the same boxes. Without a proof in
## the plan the tile decides, by comparing its sizes with the untiled ones.
<%def name="main()">
${conv.constants(call)}
<%
    k, s = call["W"].shape[2], call.attributes["strides"][0]
%>
% if t.variant() == "pad":
    const int32_t top = ${t.begin("iy")} + PAD_TOP, left = ${t.begin("ix")} + PAD_LEFT;
${shape(k, s)}
% if s == 1:
${conv.pad(t, "dY", f"top - {k - 1}", f"left - {k - 1}", "rows", "columns")}
% else:
${conv.pad(t, "dY", f"top / 2 - net_phase_rows({k}, top % 2)", f"left / 2 - net_phase_rows({k}, left % 2)", "rows", "columns")}
<% t.kernels["phases"] = ("conv_grad_x_2.h", "") %>
% endif
% elif t.variant() in ("transform", "product"):
% if t.variant() == "product":
    if (range->leader)
        ++net_stats.halo;
% endif
${conv.winograd(t, "dx", "dY", "dX", "W", "NULL", "co", "ci", "iy", "ix", f"{t.begin('iy')} + PAD_TOP - 2", f"{t.begin('ix')} + PAD_LEFT - 2")}
% elif t.variant() == "depthwise":
${depthwise(k, s)}
% elif t.variant() == "zero":
    if (range->first) {
        const int32_t elements = ${t.size("dX", 0)} * ${t.stride("dX", 0)};
        for (int32_t i = elements * range->core / range->cores; i < elements * (range->core + 1) / range->cores; ++i)
            dX[i] = 0.0f;
    }
% elif t.variant() == "blocked" and k == 1:
${pointwise(s)}
% elif t.variant() == "blocked":
${blocked(k, s)}
% elif t.variant() == "runtime":
    enum { ${t.untiled_sizes("gather")} };
    if (${t.whole_test("gather")}) {
${gather()}
    } else {
${scatter()}
    }
% elif t.variant() == "gather":
${gather()}
% else:
${scatter()}
% endif
</%def>
<%def name="gather()">
<%
    a = call.attributes
    out_channel, in_channel = conv.module.channels(call)
    first_channel = out_channel.replace("co", t.begin("co"))
    every = [s // gcd(s, d) for s, d in zip(a["strides"], a["dilations"])]
    steps = [d * e // s for s, d, e in zip(a["strides"], a["dilations"], every)]
    oy, ox = (f"(({i} + PAD_{side} - {taps}.first * DILATION_{axis}) / STRIDE_{axis})" for i, side, taps, axis in
              (("iy", "TOP", "rows", "Y"), ("ix", "LEFT", "columns", "X")))
%>
    /* gather: each dX element is summed in a register; only the taps of its stride phase are visited. From one of them to
     * the next, dY is left by STEP elements.
     */
    enum { EVERY_Y = ${every[0]}, EVERY_X = ${every[1]}, STEP_Y = ${steps[0]}, STEP_X = ${steps[1]} };
    if (range->leader)
        ++net_stats.gather;
    for (${t.loop("n")})
    for (${t.loop("iy")}) {
        const net_taps_t rows = net_gather_taps(iy + PAD_TOP, DILATION_Y, STRIDE_Y, EVERY_Y, ${t.start("dY", 2)},
                                                ${t.size("dY", 2)}, ${t.begin("ky")}, ${t.end("ky")});
        for (${t.loop("ix")}) {
            const net_taps_t columns = net_gather_taps(ix + PAD_LEFT, DILATION_X, STRIDE_X, EVERY_X, ${t.start("dY", 3)},
                                                       ${t.size("dY", 3)}, ${t.begin("kx")}, ${t.end("kx")});
            for (${t.loop("g")}) {
            const ${t.ctype("dY")} *const corner = &${t.at("dY", "n", first_channel, oy, ox)};
            for (${t.loop("ci")}) {
                ${t.ctype("dX")} *const result = &${t.at("dX", "n", in_channel, "iy", "ix")};
                ${t.ctype("dX")} sum = range->first ? 0 : *result;
                const ${t.ctype("dY")} *plane = corner;
                const ${t.ctype("W")} *taps = &${t.at("W", first_channel, "ci", "rows.first", "columns.first")};
                for (${t.loop("co")}) {
                    const ${t.ctype("dY")} *row = plane;
                    const ${t.ctype("W")} *weights = taps;
                    for (int32_t ky = rows.first; ky < rows.end; ky += EVERY_Y) {
                        const ${t.ctype("dY")} *gradient = row;
                        const ${t.ctype("W")} *weight = weights;
                        for (int32_t kx = columns.first; kx < columns.end; kx += EVERY_X) {
                            sum += *gradient * *weight;
                            gradient -= STEP_X;
                            weight += EVERY_X;
                        }
                        row -= STEP_Y * ${t.stride("dY", 2)};
                        weights += EVERY_Y * ${t.stride("W", 2)};
                    }
                    plane += ${t.stride("dY", 1)};
                    taps += ${t.stride("W", 0)};
                }
                *result = sum;
            }
            }
        }
    }
</%def>
<%def name="scatter()">
<%
    a = call.attributes
    out_channel, in_channel = conv.module.channels(call)
%>
    /* scatter: each dY value is added to the dX positions of this part that it touches */
    const int32_t oy_end = ${t.start("dY", 2)} + ${t.size("dY", 2)}, ox_end = ${t.start("dY", 3)} + ${t.size("dY", 3)};
    const int32_t iy_begin = ${t.begin("iy")}, iy_size = ${t.end("iy")} - iy_begin;
    const int32_t ix_begin = ${t.begin("ix")}, ix_size = ${t.end("ix")} - ix_begin;
    if (range->leader)
        ++net_stats.scatter;
    for (${t.loop("n")})
    for (${t.loop("g")})
    for (${t.loop("ci")}) {
        if (range->first)
            for (${t.loop("iy")})
                for (${t.loop("ix")})
                    ${t.at("dX", "n", in_channel, "iy", "ix")} = 0;
        for (${t.loop("co")})
        for (int32_t oy = ${t.start("dY", 2)}; oy < oy_end; ++oy) {
            const int32_t top = oy * STRIDE_Y - PAD_TOP;
            const int32_t ky_begin = net_inside_begin(top, DILATION_Y, iy_begin, ${t.begin("ky")});
            const int32_t ky_end = net_inside_end(top, DILATION_Y, iy_begin, iy_size, ${t.end("ky")});
            for (int32_t ox = ${t.start("dY", 3)}; ox < ox_end; ++ox) {
                const int32_t left = ox * STRIDE_X - PAD_LEFT;
                const int32_t kx_begin = net_inside_begin(left, DILATION_X, ix_begin, ${t.begin("kx")});
                const int32_t kx_end = net_inside_end(left, DILATION_X, ix_begin, ix_size, ${t.end("kx")});
                const ${t.ctype("dY")} value = ${t.at("dY", "n", out_channel, "oy", "ox")};
                for (int32_t ky = ky_begin; ky < ky_end; ++ky)
                    for (int32_t kx = kx_begin; kx < kx_end; ++kx)
                        ${t.at("dX", "n", in_channel, "(top + ky * DILATION_Y)", "(left + kx * DILATION_X)")} +=
                            value * ${t.at("W", out_channel, "ci", "ky", "kx")};
            }
        }
    }
</%def>
## Rows and columns of the padded dY of a tile of dX.
<%def name="shape(k, s)">
% if s == 1:
    const int32_t rows = ${t.count("iy")} + ${k - 1}, columns = ${t.count("ix")} + ${k - 1};
% else:
    const int32_t rows = (${t.count("iy")} + 1) / 2 + top % 2 + net_phase_rows(${k}, top % 2);
    const int32_t columns = (${t.count("ix")} + 1) / 2 + left % 2 + net_phase_rows(${k}, left % 2);
% endif
</%def>
## One channel per group: a worker pads the part of dY that it needs itself.
<%def name="depthwise(k, s)">
<%
    macro = f"NET_DEPTHWISE{'_LARGE' if k > 3 else ''}_GRAD_X"
    before = [f"net_phase_rows({k}, {name} % 2)" if s == 2 else str(k - 1) for name in ("top", "left")]
    columns = f"({t.count('ix')} + 1) / 2 + left % 2 + {before[1]}" if s == 2 else f"{t.count('ix')} + {k - 1}"
%>
    const int32_t top = ${t.begin("iy")} + PAD_TOP, left = ${t.begin("ix")} + PAD_LEFT;
    if (range->leader)
        ++net_stats.halo;
${conv.depthwise(t, "dY", "dX", "W", "NULL", "iy", "ix", f"top / {s} - {before[0]}", f"left / {s} - {before[1]}", columns, "false")}
% if s == 1:
<% kernel = conv.module.depthwise_3x3(t, "_grad_x") if k == 3 else t.kernel("depthwise.h", macro, k) %>
    ${kernel}(range->core, range->cores, &depthwise);
% else:
% for y, x in parities(t, call):
    if (top % 2 == ${y} && left % 2 == ${x})
        ${t.kernel("depthwise.h", f"{macro}_2", k, y, x)}(range->core, range->cores, &depthwise);
% endfor
% endif
</%def>
## Halo gather: each dX element is summed in a register, from a dY tile with its halo and a border of zeros.
<%def name="blocked(k, s)">
<%
    kernels = {}
    if s == 2:
        for y, x in parities(t, call):
            kernels[y, x] = t.kernel("conv_grad_x_2.h", "NET_CONV_GRAD_X_2", k, y, x)
    else:
        kernels[0, 0] = t.kernel("conv_4x4.h", "NET_CONV_4X4", k, 1, True)
%>
% if s == 2:
    const int32_t top = ${t.begin("iy")} + PAD_TOP, left = ${t.begin("ix")} + PAD_LEFT;
% endif
${shape(k, s)}
    if (range->leader)
        ++net_stats.halo;
    net_conv_t conv = {
        .x = tile->scratch,
        .w = W,
        .bias = NULL,
        .y = dX,
        .in = ${t.count("co")},
        .out = ${t.count("ci")},
        .rows = ${t.count("iy")},
        .columns = ${t.count("ix")},
        .x_row = columns,
        .x_plane = rows * columns,
        .y_row = ${t.stride("dX", 2)},
        .y_plane = ${t.stride("dX", 1)},
        .w_in = ${t.stride("W", 0)},
        .w_out = ${t.stride("W", 1)},
        .images = ${t.count("n")},
        .x_image = ${t.size("dY", 1) if call.attributes["group"] > 1 else t.count("co")} * rows * columns,
        .y_image = ${t.stride("dX", 0)},
% if call.attributes["group"] > 1:
        .groups = ${t.count("g")},
        .x_group = ${call["W"].shape[0] // call.attributes["group"]} * rows * columns,
        .w_group = ${call["W"].shape[0] // call.attributes["group"]} * ${t.stride("W", 0)},
        .y_group = ${call["W"].shape[1]} * ${t.stride("dX", 1)},
% else:
        .groups = 1,
% endif
        .claimed = range->claimed,
        .accumulate = !range->first,
    };
% for (y, x), kernel in kernels.items():
% if len(kernels) > 1:
    if (top % 2 == ${y} && left % 2 == ${x})
        ${kernel}(&conv);
% else:
    ${kernel}(&conv);
% endif
% endfor
</%def>
## Of a 1x1 convolution: an outer product per dY value; with strides the elements between are zeros.
<%def name="pointwise(s)">
<% kernel = t.kernel("conv_1x1.h", "NET_CONV_1X1", 1, s, True) %>
    if (range->leader)
        ++net_stats.halo;
    net_conv_t conv = {
        .x = dY,
        .w = W,
        .bias = NULL,
        .y = &dX[(${t.start("dY", 2)} * ${s} - ${t.begin("iy")}) * ${t.stride("dX", 2)} + ${t.start("dY", 3)} * ${s} - ${t.begin("ix")}],
        .in = ${t.count("co")},
        .out = ${t.count("ci")},
        .rows = ${t.size("dY", 2)},
        .columns = ${t.size("dY", 3)},
        .x_row = ${t.stride("dY", 2)},
        .x_plane = ${t.stride("dY", 1)},
        .y_row = ${s} * ${t.stride("dX", 2)},
        .y_plane = ${t.stride("dX", 1)},
        .w_in = ${t.stride("W", 0)},
        .w_out = ${t.stride("W", 1)},
        .images = ${t.count("n")},
        .x_image = ${t.stride("dY", 0)},
        .y_image = ${t.stride("dX", 0)},
% if call.attributes["group"] > 1:
        .groups = ${t.count("g")},
        .x_group = ${call["W"].shape[0] // call.attributes["group"]} * ${t.stride("dY", 1)},
        .w_group = ${call["W"].shape[0] // call.attributes["group"]} * ${t.stride("W", 0)},
        .y_group = ${call["W"].shape[1]} * ${t.stride("dX", 1)},
% else:
        .groups = 1,
% endif
        .claimed = range->claimed,
        .accumulate = !range->first,
    };
    ${kernel}(&conv);
</%def>
