"""Optimizers: weight, accumulated gradient and hyper-parameters in, updated weight out. The latter are run-time inputs."""

from __future__ import annotations

from deeploy_ext.operators.nests import flat
from deeploy_ext.operators.spec import OWN, Case, Invocation, Operator, Phase, TensorType


class SGD(Operator):
    """``updated = weight - learning_rate * gradient``, in the storage of weight; learning_rate is a scalar (shape ())."""

    domain = OWN
    op_type = "SGD"
    inputs = ("weight", "gradient", "learning_rate")
    outputs = ("updated",)
    state = (("weight", "updated"),)
    cases = (Case({"weight": (3, 5, 7), "gradient": (3, 5, 7), "learning_rate": ()}),)
    function = """(weight, gradient, learning_rate) => (updated) {
        change = Mul (gradient, learning_rate)
        updated = Sub (weight, change)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        weight, gradient, rate = call["weight"], call["gradient"], call["learning_rate"]
        if weight != gradient:
            raise call.refuse(
                f"a weight of shape {weight.shape} with a gradient of shape {gradient.shape}", "give both one shape"
            )
        if rate.shape != ():
            raise call.refuse(f"a learning rate of shape {rate.shape}", "use a scalar: shape ()")
        return (weight,)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return (flat(call, ("weight", "gradient"), ("updated",), ("learning_rate",)),)
