"""``deeployRunner new-operator``: a skeleton that works, here or in a package of its own."""

from __future__ import annotations

import keyword
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from deeploy_ext.arguments import Parser, UsageError, named, place
from deeploy_ext.errors import EXIT_PASS, BadInputError
from deeploy_ext.resources import resource

_SKELETON = Path(__file__).with_name("skeleton")


def parser() -> Parser:
    """The command line of ``deeployRunner new-operator``."""
    top = Parser(
        prog="deeployRunner new-operator",
        description="Writes an element-wise operator with its gradient, templates and cases, which passes check-operator as it "
        "stands, for you to change: into this repository, or into a package of your own, which is made if need be",
        allow_abbrev=False,
    )
    top.add_argument("name", type=named, metavar="NAME", help="of the operator, as ONNX spells names: HardSwish")
    top.add_argument("--package", type=place, metavar="DIR", help="folder of your package, its last part the package's name")
    return top


def new_operator(given: Sequence[str]) -> int:
    """Writes the files and says what to do next; returns the exit status.

    Raises:
        BadInputError: the name cannot be one, or a file is there already.
    """
    args = parser().answer(given)
    if args is None:
        return EXIT_PASS
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", args.name):
        raise UsageError(
            f"argument NAME: '{args.name}' is no name of an operator; spell it like HardSwish, in letters and digits"
        )
    if args.package is None:
        root, files, then = _here(args.name)
    else:
        root, files, then = _package(args.name, Path(args.package))
    written = _write(root, files)
    for path in written:
        print(f"wrote  {path}")
    for line in then:
        print(f"next   {line}")
    return EXIT_PASS


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _filled(file: str, values: Mapping[str, str]) -> str:
    text = (_SKELETON / f"{file}.in").read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


_SPEC = ("Case", "Invocation", "Operator", "Phase", "TensorType")


def _here(name: str) -> tuple[Path, dict[str, str], list[str]]:
    """Files for a checkout of this repository."""
    root = resource("templates").parent
    if not (root / "pyproject.toml").is_file():
        raise UsageError("argument --package: this is an installed deeploy_ext, which is not yours to change; give a folder")
    values = {"NAME": name, "DOMAIN": "OWN", "IMPORTS": ", ".join(("OWN", *_SPEC))}
    files = {
        f"deeploy_ext/operators/{_snake(name)}.py": _filled("operator.py", values),
        f"templates/{name}.c.mako": _filled("operator.c.mako", values),
        f"templates/{name}Grad.c.mako": _filled("gradient.c.mako", values),
    }
    table = "pytest tests/operators/test_table.py --update-golden"
    return root, files, [f"deeployRunner check-operator {name} {name}Grad", table]


def _package(name: str, folder: Path) -> tuple[Path, dict[str, str], list[str]]:
    """Files for a package: all of it where it is new, else one more operator."""
    package = folder.resolve().name.replace("-", "_")
    if not package.isidentifier() or keyword.iskeyword(package) or package == "deeploy_ext":
        raise UsageError(f"argument --package: '{package}' is no name of a package; name the folder in letters, like tiny_ops")
    net = f"{name}Net"
    values = {
        "NAME": name, "DOMAIN": f'"{package}"', "IMPORTS": ", ".join(_SPEC), "PACKAGE": package, "NET": net,
    }  # fmt: skip
    operators = f"{package}/operators"
    files = {
        f"{operators}/{_snake(name)}.py": _filled("operator.py", values),
        f"{operators}/templates/{name}.c.mako": _filled("operator.c.mako", values),
        f"{operators}/templates/{name}Grad.c.mako": _filled("gradient.c.mako", values),
        f"{package}/testnets/{net}/build.py": _filled("build.py", values),
        f"{package}/testnets/{net}/test.toml": _filled("test.toml", values),
    }
    then = [f"deeployRunner check-operator {package}::{name} {package}::{name}Grad", f"deeployRunner -t {net} --promote --db"]
    if (folder / "pyproject.toml").is_file():
        if not (folder / operators).is_dir():
            raise BadInputError(
                f"--package: '{folder}' has no folder {operators}; give one that new-operator made, or a new one."
            )
        return folder, files, then
    new = {
        "pyproject.toml": _filled("pyproject.toml", values),
        f"{package}/__init__.py": '"""Operators for deeploy_ext."""\n',
        f"{operators}/__init__.py": '"""One module per operator or family; their templates are in templates/."""\n',
        f"{package}/targets/__init__.py": '"""A folder for each target, with its target.toml."""\n',
        f"{package}/testnets/__init__.py": '"""A folder for each test network, with its build.py and test.toml."""\n',
    }
    return folder, new | files, [f"pip install --editable {folder}", *then]


def _write(root: Path, files: Mapping[str, str]) -> list[Path]:
    """All files or none, the folders made that they need.

    Raises:
        BadInputError: one of them is there, or the folder cannot be written.
    """
    taken = [name for name in files if (root / name).exists()]
    if taken:
        raise BadInputError(f"'{root / taken[0]}' is there already; remove it, or choose another name.")
    if (root.exists() and not root.is_dir()) or not root.resolve().parent.is_dir():
        raise BadInputError(f"--package: '{root}' cannot be a folder; give another place.")
    try:
        with tempfile.TemporaryDirectory(prefix=".deeployRunner-", dir=root.resolve().parent) as draft:
            for name, text in files.items():
                path = Path(draft, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            for name in files:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.move(Path(draft, name), root / name)
    except OSError as error:
        raise BadInputError(f"'{error.filename or root}' cannot be written: {error.strerror or error}.") from error
    return [root / name for name in files]
