"""Loss functions and their gradients with respect to the prediction. ``dY`` is the gradient of the loss itself, usually 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deeploy_ext.operators.nests import flat, scalar
from deeploy_ext.operators.relations import axis
from deeploy_ext.operators.spec import MICROSOFT, OWN, Access, Case, Invocation, Loop, Operator, Phase, TensorType

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder

_LABELS = ("int32", "int64")


def _check_classes(call: Invocation, scores: TensorType, labels: TensorType) -> None:
    if len(scores.shape) != 2 or labels.shape != scores.shape[:1]:
        raise call.refuse(f"scores {scores.shape} with labels {labels.shape}", "use scores (N, C) with labels (N,)")
    if call.attributes["reduction"] not in ("mean", "sum"):
        raise call.refuse(f"reduction='{call.attributes['reduction']}'", "use 'mean' or 'sum'")


class SoftmaxCrossEntropyLoss(Operator):
    """``log_prob[n,c] = log softmax(scores[n])[c]``; ``output`` = mean or sum over n of ``-log_prob[n, labels[n]]``."""

    op_type = "SoftmaxCrossEntropyLoss"
    inputs = ("scores", "labels", "weights")
    outputs = ("output", "log_prob")
    optional = frozenset({"weights", "log_prob"})
    attributes = {"reduction": "mean"}
    needed = ("log_prob",)
    operand_types = {"labels": _LABELS}
    cases = (
        Case({"scores": (3, 5), "labels": np.array([2, 0, 4])}),
        Case({"scores": (3, 5), "labels": np.array([2, 0, 4], np.int32)}, {"reduction": "sum"}),
    )

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        scores = call["scores"]
        _check_classes(call, scores, call["labels"])
        if call.get("weights") is not None:
            raise call.refuse("class weights", "leave them out")
        return (TensorType(scores.dtype, ()), scores)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        if any(grad is not None for grad in grads[1:]):
            raise call.refuse("a loss that depends on log_prob", "use only the first output")
        operands = [grads[0], node.outputs[1], node.inputs[1]]
        reduction = call.attributes["reduction"]
        return (build.node("SoftmaxCrossEntropyLossGrad", operands, domain=MICROSOFT, reduction=reduction), None)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        n, c = call["scores"].shape
        rows, classes = Loop("n", n), Loop("c", c, "whole")
        scores, log_prob = (Access(name, (axis("n"), axis("c"))) for name in ("scores", "log_prob"))
        labels = Access("labels", (axis("n"),))
        return (
            Phase("log_softmax", (rows, classes), (scores,), (log_prob,), "exponential"),
            Phase("loss", (Loop("n", n, "reduction"), classes), (log_prob, labels), (scalar("output", "zero"),)),
        )


class SoftmaxCrossEntropyLossGrad(Operator):
    """``d_scores[n,c] = dY * (exp(log_prob[n,c]) - (c == label[n]))``, divided by N when the loss is a mean.

    Of the label's class it is computed as minus the sum of the other probabilities: ``p - 1`` would lose all digits where
    the network is nearly sure, and a comparison of such gradients would compare rounding.
    """

    domain = MICROSOFT
    op_type = "SoftmaxCrossEntropyLossGrad"
    inputs = ("dY", "log_prob", "label")
    outputs = ("d_scores",)
    implied = 1.0
    attributes = {"reduction": "mean"}
    in_place = (("log_prob", "d_scores"),)
    operand_types = {"label": _LABELS}
    cases = tuple(
        Case(
            {"dY": (), "log_prob": (3, 5), "label": np.array([2, 0, 4])},
            {"reduction": reduction},
            ranges={"log_prob": (-4.0, -0.1)},
        )
        for reduction in ("mean", "sum")
    )
    function = """<reduction> (dY, log_prob, label) => (d_scores) {
        prob = Exp (log_prob)
        label_long = Cast <to: int = 7> (label)
        class_axis = Shape <start: int = 1, end: int = 2> (log_prob)
        classes = Squeeze (class_axis)
        off_on = Constant <value_floats: floats = [0.0, 1.0]> ()
        off_on_like = CastLike (off_on, log_prob)
        truth = OneHot <axis: int = -1> (label_long, classes, off_on_like)
        none = Sub (truth, truth)
        is_truth = Greater (truth, none)
        others = Where (is_truth, none, prob)
        columns = Constant <value_ints: ints = [1]> ()
        rest = ReduceSum <keepdims: int = 1> (others, columns)
        minus_rest = Neg (rest)
        difference = Where (is_truth, minus_rest, others)
        minus_one = Constant <value_floats: floats = [-1.0, -1.0]> ()
        minus_one_like = CastLike (minus_one, log_prob)
        ones_lost = OneHot <axis: int = -1> (label_long, classes, minus_one_like)
        terms = NegativeLogLikelihoodLoss <reduction: string = @reduction> (ones_lost, label)
        samples = Shape <start: int = 0, end: int = 1> (log_prob)
        samples_like = CastLike (samples, log_prob)
        factor = Div (terms, samples_like)
        share = Mul (difference, factor)
        d_scores = Mul (share, dY)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        _check_classes(call, call["log_prob"], call["label"])
        _check_scalar(call)
        return (call["log_prob"],)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        n, c = call["log_prob"].shape
        log_prob, d_scores = (Access(name, (axis("n"), axis("c"))) for name in ("log_prob", "d_scores"))
        reads = (log_prob, Access("label", (axis("n"),)), scalar("dY"))
        return (Phase("main", (Loop("n", n), Loop("c", c, "whole")), reads, (d_scores,), "exponential"),)


def _check_scalar(call: Invocation) -> None:
    if call["dY"].elements != 1 or len(call["dY"].shape) > 1:
        raise call.refuse(f"dY of shape {call['dY'].shape}", "use a scalar: the loss is one number")


def _check_pair(call: Invocation) -> None:
    if call["prediction"] != call["target"]:
        shapes = f"prediction {call['prediction'].shape} with target {call['target'].shape}"
        raise call.refuse(shapes, "give both one shape and element type")


class MSELoss(Operator):
    """``loss = mean over all elements of (prediction - target)**2``."""

    domain = OWN
    op_type = "MSELoss"
    inputs = ("prediction", "target")
    outputs = ("loss",)
    cases = (Case({"prediction": (3, 5), "target": np.arange(15, dtype=np.float32).reshape(3, 5) / 7}),)
    function = """(prediction, target) => (loss) {
        difference = Sub (prediction, target)
        squares = Mul (difference, difference)
        loss = ReduceMean <keepdims: int = 0> (squares)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        _check_pair(call)
        return (TensorType(call["prediction"].dtype, ()),)

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        if build.wanted(node)[1]:
            raise call.refuse("a target that is trained", "make the target an input of the model")
        return (build.node("MSELossGrad", [grads[0], node.inputs[0], node.inputs[1]], domain=OWN), None)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        size = call["prediction"].elements
        reads = tuple(Access(name, (axis("i"),), (size,)) for name in ("prediction", "target"))
        return (Phase("main", (Loop("i", size, "reduction"),), reads, (scalar("loss", "zero"),)),)


class MSELossGrad(Operator):
    """``d_prediction = dY * 2 * (prediction - target) / (number of elements)``."""

    domain = OWN
    op_type = "MSELossGrad"
    inputs = ("dY", "prediction", "target")
    outputs = ("d_prediction",)
    implied = 1.0
    in_place = (("prediction", "d_prediction"),)
    cases = (Case({"dY": (), "prediction": (3, 5), "target": (3, 5)}),)
    function = """(dY, prediction, target) => (d_prediction) {
        difference = Sub (prediction, target)
        count_int = Size (prediction)
        count = CastLike (count_int, prediction)
        two_float = Constant <value_float: float = 2.0> ()
        two = CastLike (two_float, prediction)
        factor = Div (two, count)
        slope = Mul (difference, factor)
        d_prediction = Mul (slope, dY)
    }"""

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        _check_pair(call)
        _check_scalar(call)
        return (call["prediction"],)

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        return (flat(call, ("prediction", "target"), ("d_prediction",), ("dY",)),)
