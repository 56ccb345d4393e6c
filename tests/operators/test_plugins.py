"""What a plugin gets wrong is reported as its own: package, file, operator, what was expected; never as a traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx_ir as ir
import pytest

from deeploy_ext import plugins
from deeploy_ext.cli import main
from deeploy_ext.errors import BadInputError
from deeploy_ext.operators import registry
from deeploy_ext.operators.activation import Relu
from deeploy_ext.operators.guard import check_body, guarded
from deeploy_ext.operators.nests import flat
from deeploy_ext.operators.relations import axis
from deeploy_ext.operators.spec import OPSET, Access, Case, Invocation, Loop, Phase, TensorType, Work
from deeploy_ext.planning.target import load_target, target_names
from deeploy_ext.training.builder import GraphBuilder

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
X = TensorType(F32, (2, 3))


class Good(Relu):
    """An operator without mistakes, of which each test changes one thing."""

    op_type = "Good"
    domain = "acme"
    function = "(x) => (y) { y = Relu (x) }"


def changed(**attributes: Any) -> Relu:
    return type("Good", (Good,), {"__module__": __name__, **attributes})()


DECLARATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "no name": ({"op_type": "not a name"}, "op_type"),
    "inputs as text": ({"inputs": "x"}, "a tuple of operand names"),
    "one operand twice": ({"outputs": ("x",)}, "used once"),
    "unknown optional": ({"optional": frozenset({"z"})}, "optional names 'z'"),
    "in place of nothing": ({"in_place": (("z", "y"),)}, "pairs of an input and an output"),
    "no body": ({"function": None}, "no reference body"),
    "case of nothing": ({"cases": (Case({"z": (1,)}),)}, "a case names the operand 'z'"),
    "cases as list": ({"cases": [Case({"x": (1,)})]}, "a tuple of Case"),
    "shape of a case as list": ({"cases": (Case({"x": [3, 5]}),)}, "a tuple of int, or an array"),  # type: ignore[dict-item]
    "attribute of a case that is none": ({"cases": (Case({"x": (1,)}, {"alpha": 1.0}),)}, "the attribute 'alpha'"),
    "domain of no text": ({"domain": 3}, "a text"),
    "attributes as list": ({"attributes": ["alpha"]}, "a mapping from names to defaults"),
    "aliases as names": ({"aliases": ("Well",)}, "a tuple of Alias"),
}


@pytest.mark.parametrize("mistake", DECLARATIONS)
def test_declarations_are_checked(mistake: str) -> None:
    attributes, said = DECLARATIONS[mistake]
    with pytest.raises(BadInputError) as caught:
        guarded(changed(**attributes), "acme 1.0 (acme.ops)")
    for part in (said, "acme 1.0 (acme.ops)", Path(__file__).name, "expected"):
        assert part in str(caught.value)


BODIES: dict[str, tuple[Any, str]] = {
    "no text": (3, "it is no text"),
    "no syntax": ("(x) => (y) { y = Relu (x", "ParseError"),
    "unknown operator": ("(x) => (y) { y = Rellu (x) }", "calls ai.onnx::Rellu"),
    "operator of nobody": ("(x) => (y) { y = acme.Other (x) }", "calls acme::Other"),
    "unknown value": ("(x) => (y) { y = Add (x, z) }", "reads 'z', which nothing before it gives"),
    "value that comes later": ("(x) => (y) { y = Relu (z) z = Relu (x) }", "reads 'z'"),
    "output of nothing": ("(x) => (y) { z = Relu (x) }", "nothing gives its output 'y'"),
    "other inputs": ("(x, z) => (y) { y = Add (x, z) }", "it has the inputs (x, z), the operator (x)"),
    "other outputs": ("(x) => (y, z) { y = Relu (x) z = Relu (x) }", "it has the outputs (y, z), the operator (y)"),
    "attribute of nobody": ("(x) => (y) { y = Elu <alpha: float = @slope> (x) }", "the attribute 'slope'"),
}


@pytest.mark.parametrize("mistake", BODIES)
def test_reference_bodies_are_checked(mistake: str) -> None:
    body, said = BODIES[mistake]
    with pytest.raises(BadInputError) as caught:
        check_body(changed(function=body), "acme 1.0 (acme.ops)", {("acme", "Good")})
    for part in (said, "acme 1.0 (acme.ops)", Path(__file__).name, "expected: (x) => (y)"):
        assert part in str(caught.value)


def main_phase(
    *reads: Access,
    writes: tuple[Access, ...] = (Access("y", (axis("i"),), (6,)),),
    extent: Any = 6,
    work: Any = "elementwise",
) -> tuple[Phase, ...]:
    return (Phase("main", (Loop("i", extent),), reads, writes, work),)


METHODS: dict[str, tuple[str, Any, str]] = {
    "infer raises": ("infer", lambda self, call: call.nothing, "AttributeError"),
    "infer returns one type": ("infer", lambda self, call: call["x"], "a tuple of TensorType, one for each of y"),
    "infer returns lists": ("infer", lambda self, call: (TensorType(F32, [2, 3]),), "a tuple of int each"),
    "infer names a type": ("infer", lambda self, call: (TensorType("float32", (2, 3)),), "a numpy.dtype"),
    "infer says another shape": ("infer", lambda self, call: (TensorType(F32, (3, 2)),), "'y' of float32 (2, 3), as the ref"),
    "infer says another type": ("infer", lambda self, call: (TensorType(F64, (2, 3)),), "'y' of float32 (2, 3), as the ref"),
    "infer returns nothing": ("infer", lambda self, call: None, "a tuple of TensorType"),
    "phases as list": ("phases", lambda self, call: [flat(call, ("x",), ("y",))], "a tuple of Phase"),
    "unknown operand": ("phases", lambda self, call: main_phase(Access("z", (axis("i"),), (6,))), "an operand that is there"),
    "unknown loop": ("phases", lambda self, call: main_phase(Access("x", (axis("j"),), (6,))), "indices in the loops i"),
    "wrong rank": ("phases", lambda self, call: main_phase(Access("x", (axis("i"),))), "one index for each axis"),
    "wrong view": ("phases", lambda self, call: main_phase(Access("x", (axis("i"),), (7,))), "a view with the 6 elements"),
    "a loop of no size": ("phases", lambda self, call: main_phase(extent=0), "at least one iteration"),
    "a loop of half a size": ("phases", lambda self, call: main_phase(extent=2.5), "at least one iteration"),
    "unknown work": ("phases", lambda self, call: main_phase(work="magic"), "work that is one of elementwise, "),
    "not all written": ("phases", lambda self, call: main_phase(extent=5), "all elements of 'y' written, 0 to 5 along axis 0"),
    "nothing written": ("phases", lambda self, call: main_phase(writes=()), "writes"),
}


@pytest.mark.parametrize("mistake", METHODS)
def test_what_methods_return_is_checked(mistake: str) -> None:
    name, method, said = METHODS[mistake]
    operator = guarded(changed(**{name: method}), "acme 1.0 (acme.ops)")
    with pytest.raises(BadInputError) as caught:
        getattr(operator, name)(Invocation("node7", operator, (X,), (X,), {}))
    for part in (said, "node7", "acme 1.0 (acme.ops)", Path(__file__).name, f"{name}()"):
        assert part in str(caught.value)


GRADIENTS: dict[str, tuple[Any, str]] = {
    "of nothing": (lambda build, dy: None, "a sequence of gradients or None"),
    "of no value": (lambda build, dy: ("x",), "a value that build.node() gave"),
    "of another shape": (lambda build, dy: (build.node("Transpose", [dy]),), "a gradient of 'x' of its shape, (2, 3)"),
    "by an operator of nobody": (lambda build, dy: (build.node("Rellu", [dy]),), "operator ai.onnx::Rellu is not supported"),
    "by too few operands": (lambda build, dy: (build.node("Add", [dy]),), "input 'B' is missing"),
}


@pytest.mark.parametrize("mistake", GRADIENTS)
def test_gradients_are_checked(mistake: str) -> None:
    rule, said = GRADIENTS[mistake]
    operator = guarded(changed(gradient=lambda self, call, node, grads, build: rule(build, grads[0])), "acme 1.0 (acme.ops)")
    build = GraphBuilder(ir.Graph([], [], nodes=[], opset_imports={"": OPSET}))
    with pytest.raises(BadInputError) as caught:
        operator.gradient(
            Invocation("node7", operator, (X,), (X,), {}), ir.Node("acme", "Good", []), [build.input("dy", X)], build
        )
    for part in (said, "node7", "acme 1.0 (acme.ops)", Path(__file__).name, "gradient()", "expected"):
        assert part in str(caught.value)
    assert str(caught.value).count("expected") == 1


def test_an_operator_may_refuse_a_use() -> None:
    def refusing(self: Any, call: Invocation, *_: Any) -> Any:
        raise call.refuse("this", "do that")

    operator = guarded(changed(gradient=refusing), "acme")
    with pytest.raises(BadInputError, match=r"^node \(Good\): this is not supported; do that\.$"):
        operator.gradient(Invocation("node", operator, (X,), (X,), {}), ir.Node("acme", "Good", []), [], None)  # type: ignore[arg-type]


def test_a_guarded_operator_works_like_the_bare_one() -> None:
    operator = guarded(changed(), "acme")
    call = Invocation("node", operator, (X,), (X,), {})
    assert (operator.infer(call), operator.phases(call)) == (Relu().infer(call), Relu().phases(call))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An importable folder ``acme_plugin`` that is announced as every kind of plugin."""
    folder = tmp_path / "acme_plugin"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    def announced(group: str) -> list[EntryPoint]:
        return [EntryPoint("acme", "acme_plugin", group)]

    monkeypatch.setattr(plugins, "entry_points", announced)
    registry.cache_clear()
    load_target.cache_clear()
    yield folder
    monkeypatch.undo()
    registry.cache_clear()
    load_target.cache_clear()
    for name in [name for name in sys.modules if name.startswith("acme_plugin")]:
        del sys.modules[name]


