"""--override and --variant: identical, different and refused kernels."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from deeploy_ext.cli import main
from support import emitted, planned, task_of

KERNEL = """\
/* the same as Relu_main(int), element by element */
void Relu_main_1(const net_tile_t *tile,
                 const net_range_t *range)
{
    const float *const x = tile->operand[0].data;
    float *const y = tile->operand[1].data;
    const int32_t start = tile->operand[0].start[0];
    for (int32_t i = range->begin[0] - start; i < range->end[0] - start; ++i)
        y[i] = x[i] > 0.0f ? x[i] : 0.0f;
}
"""


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.c"
    file.write_text(KERNEL)
    return file


def run(*arguments: str) -> int:
    return main(["-t", "SimpleMLP", "--promote", "--engine", "host", "-q", "--steps", "1", *arguments])


@pytest.mark.slow
def test_a_kernel_that_computes_the_same(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--override", "Relu=mine.c", "--dump", "d") == 0
    said = capsys.readouterr().out
    assert "tensors of every mini-batch are byte-identical" in said
    assert "--engine gvsoc measures it" in said and "->" not in said  # no figure that is not of this kernel
    assert "override_0_Relu_main_1" in Path("d", "c", "net.c").read_text()


def test_where_another_kernel_first_differs(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel.write_text(KERNEL.replace(": 0.0f", ": -1.0f"))
    assert run("--override", "relu=mine.c") == 1
    said = capsys.readouterr().out
    assert "first node 'relu', 'relu_out'[0, " in said and "0 before, -1 now" in said


BODY = re.compile(r"^static void ((\w+?)_\w+)_\d+\(const net_tile_t.*?^}", re.MULTILINE | re.DOTALL)
"""A generated body: its stem, and the operator."""


def copies(dump: Path) -> list[str]:
    """Options that override every operator of a dump by its own bodies, as they stand there, where each of them is one."""
    text = (dump / "c" / "net.c").read_text()
    found: dict[str, list[re.Match[str]]] = defaultdict(list)
    for body in BODY.finditer(text):
        found[body[2]].append(body)
    options: list[str] = []
    for operator, bodies in found.items():
        if len({body[1] for body in bodies}) == len(bodies):
            file = dump / f"{operator}.c"
            file.write_text("\n\n".join(body[0] for body in bodies) + "\n")
            options += ["--override", f"{operator}={file}"]
    return options


def test_generated_bodies_of_every_operator_as_they_stand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bodies with phases, team kernels, and of nodes that another operator runs in inference."""
    task = task_of("TinyCNN", steps=1)
    emitted(task, planned(task, promote=True, double_buffer=True, groups="single"), tmp_path)
    options = copies(tmp_path)
    names = {option.partition("=")[0] for option in options[1::2]}
    assert {"BatchNormInternal", "BatchNormalization", "BatchNormalizationGrad", "ConvGradX", "SGD", "Add"} <= names
    assert main(["-t", "TinyCNN", "--promote", "--db", "--engine", "host", "-q", "--steps", "1", *options]) == 0
    assert "tensors of every mini-batch are byte-identical" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "option", "said"),
    [
        (KERNEL.replace("const net_range_t", "net_range_t"), "Relu=mine.c", "which does not fit; expected: void Relu_main("),
        (KERNEL.replace("void Relu_main_1", "int Relu_main_1"), "Relu=mine.c", "'int Relu_main_1("),
        ("/* void Relu_main(int) { */\n", "Relu=mine.c", "defines no kernel of this node; expected: void Relu_main("),
        (KERNEL, "hidden=mine.c", "expected: void Gemm_main"),
        (KERNEL, "Rleu=mine.c", "is no node and no operator of this network"),
        (KERNEL, "Relu=none.c", "cannot be read"),
        (KERNEL, "Relu", "not of the form NODE=..."),
    ],
)
def test_overrides_that_do_not_fit(kernel: Path, capsys: pytest.CaptureFixture[str], text: str, option: str, said: str) -> None:
    kernel.write_text(text)
    assert run("--override", option) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_the_portable_body_of_a_node(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-t", "TinyCNN", "--promote", "--engine", "host", "-q", "--steps", "1", "--variant", "ConvGradX=scatter"]) == 0
    said = capsys.readouterr().out
    assert "Against the untouched program:" in said and "cycles (predicted, cost model gap9): " in said
    assert "step: conv2_grad/ConvGrad/X (main): " in said


@pytest.mark.parametrize(
    ("option", "said"), [("Relu=fast", "has no variant 'fast'; use portable"), ("nothing=portable", "is no node")]
)
def test_variants_that_are_none(capsys: pytest.CaptureFixture[str], option: str, said: str) -> None:
    assert run("--variant", option) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("option", [("--plan-only",), ("--out", "x"), ("--plan", "x"), ("--engine", "board")])
def test_a_trial_writes_no_product(option: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-t", "SimpleMLP", "--override", "Relu=mine.c", *option]) == 2
    assert "try a kernel" in capsys.readouterr().err
