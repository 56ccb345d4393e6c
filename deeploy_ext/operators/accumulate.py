"""Gradient accumulation over mini-batches, under the name that ONNX Runtime's training graphs use."""

from __future__ import annotations

import numpy as np

from deeploy_ext.operators.nests import flat
from deeploy_ext.operators.spec import MICROSOFT, Case, Invocation, Operator, Phase, TensorType


class InPlaceAccumulatorV2(Operator):
    """``buffer_out = value if reset else buffer + value``, in the storage of buffer. ``updated_flag`` is always true."""

    domain = MICROSOFT
    op_type = "InPlaceAccumulatorV2"
    inputs = ("buffer", "value", "reset")
    outputs = ("updated_flag", "buffer_out")
    optional = frozenset({"updated_flag"})
    state = (("buffer", "buffer_out"),)
    accumulates = "value"
    operand_types = {"reset": ("bool",)}
    cases = tuple(
        Case({"buffer": (3, 5, 7), "value": (3, 5, 7), "reset": np.array([reset])}, outputs=("buffer_out",))
        for reset in (False, True)
    )
    function = """(buffer, value, reset) => (updated_flag, buffer_out) {
        not_reset = Not (reset)
        updated_flag = Or (reset, not_reset)
        overwrite = Squeeze (reset)
        sum = Add (buffer, value)
        buffer_out = Where (overwrite, value, sum)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        buffer, value, reset = call["buffer"], call["value"], call["reset"]
        if buffer != value:
            raise call.refuse(f"a buffer of shape {buffer.shape} with a value of shape {value.shape}", "give both one shape")
        if reset.shape != (1,):
            raise call.refuse(f"reset of shape {reset.shape}", "use one truth value: shape (1,)")
        return (TensorType(np.dtype(np.bool_), (1,)), buffer)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return (flat(call, ("buffer", "value"), ("buffer_out",), ("reset",)),)
