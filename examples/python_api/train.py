"""The compiler from Python, cell by cell: a network, a plan, a run on this machine, and what came out.

Editors that know cells (percent format) open it as a notebook; it runs as a script, too.
"""

# %% A small network, written with plain onnx helpers; any ONNX file will do
import numpy as np
from onnx import TensorProto, helper, numpy_helper

import deeploy_ext
from deeploy_ext import PlanOptions, Training

random = np.random.RandomState(0)


def weight(name: str, *shape: int):
    return numpy_helper.from_array((random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32), name)


graph = helper.make_graph(
    [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["hidden"], name="dense1", transB=1),
        helper.make_node("Relu", ["hidden"], ["active"], name="relu"),
        helper.make_node("Gemm", ["active", "w2", "b2"], ["scores"], name="dense2", transB=1),
    ],
    "notebook",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16])],
    [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 4])],
    [weight("w1", 32, 16), weight("b1", 32), weight("w2", 4, 32), weight("b2", 4)],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

# %% Differentiate and plan it
program = deeploy_ext.compile(
    model,
    Training(loss="cross_entropy", steps=5, learning_rate=0.1),
    target="gap9",
    plan_options=PlanOptions(promote=True, double_buffer=True),
)
print(f"{program.name}: {len(program.plan.groups)} tile nests, {program.predicted.minibatch:,} cycles predicted per mini-batch")

# %% Train it with the emitted C on this machine; every number is compared with onnxruntime's
run = program.run("host")
print(f"passed: {run.passed}; {run.report.verdict.total} tensors compared")

# %% What came out
print("losses:", " ".join(f"{loss:.4f}" for loss in run.losses))
print("largest change of w1:", f"{np.abs(run.weights['w1'] - numpy_helper.to_array(graph.initializer[0])).max():.4f}")
print("L1 used:", run.report.memory["L1"].used, "bytes")
