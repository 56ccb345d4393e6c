"""The bench's list of layers: complete, and bad lists are refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from deeploy_ext.bench.cases import load_cases
from deeploy_ext.bench.run import CHUNK, chunks
from deeploy_ext.cli import main
from support import GAP9


def test_names_are_unique_and_every_gradient_is_there() -> None:
    cases = load_cases()
    assert len({case.name for case in cases}) == len(cases)
    layers = {op: {c.layer for c in cases if c.operator.op_type == op} for op in ("Conv", "ConvGradX", "ConvGradW")}
    assert layers["Conv"] == layers["ConvGradX"] == layers["ConvGradW"]
    assert {"ResNet8 first", "DSCNN depthwise", "MobileNetV1 pointwise 256", "odd sizes"} <= layers["Conv"]


def test_operators_are_chosen_by_name() -> None:
    assert {case.operator.op_type for case in load_cases(operators=["convgradx", "SGD"])} == {"ConvGradX", "SGD"}


def test_chunks_hold_all_cases_in_order() -> None:
    cases = load_cases()
    parts = list(chunks(cases))
    assert [case for part in parts for case in part] == cases
    assert len(parts) > 1
    assert GAP9.levels["L2"].capacity - GAP9.code["runtime"] > CHUNK


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("conv = [", "cannot be read"),
        ("pool = []", "lists 'pool'; known are conv, elementwise"),
        ("", "lists no layer"),
        ("conv = []", "lists no layer"),
        ("conv = 5", "conv is not a list of layers"),
        ("[conv]\nof = 'a'", "conv is not a list of layers"),
        ("conv = [{ of = 'a', x = [1, 3, 8, 8] }]", "'w' is missing"),
        ("conv = [{ of = 3, x = [1, 3, 8, 8], w = [4, 3, 3, 3] }]", "'of' is not a text"),
        ("conv = [{ of = 'a', x = [1, 3, 8, 8], w = [4, 3, 3, 3], dilation = 2 }]", "'dilation' is not known"),
        ("conv = [{ of = 'a', x = [1, 3, 8, 8], w = [4, 3, 3, 3], pad = true }]", "'pad' is not of whole numbers"),
        ("conv = [{ of = 'a', x = [1, 3, 8, 8], w = [4, 3, 3, 3], pad = 1, pads = [1, 1, 1, 1] }]", "say the same"),
        ("conv = [{ of = 'a', x = [1, -3, 8, 8], w = [4, 3, 3, 3] }]", "are not 4 sizes"),
        ("gemm = [{ of = 'a', m = 'x', k = 2, n = 2 }]", "are not some sizes"),
        ("gemm = [{ of = 'a', m = 1, k = 1000000, n = 100000 }]", "more than 2097152 elements"),
        ("normalisation = [{ of = 'a', x = [1, 3, 1] }]", "are not 4 sizes"),
        ("conv = [{ of = 'a', x = [1, 3, 2, 2], w = [4, 3, 5, 5] }]", "make the kernel fit into the padded image"),
    ],
)
def test_bad_lists_are_refused(text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shapes = tmp_path / "shapes.toml"
    shapes.write_text(text)
    assert main(["bench", "--engine", "host", "--shapes", str(shapes)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--op", "convolution"], "--op 'convolution': no layer of the list has it; listed are Add"),
        (["--shapes", "/no/such"], "--shapes: '/no/such' cannot be read"),
        (["--engine", "board"], "invalid choice: 'board'"),
        (["--op", ""], "is not a list of operators"),
        (["--op", "conv,,gemm"], "is not a list of operators"),
        (["--l1", "900000"], "has 131072 bytes; give at most that"),
        (["--engine", "host", "--op", "relu", "--json", ""], "--json: '' is not a path"),
        (["--fit", "--engine", "host"], "--fit: engine host measures no cycles"),
        (["--fit", "--db"], "leave --db out"),
        (["--json", "/no/such/folder/file"], "create it first"),
        (["--frobnicate"], "unrecognized arguments: --frobnicate"),
    ],
)
def test_bad_options_are_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments]) == 2
    assert said in capsys.readouterr().err
