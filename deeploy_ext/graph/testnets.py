"""Test networks: folders with ``build.py`` and ``test.toml``, shipped, from other packages, or the user's own.

``build.py`` defines ``build(seed) -> onnx.ModelProto`` (forward graph up to the prediction) and, optionally,
``data(seed, count) -> list of dicts`` (inputs and the loss's target of every mini-batch). Other packages announce a folder
of such folders through an entry point of group ``deeploy_ext.testnets`` that names a package.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx

from deeploy_ext.errors import BadInputError, DeeployError
from deeploy_ext.graph.data import random_batches
from deeploy_ext.graph.files import check_batches, parse_model
from deeploy_ext.graph.normalise import normalise
from deeploy_ext.graph.opset import to_opset
from deeploy_ext.graph.options import LoadOptions, checked, override
from deeploy_ext.graph.sanity import check_proto
from deeploy_ext.graph.trainable import select_trainable
from deeploy_ext.plugins import TESTNETS, announced
from deeploy_ext.resources import resource
from deeploy_ext.training.functions import IR_VERSION
from deeploy_ext.training.losses import find_loss, with_loss
from deeploy_ext.training.task import ForwardNetwork, TrainingSpec

_KEYS: Mapping[str, type | tuple[type, ...]] = {
    "description": str,
    "loss": str,
    "trainable": (str, list),
    "steps": int,
    "accumulation": int,
    "learning_rate": (int, float),
    "tolerance": (int, float),
    "tolerance_reason": str,
    "seed": int,
}
_REQUIRED = ("description", "loss")


def is_network_folder(path: Path) -> bool:
    """Whether a folder is a test network."""
    return (path / "test.toml").is_file() and (path / "build.py").is_file()


def network_folders() -> dict[str, Path]:
    """All shipped and announced test networks by name, sorted.

    Raises:
        BadInputError: a plugin is wrong, or two packages claim one network.
    """
    roots = [("deeploy_ext", resource("testnets"))]
    roots += [(plugin.origin, folder) for plugin in announced(TESTNETS) for folder in plugin.folders]
    found: dict[str, Path] = {}
    claims: dict[str, str] = {}
    for origin, root in roots:
        for folder in sorted(root.iterdir()) if root.is_dir() else ():
            if not is_network_folder(folder):
                continue
            if found.setdefault(folder.name, folder) != folder:
                both = f"{claims[folder.name]} and by {origin}"
                raise BadInputError(f"test network {folder.name} is claimed by {both}; uninstall one.")
            claims[folder.name] = origin
    return dict(sorted(found.items()))


def description_of(folder: Path) -> str:
    """What a test network says it is, in one line. Raises BadInputError if its settings are not right."""
    return str(_read_toml(folder)["description"])


def load_network(folder: Path, options: LoadOptions) -> ForwardNetwork:
    """The forward network of a folder, with data for all its mini-batches.

    Raises:
        BadInputError: ``test.toml`` or ``build.py`` is wrong, or the model is not supported.
    """
    settings = _read_toml(folder)
    try:
        own = _spec_of(settings)
    except BadInputError as error:
        raise BadInputError(f"{folder / 'test.toml'}: {error}") from error
    spec = override(own, options)
    module = _import(folder / "build.py")
    built = _call(folder, module, "build", spec.seed)
    if not isinstance(built, onnx.ModelProto):
        raise BadInputError(f"{folder / 'build.py'}: build() returned {type(built).__name__}; return an onnx.ModelProto.")
    origin = str(folder / "build.py")
    check_proto(built, origin)
    model = parse_model(to_opset(built, origin), origin)
    model.ir_version = IR_VERSION
    named = list(model.graph.initializers)
    normalise(model.graph)
    if options.trainable is not None:
        trainable = select_trainable(model.graph, named, options.trainable, "--trainable")
    else:
        trainable = select_trainable(model.graph, named, settings.get("trainable", "all"), str(folder / "test.toml"))
    bare = ForwardNetwork(folder.name, model, settings["loss"], trainable, (), spec)
    graph = with_loss(bare).graph
    if hasattr(module, "data"):
        batches = _call(folder, module, "data", spec.seed, spec.mini_batches)
        if not isinstance(batches, list | tuple) or not all(isinstance(batch, Mapping) for batch in batches):
            raise BadInputError(f"{origin}: data() is to return a list of dicts, one per mini-batch; correct it.")
    else:
        batches = random_batches(graph, settings["loss"], spec)
    check_batches(str(folder), graph, list(graph.inputs), batches)
    return ForwardNetwork(folder.name, model, settings["loss"], trainable, tuple(batches), spec, original=built)


def _read_toml(folder: Path) -> dict[str, Any]:
    file = folder / "test.toml"
    try:
        settings = tomllib.loads(file.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInputError(f"{file}: not readable as TOML ({error}); correct it.") from error
    for key, value in settings.items():
        if key not in _KEYS:
            raise BadInputError(f"{file}: '{key}' is unknown; use {', '.join(_KEYS)}.")
        if not isinstance(value, _KEYS[key]) or isinstance(value, bool):
            raise BadInputError(f"{file}: '{key}' is {type(value).__name__}; correct its type.")
        if isinstance(value, list) and not all(isinstance(name, str) for name in value):
            raise BadInputError(f"{file}: '{key}' is to list names; put them in quotes.")
    missing = [key for key in _REQUIRED if key not in settings]
    if missing:
        raise BadInputError(f"{file}: '{missing[0]}' is missing; add it.")
    if ("tolerance" in settings) != ("tolerance_reason" in settings):
        raise BadInputError(f"{file}: a tolerance of its own needs a reason; give 'tolerance' and 'tolerance_reason'.")
    find_loss(settings["loss"])
    return settings


def _spec_of(settings: Mapping[str, Any]) -> TrainingSpec:
    default = TrainingSpec()
    return checked(
        TrainingSpec(
            steps=settings.get("steps", default.steps),
            accumulation=settings.get("accumulation", default.accumulation),
            learning_rate=float(settings.get("learning_rate", default.learning_rate)),
            tolerance=float(settings.get("tolerance", default.tolerance)),
            seed=settings.get("seed", default.seed),
        )
    )


def _import(file: Path) -> ModuleType:
    """Run a ``build.py`` as a module of its own."""
    module = ModuleType(f"deeploy_ext_testnet_{file.parent.name}")
    module.__file__ = str(file)
    try:  # not through importlib: that leaves compiled files in the user's folder
        exec(compile(file.read_bytes(), str(file), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise BadInputError(f"{file}: {_said(error)}; correct the file (-v shows where).") from error
    return module


def _said(error: BaseException) -> str:
    """Type and message of an error of the user's, in one line."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 300 else f"{text[:300]}..."


def _call(folder: Path, module: ModuleType, name: str, *arguments: int) -> Any:
    file = folder / "build.py"
    if not hasattr(module, name):
        raise BadInputError(f"{file}: function {name}(seed) is missing; add it.")
    try:
        return getattr(module, name)(*arguments)
    except DeeployError:
        raise
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise BadInputError(f"{file}: {name}: {_said(error)}; correct the file (-v shows where).") from error
