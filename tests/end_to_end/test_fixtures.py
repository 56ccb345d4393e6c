"""Networks and operators made by others (``--fixtures DIR``): every folder is found by walking, trained and compared.

A network trains by its own settings against its maker's losses and final weights, and for two steps against the golden run,
in all four combinations of ``--promote`` and ``--db``. All operators run side by side as nodes of one training step.
``docs/conformance.md`` is the table of results, written by ``--update-golden``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance import PAGE, page
from foreign_kernels import Kernel, expected_states, kernel_folders, kernel_task, read_kernel

from deeploy_ext.engines.gvsoc import GvsocEngine
from deeploy_ext.harness.compare import compare
from deeploy_ext.harness.golden import run_golden
from deeploy_ext.harness.sides import Judgement, judge
from deeploy_ext.training.task import TrainingTask
from support import FIXED_L1, emitted, golden_of, planned, task_of, trained

FLAGS: dict[str, dict[str, Any]] = {
    "none": {},
    "--promote": {"promote": True},
    "--db": {"double_buffer": True},
    "--promote --db": {"promote": True, "double_buffer": True},
}

QUICK = ("SimpleMLP", "Autoencoder", "DSCNN", "ResNet8")
"""Networks that also train, with all flags, in the tests that are not slow."""

ON_GVSOC = ("SimpleMLP", "Autoencoder", "DSCNN", "ResNet8", "CCT")

EXCEPTIONS = {
    "Softmax/CrossEntropy": "its first output is the logarithm of the probabilities; ONNX's first output is the loss",
    "Softmax/CrossEntropyGrad": "(p - onehot) / 16 with a mini-batch of 4: divided by the size of the mini-batch twice",
}
"""Folders whose expectation contradicts the operator's definition; ``test_exceptions_are_what_they_say`` has the proof."""

ADAPTED = {
    "Pad": "pads with minus infinity; the test pads with -7 instead, since no training step may hold infinity",
    "Add/Regular": "float64 arrays of a float32 graph",
}

REGIMES: dict[str, dict[str, Any]] = {
    "whole": {"promote": True},
    "tiles": {"promote": True, "l1": FIXED_L1 + 4000, "double_buffer": True},
}


def _folder(net: Path) -> Path:
    (found,) = net.glob("*_train")
    return found


def _networks(root: Path) -> list[str]:
    return sorted(path.parent.parent.name for path in (root / "training").glob("*/*_train/network.onnx"))


def judged(root: Path, net: str, scratch: Path, steps: int | None, **flags: Any) -> tuple[TrainingTask, Judgement]:
    """Trains a network of a folder on this machine."""
    reference = str(_folder(root / "training" / net))
    task = task_of(reference, steps=steps)
    return task, judge(task, golden_of(reference, steps=steps), trained(task, scratch, **flags).rounds[0])


def test_every_folder_is_known(fixtures: Path) -> None:
    assert set(QUICK) <= set(_networks(fixtures))
    assert {*EXCEPTIONS, *ADAPTED} <= set(kernel_folders(fixtures / "kernels"))
    text = PAGE.read_text(encoding="utf-8")
    for name in [*_networks(fixtures), *kernel_folders(fixtures / "kernels")]:
        assert f"\n| {name} |" in text, f"{name} is not in the table: pytest {Path(__file__).name} --update-golden"


@pytest.mark.parametrize("steps", [None, 2], ids=["own settings", "two steps"])
@pytest.mark.parametrize("net", QUICK)
def test_network_with_all_flags(net: str, steps: int | None, fixtures: Path, tmp_path: Path) -> None:
    _check(fixtures, net, tmp_path, steps, **FLAGS["--promote --db"])


def _check(root: Path, net: str, scratch: Path, steps: int | None, **flags: Any) -> Judgement:
    task, judgement = judged(root, net, scratch, steps, **flags)
    assert judgement.verdict.passed, judgement
    assert (judgement.expected is None) == (steps is not None)
    assert judgement.expected is None or judgement.expected.passed, judgement
    assert judgement.verdict.gradients.total == task.spec.mini_batches * len(task.parameters)
    return judgement


