"""Windows of pooling: attributes, checks and sizes."""

from __future__ import annotations

from dataclasses import dataclass

from deeploy_ext.operators.relations import Affine, sliding
from deeploy_ext.operators.spec import REQUIRED, Invocation

WINDOW = {
    "kernel_shape": REQUIRED,
    "strides": [1, 1],
    "pads": [0, 0, 0, 0],
    "dilations": [1, 1],
    "auto_pad": "NOTSET",
    "ceil_mode": 0,
}
"""Attributes of pooling and their defaults."""


@dataclass(frozen=True)
class Window:
    """A pooling window on one image axis: taps, stride, dilation, leading pad, and the output's extent."""

    taps: int
    stride: int
    dilation: int
    pad: int
    out: int

    def relation(self, out: str, tap: str) -> Affine:
        """Input index of a tap of an output."""
        return sliding(out, tap, self.stride, self.dilation, self.pad)


def windows(call: Invocation, x: tuple[int, ...]) -> tuple[Window, Window]:
    """Windows of both image axes; refuses what is not implemented."""
    a = call.attributes
    if len(x) != 4:
        raise call.refuse(f"pooling of rank {len(x)}", "use 2-D pooling (N,C,H,W)")
    if a["auto_pad"] != "NOTSET" or a.get("storage_order"):
        odd = next(name for name in ("auto_pad", "storage_order") if a[name] not in ("NOTSET", 0))
        raise call.refuse(f"{odd}={a[odd]}", "export the model with explicit pads and row-major indices")
    for name, count, least in (("kernel_shape", 2, 1), ("strides", 2, 1), ("dilations", 2, 1), ("pads", 4, 0)):
        if len(a[name]) != count or min(a[name]) < least:
            raise call.refuse(f"{name} {list(a[name])}", f"give {count} numbers of at least {least}")
    found: list[Window] = []
    for i in (0, 1):
        taps, stride, dilation = a["kernel_shape"][i], a["strides"][i], a["dilations"][i]
        before, after = a["pads"][i], a["pads"][2 + i]
        if max(before, after) >= taps:
            raise call.refuse(f"pads {list(a['pads'])}", "pad less than kernel_shape, as onnxruntime does")
        room = x[2 + i] + before + after - dilation * (taps - 1) - 1
        out = room // stride + 1
        if a["ceil_mode"] and room % stride and out * stride < x[2 + i] + before:  # the last window begins in the image
            out += 1
        if out < 1:
            raise call.refuse(f"X {x} with kernel_shape {list(a['kernel_shape'])}", "make the window fit into the image")
        found.append(Window(taps, stride, dilation, before, out))
    return found[0], found[1]
