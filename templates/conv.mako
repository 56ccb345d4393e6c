## What the operators of a convolution share.
<%!
    def channels(call):
        """Expressions for the output and the input channel of the whole tensors; co and ci count inside a group."""
        group, weight = call.attributes["group"], call["W"].shape
        if group == 1:
            return "co", "ci"
        return f"g * {weight[0] // group} + co", f"g * {weight[1]} + ci"
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