@pytest.mark.parametrize("regime", REGIMES)
def test_kernels(regime: str, fixtures: Path, tmp_path: Path) -> None:
    """All operators at once; only their makers' expectations count, but the golden run has to agree as well."""
    root = fixtures / "kernels"
    names = kernel_folders(root)
    for number, kernels in enumerate(_portions([read_kernel(root, name) for name in names])):
        task = kernel_task(kernels)
        golden = run_golden(task)
        measured = trained(task, tmp_path / str(number), **REGIMES[regime]).rounds[0]
        verdict = compare(task, golden, measured)
        assert verdict.passed, verdict
        golden.states[0].update(expected_states(task, kernels, EXCEPTIONS))
        verdict = compare(task, golden, measured)
        assert verdict.passed, verdict
        assert verdict.state.total == sum(len(kernel.outputs) for kernel in kernels)


PORTION = 1_000_000
"""Elements of the inputs and outputs of one task: external RAM takes them all, besides what planning adds."""


def _portions(kernels: list[Kernel]) -> list[list[Kernel]]:
    made: list[list[Kernel]] = [[]]
    size = 0
    for kernel in kernels:
        size += sum(array.size for array in (*kernel.inputs, *kernel.outputs))
        if size > PORTION:
            made, size = [*made, []], 0
        made[-1].append(kernel)
    return made


def test_exceptions_are_what_they_say(fixtures: Path) -> None:
    root = fixtures / "kernels"
    loss, gradient = (read_kernel(root, name) for name in EXCEPTIONS)
    states = run_golden(kernel_task([gradient])).states[0]
    np.testing.assert_allclose(states[f"{gradient.name}#0"], 4 * gradient.outputs[0], rtol=1e-5, atol=1e-7)
    scores, labels = loss.inputs
    log_prob = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(log_prob, loss.outputs[0], rtol=1e-5, atol=1e-6)
    states = run_golden(kernel_task([loss])).states[0]
    np.testing.assert_allclose(states[f"{loss.name}#0"], -log_prob[np.arange(len(labels)), labels].mean(), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.gvsoc
@pytest.mark.usefixtures("gvsoc")
@pytest.mark.parametrize("net", ON_GVSOC)
def test_network_on_the_simulated_cluster(net: str, fixtures: Path, tmp_path: Path) -> None:
    reference = str(_folder(fixtures / "training" / net))
    task, engine = task_of(reference), GvsocEngine()
    made = planned(task, **FLAGS["--promote --db"])
    result = engine.run(engine.build(emitted(task, made, tmp_path), tmp_path / "build"))
    judgement = judge(task, golden_of(reference), result.rounds[0])
    assert judgement.verdict.passed, judgement
    assert judgement.expected is not None
    assert judgement.expected.passed, judgement


@pytest.mark.slow
@pytest.mark.parametrize("net", ["SimpleMLP", "Autoencoder", "DSCNN", "ResNet8", "CCT", "MobileNetV1"])
def test_network_in_the_table(net: str, fixtures: Path, tmp_path: Path, update_golden: bool) -> None:
    """All flags, both settings; the row of the table says what came out."""
    cells: list[str] = []
    maker = False
    for number, flags in enumerate(FLAGS.values()):
        own, two = (_check(fixtures, net, tmp_path / f"{number}{steps}", steps, **flags) for steps in (None, 2))
        assert own.expected is not None
        cells.append(
            f"{own.verdict.errors} of {own.verdict.total}, maker {own.expected.errors} of {own.expected.total}; "
            f"{two.verdict.errors} of {two.verdict.total}"
        )
        maker |= bool(own.makers)
    note = "the maker's run has Relu inputs that are zero within rounding on the other side" if maker else ""
    _row(f"| {net} | {' | '.join(cells)} | {note} |", update_golden)


def test_kernels_in_the_table(fixtures: Path, update_golden: bool) -> None:
    root = fixtures / "kernels"
    for name in kernel_folders(root):
        result = f"exception: {EXCEPTIONS[name]}" if name in EXCEPTIONS else "passes"
        note = f"; {ADAPTED[name]}" if name in ADAPTED else ""
        _row(f"| {name} | {read_kernel(root, name).operators} | {result}{note} |", update_golden)


def _row(row: str, update: bool) -> None:
    text = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    wanted = page(text, row, ON_GVSOC)
    if update:
        PAGE.write_text(wanted, encoding="utf-8")
    assert text == wanted or update, f"{PAGE.name} does not say: {row}"
