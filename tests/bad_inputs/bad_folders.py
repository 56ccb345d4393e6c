"""Names that are no network, and test networks whose ``build.py``, ``test.toml`` or data are wrong."""

from __future__ import annotations

from pathlib import Path

import onnx
from bad_case import FROM_FILE, SETTINGS, Build, Case, dense, network

RAISES = "def build(seed): raise {}\n"


def _folder(build: str = FROM_FILE, settings: str = SETTINGS, data: str = "") -> Build:
    def make(folder: Path) -> None:
        network(folder, build=build, settings=settings, data=data)
        onnx.save(dense(), folder / "net/model.onnx")

    return make


def _case(name: str, made: Build, *words: str) -> Case:
    return Case(f"network: {name}", ("-t", "net"), words, made)


def _data(name: str, body: str, *words: str) -> Case:
    text = f"\nimport numpy as np\ndef data(seed, count):\n    {body}\n"
    return _case(f"data {name}", _folder(data=text), *words)


BATCH = "dict(x=np.zeros((1, 4), np.float32), labels=np.zeros(1, np.int64))"
MANY = f"return [{BATCH} | dict({{}}) for _ in range(count)]"


def _with(change: str) -> str:
    return MANY.format(change)


CASES: tuple[Case, ...] = (
    Case("network: unknown name", ("-t", "ResNet9"), ("ResNet9", "Did you mean ResNet8?", "TinyCNN")),
    Case("network: unknown name in other case", ("-t", "tinycnn"), ("Did you mean TinyCNN?",)),
    Case("network: unknown path", ("-t", "some/where.onnx"), ("some/where.onnx", "no such file", "--list")),
    Case(
        "network: empty folder",
        ("-t", "net"),
        ("net", "no network.onnx and no inputs.npz", "build.py"),
        lambda f: (f / "net").mkdir(),
    ),
    Case("network: a path below a file", ("-t", "f/g"), ("f/g", "no such file"), lambda f: (f / "f").write_text("")),
    Case("network: a name of 5000 characters", ("-t", "n" * 5000), ("nnn", "too long", "--list")),
    Case("network: a path of 5000 characters", ("-t", "n/" * 2500), ("n/n/", "too long", "--list")),
    Case("network: a name with control characters", ("-t", "a\n\x1b[31mb"), ("is not a network", "--list")),
    Case("network: the device of nothing", ("-t", "/dev/null"), ("/dev/null",)),
    Case(
        "network: optimizer for a test network",
        ("-t", "TinyCNN", "--optimizer", "x"),
        ("--optimizer", "TinyCNN", "leave it out"),
    ),
    _case("build.py with a syntax error", _folder("def build(seed:\n"), "build.py", "SyntaxError", "correct"),
    _case("build.py that is binary", _folder("\0\1\2"), "build.py", "correct"),
    _case("build.py that imports what is absent", _folder("import absent_module\n"), "build.py", "absent_module", "correct"),
    _case("build.py that leaves", _folder("import sys\nsys.exit(0)\n"), "build.py", "SystemExit", "correct"),
    _case("build.py without build", _folder("x = 1\n"), "build.py", "function build(seed) is missing", "add it"),
    _case("build.py whose build is no function", _folder("build = 3\n"), "build.py", "correct"),
    _case("build that raises", _folder(RAISES.format("ValueError('a\\nb')")), "build.py", "ValueError: a", "correct"),
    _case("build that raises in silence", _folder(RAISES.format("KeyError")), "build.py", "KeyError", "correct"),
    _case("build that leaves", _folder(RAISES.format("SystemExit(0)")), "build.py", "SystemExit", "correct"),
    _case("build that recurses", _folder("def build(seed): return build(seed)\n"), "build.py", "RecursionError", "correct"),
    _case("build without argument", _folder("def build(): return 1\n"), "build.py", "argument", "correct"),
    _case("build that returns None", _folder("def build(seed): return None\n"), "build.py", "NoneType", "ModelProto"),
    _case("build that returns bytes", _folder("def build(seed): return b''\n"), "build.py", "bytes", "ModelProto"),
    _case("test.toml that is no TOML", _folder(settings="= = ="), "test.toml", "TOML", "correct"),
    _case("test.toml that is empty", _folder(settings=""), "test.toml", "'description' is missing", "add it"),
    _case(
        "test.toml with an unknown key", _folder(settings=SETTINGS + "learningrate = 1\n"), "'learningrate'", "learning_rate"
    ),
    _case("test.toml with text for a number", _folder(settings=SETTINGS + "steps = '2'\n"), "'steps'", "str", "correct"),
    _case("test.toml with zero steps", _folder(settings=SETTINGS + "steps = 0\n"), "test.toml", "steps is 0", "1 or more"),
    _case(
        "test.toml with a NaN rate", _folder(settings=SETTINGS + "learning_rate = nan\n"), "learning rate is nan", "positive"
    ),
    _case(
        "test.toml with a rate beyond float32", _folder(settings=SETTINGS + "learning_rate = 1e39\n"), "learning rate", "1e+39"
    ),
    _case(
        "test.toml with an infinite tolerance",
        _folder(settings=SETTINGS + 'tolerance = inf\ntolerance_reason = "x"\n'),
        "tolerance",
    ),
    _case(
        "test.toml with an unknown loss",
        _folder(settings=SETTINGS.replace("cross_entropy", "hinge")),
        "'hinge'",
        "cross_entropy",
    ),
    _case("test.toml that trains nothing", _folder(settings=SETTINGS + "trainable = []\n"), "no weight is chosen", "w1"),
    _case("test.toml with an unknown weight", _folder(settings=SETTINGS + 'trainable = ["w3"]\n'), "'w3'", "w1"),
    _case("test.toml with a number for a weight", _folder(settings=SETTINGS + "trainable = [3]\n"), "trainable", "test.toml"),
    _case("test.toml with an enormous seed", _folder(settings=SETTINGS + f"seed = {10**30}\n"), "seed", "4294967295"),
    _data("that raises", "raise OSError('no disk')", "build.py", "OSError: no disk", "correct"),
    _data("that is None", "return None", "build.py", "data", "list"),
    _data("that is a number", "return 3", "build.py", "data", "list"),
    _data("of lists", "return [[1]] * count", "build.py", "data"),
    _data("of nothing", "return []", "no data", "at least one"),
    _data("without labels", "return [dict(x=np.zeros((1, 4), np.float32))] * count", "labels", "inputs of the graph"),
    _data("with a stranger", _with("z=np.zeros(1)"), "z", "inputs of the graph"),
    _data("of another shape", _with("x=np.zeros((4, 1), np.float32)"), "'x'", "(4, 1)", "(1, 4)"),
    _data("of another type", _with("x=np.zeros((1, 4))"), "'x'", "float64", "convert"),
    _data("of objects", _with("x=np.array([[{}] * 4])"), "'x'", "object"),
    _data("with NaN", _with("x=np.full((1, 4), np.nan, np.float32)"), "'x'", "NaN", "finite"),
    _data("with a label too large", _with("labels=np.array([3])"), "label 3", "0 to 2"),
    _data("with a negative label", _with("labels=np.array([-1])"), "label -1", "0 to 2"),
    _data("with labels of numbers", _with("labels=np.zeros(1, np.float32)"), "'labels'", "float32", "convert"),
)
