## What the operators of a convolution share.
<%!
    from deeploy_ext.operators.convolution import DEPTHWISE_ROWS, DEPTHWISE_WORKERS

    def channels(call):
        """Expressions for the output and the input channel of the whole tensors; co and ci count inside a group."""
        group, weight = call.attributes["group"], call["W"].shape
        if group == 1:
            return "co", "ci"
        return f"g * {weight[0] // group} + co", f"g * {weight[1]} + ci"

    def depthwise_3x3(t, suffix):
        """Name of a kernel for 3x3, which needs no constants."""
        t.kernels["depthwise"] = ("depthwise.h", "")
        return f"net_depthwise_3x3{suffix}"
%>
<%def name="constants(call)">
<% a = call.attributes %>
    enum { STRIDE_Y = ${a["strides"][0]}, STRIDE_X = ${a["strides"][1]}, PAD_TOP = ${a["pads"][0]}, PAD_LEFT = ${a["pads"][1]} };
    enum { DILATION_Y = ${a["dilations"][0]}, DILATION_X = ${a["dilations"][1]} };
</%def>

## The step of a team kernel that copies a tile into its scratch, with a border of zeros. The padded tile begins at the
## indices `top` and `left` of the image, and has `rows` x `columns` elements.
<%def name="pad(t, image, top, left, rows, columns)">
<% t.kernels["pad"] = ("pad_copy.h", "") %>
    const net_pad_t pad = {
        .source = ${image},
        .padded = tile->scratch,
        .channels = ${t.size(image, 0)} * ${t.size(image, 1)},
        .rows = ${t.size(image, 2)},
        .columns = ${t.size(image, 3)},
        .source_row = ${t.stride(image, 2)},
        .source_plane = ${t.stride(image, 1)},
        .top = ${t.start(image, 2)} - (${top}),
        .left = ${t.start(image, 3)} - (${left}),
        .padded_rows = ${rows},
        .padded_row = ${columns},
    };
    net_pad_copy(range->core, range->cores, &pad);
</%def>

## The arguments of a depthwise kernel: `image` is read through a border of zeros; the taps of the first element of `result`,
## whose rows and columns are the loops `y` and `x`, begin at the indices `top` and `left` of the image.
## dW has `sums` floats in front of the frames for those of its parts.
<%def name="depthwise(t, image, result, weight, bias, y, x, top, left, columns, accumulate, sums=None)">
% if sums:
    const int32_t parts = net_depthwise_parts(${t.count("g")}, ${t.count("oy")});
% endif
    const net_depthwise_t depthwise = {
        .image = ${image},
        .w = ${f"parts > 1 ? (float *)tile->scratch : {weight}" if sums else f"(float *){weight}"},
        .bias = ${bias},
        .y = (float *)${result},
        .batch = ${t.count("n")},
        .channels = ${t.count("g")},
        .image_rows = ${t.size(image, 2)},
        .image_columns = ${t.size(image, 3)},
        .image_row = ${t.stride(image, 2)},
        .image_plane = ${t.stride(image, 1)},
        .image_item = ${t.stride(image, 0)},
        .rows = ${t.count(y)},
        .columns = ${t.count(x)},
        .y_row = ${t.stride(result, 2)},
        .y_plane = ${t.stride(result, 1)},
        .y_item = ${t.stride(result, 0)},
        .top = ${t.start(image, 2)} - (${top}),
        .left = ${t.start(image, 3)} - (${left}),
        .frames = ${f"(float *)tile->scratch + {sums}" if sums else "tile->scratch"},
        .workers = ${DEPTHWISE_WORKERS},
        .frame_row = ${columns},
        .most_rows = ${DEPTHWISE_ROWS},
        .parts = ${"parts" if sums else 1},
        .claimed = range->claimed,
        .accumulate = ${accumulate},
    };
</%def>

## Of what reads X: forward and dW.
<%def name="depthwise_x(t, call, macro, result, weight, bias, accumulate, sums=None)">
<%
    k, s = call[weight].shape[2], call.attributes["strides"][0]
    if k == 3:
        kernel = depthwise_3x3(t, ("_2" if s == 2 else "") + macro.lower())
    else:
        kernel = t.kernel("depthwise.h", f"NET_DEPTHWISE{'_LARGE' if k > 3 else ''}{macro}", k, s)
%>
${constants(call)}
${depthwise(t, "X", result, weight, bias, "oy", "ox", f"{t.begin('oy')} * STRIDE_Y - PAD_TOP",
            f"{t.begin('ox')} * STRIDE_X - PAD_LEFT", f"({t.count('ox')} - 1) * {s} + {k}", accumulate, sums)}
    ${kernel}(range->core, range->cores, &depthwise);
</%def>

## A step of the kernels by minimal filtering, `name`d for what they compute. `image` has the pixels that are transformed, those of
## the first taps at the indices `top` and `left`; `summed` and `lanes` are the loops over the channels of image and of result.
<%def name="winograd(t, name, image, result, weight, bias, summed, lanes, y, x, top, left)">
<%
    t.kernels["winograd"] = ("winograd.h", "")
    kernel = f"net_winograd_{name}_transform" if t.variant() == "transform" else f"net_winograd_{'dw' if name == 'dw' else 'y'}"
    w_in, w_out = (1, 0) if name != "dx" else (0, 1)
%>
    const net_winograd_t winograd = {
        .image = ${image},
        .w = ${weight if name == "dw" else f"(float *){weight}"},
        .bias = ${bias},
        .y = ${f"(float *){result}" if name == "dw" else result},
        .batch = ${t.count("n")},
        .in = ${t.count(summed)},
        .out = ${t.count(lanes)},
        .rows = ${t.count(y)},
        .columns = ${t.count(x)},
        .image_rows = ${t.size(image, 2)},
        .image_columns = ${t.size(image, 3)},
        .image_row = ${t.stride(image, 2)},
        .image_plane = ${t.stride(image, 1)},
        .image_item = ${t.stride(image, 0)},
        .y_row = ${t.stride(result, 2)},
        .y_plane = ${t.stride(result, 1)},
        .y_item = ${t.stride(result, 0)},
        .w_in = ${t.stride(weight, w_in)},
        .w_out = ${t.stride(weight, w_out)},
        .top = ${t.start(image, 2)} - (${top}),
        .left = ${t.start(image, 3)} - (${left}),
        .scratch = tile->scratch,
        .claimed = range->claimed,
        .accumulate = !range->first,
% if t.variant() == "transform":
        .image_done = !${t.fresh(image)},
        .other_done = !${t.fresh(result if name == "dw" else weight)},
% endif
    };
    ${kernel}(range->core, &winograd);
</%def>
