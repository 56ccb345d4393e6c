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