def failing(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command says that ends with status 2, in at most two lines."""
    assert main(["-t", "SimpleMLP", "--plan-only", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("deeployRunner: ") and said.count("\n") <= 2 and "Traceback" not in said
    return said


def test_a_plugin_that_cannot_be_imported(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (package / "ops.py").write_text("import no_such_module\n")
    said = failing(capsys)
    assert "acme_plugin" in said and "No module named 'no_such_module'" in said and "ops.py, line 1" in said


def test_a_plugin_without_operators(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "defines no Operator" in failing(capsys)


OPERATOR = """
from deeploy_ext.operators.activation import Relu as Base
class Relu(Base):
    op_type = "Relu"
    domain = {domain!r}
    function = "(x) => (y) {{ y = Relu (x) }}"
"""


def test_two_packages_that_claim_one_operator(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (package / "ops.py").write_text(OPERATOR.format(domain=""))
    said = failing(capsys)
    assert "operator Relu is claimed by deeploy_ext and by" in said and "acme_plugin" in said


def test_an_operator_of_a_domain_of_its_own_claims_nothing(package: Path) -> None:
    (package / "ops.py").write_text(OPERATOR.format(domain="acme"))
    assert registry()["acme", "Relu"] is not registry()["", "Relu"]


def test_two_packages_that_claim_one_target_or_network(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (package / "ops.py").write_text(OPERATOR.format(domain="acme"))
    (package / "gap9").mkdir()
    (package / "gap9" / "target.toml").write_text('based_on = "gap9"\n')
    said = failing(capsys)
    assert "target gap9 is claimed by deeploy_ext and by" in said and "acme_plugin" in said
    (package / "gap9" / "target.toml").unlink()
    (package / "SimpleMLP").mkdir()
    for name in ("build.py", "test.toml"):
        (package / "SimpleMLP" / name).touch()
    assert "test network SimpleMLP is claimed by deeploy_ext and by" in failing(capsys)


TARGETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "no TOML": ("cores = ", ("target.toml", "TOML")),
    "based on nothing": ('based_on = "gap8"', ("based_on 'gap8'", "gap9")),
    "based on itself": ('based_on = "small"', ("based_on 'small'",)),
    "no name for its predictions": ('based_on = "gap9"', ("'model' is missing",)),
    "a table that is a number": ('based_on = "gap9"\nmodel = "m"\nlevels = 3', ("wrong type",)),
    "nothing": ("", ("'levels' is missing", "based_on")),
}


@pytest.mark.parametrize("mistake", TARGETS)
def test_mistakes_of_a_target(mistake: str, package: Path) -> None:
    text, said = TARGETS[mistake]
    (package / "small").mkdir()
    (package / "small" / "target.toml").write_text(text)
    with pytest.raises(BadInputError) as caught:
        load_target("small")
    for part in (*said, str(package / "small" / "target.toml")):
        assert part in str(caught.value)


def test_a_target_based_on_another_has_its_numbers_and_files(package: Path) -> None:
    (package / "small").mkdir()
    (package / "small" / "target.toml").write_text('based_on = "gap9"\nmodel = "m"\ncores = 4\n[levels.L1]\ncapacity = 65536\n')
    small, gap9 = load_target("small"), load_target("gap9")
    assert target_names() == ["gap9", "small"]
    assert (small.name, small.model, small.cores, small.levels["L1"].capacity) == ("small", "m", 4, 65536)
    assert (small.fpus, small.costs, small.levels["L2"]) == (gap9.fpus, gap9.costs, gap9.levels["L2"])
    assert small.part("hal") == gap9.part("hal") and small.folder == package / "small"


def test_every_target_states_the_costs_of_every_class_of_work() -> None:
    for target in map(load_target, target_names()):
        assert {f"{table}.{work}" for table in ("body", "iteration") for work in get_args(Work)} <= set(target.costs)
