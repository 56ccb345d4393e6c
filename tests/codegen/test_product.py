"""``--out``: a folder that stands alone, builds with one command and prints the proven losses."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from deeploy_ext.codegen.product import write_product
from deeploy_ext.engines.host import HostEngine
from deeploy_ext.harness.files import MANIFEST
from deeploy_ext.toolchain import FLAGS
from deeploy_ext.training.task import TrainingTask
from support import emitted, planned, task_of

ROOT = Path(__file__).resolve().parents[2]


def product_of(task: TrainingTask, folder: Path) -> list[float]:
    """Writes the product into ``folder / "product"`` and returns the losses of the engine."""
    made = planned(task, promote=True)
    program = emitted(task, made, folder)
    engine = HostEngine()
    (run, *_) = engine.run(engine.build(program, folder / "build"), rounds=1).rounds
    write_product(program, task, made.plan, run.losses, folder / "product")
    return run.losses


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def losses_in(text: str) -> list[str]:
    return re.findall(r"^ *step \d+ mini-batch \d+ loss (\S+)$", text, re.MULTILINE)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("product")
    losses = product_of(task_of("TinyCNN"), folder)
    return folder / "product", [f"{loss:.9g}" for loss in losses]


@pytest.fixture
def product(made: tuple[Path, list[str]], tmp_path: Path) -> Path:
    """A copy somewhere else: nothing in it may lead back."""
    return Path(shutil.copytree(made[0], tmp_path / "elsewhere"))


def check_output(text: str, losses: list[str]) -> None:
    assert losses_in(text) == losses
    assert text.count("update with learning rate 0.05") == 2
    before, after = re.findall(r"^prediction (.+)$", text, re.MULTILINE)
    assert before == after
    assert re.search(r"^saved \d+ bytes to state\.bin\nloaded state\.bin$", text, re.MULTILINE)


def test_the_command_of_its_readme_builds_and_prints_the_proven_losses(made: tuple[Path, list[str]], product: Path) -> None:
    readme = (product / "README.md").read_text()
    (command,) = re.findall(r"^    (cc .*)$", readme, re.MULTILINE)
    (program,) = re.findall(r"^    (\./train)$", readme, re.MULTILINE)
    run("sh", "-c", f"{command} -Wall -Wextra -Werror && {program}", cwd=product)
    check_output(run(program, cwd=product), made[1])
    assert losses_in(readme) == made[1]
    # the numbers are the engine's bit for bit because the code is compiled by the same rules
    assert {flag for flag in FLAGS if flag.startswith(("-std", "-f", "-O", "-p"))} <= set(command.split())


@pytest.mark.skipif(not shutil.which("cmake"), reason="no cmake on this machine")
def test_cmake_builds_it_too(made: tuple[Path, list[str]], product: Path) -> None:
    run("sh", "-c", "cmake -B build && cmake --build build", cwd=product)
    check_output(run("build/train", cwd=product), made[1])


def test_files_are_those_of_the_readme_and_name_no_place_of_this_machine(made: tuple[Path, list[str]]) -> None:
    folder, _ = made
    files = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    readme = (folder / "README.md").read_text()
    assert set(re.findall(r"^\| `([\w./]+)` \| [^|]+ \|$", readme, re.MULTILINE)) == files | {MANIFEST}
    for name in files:
        content = (folder / name).read_bytes()
        assert str(ROOT).encode() not in content and str(Path.home()).encode() + b"/" not in content
        assert b"/tmp/" not in content


def test_more_data_and_missing_files(product: Path) -> None:
    (command,) = re.findall(r"^    (cc .*)$", (product / "README.md").read_text(), re.MULTILINE)
    run("sh", "-c", command, cwd=product)
    first = run("./train", cwd=product)
    data = product / "data.bin"
    batch = 708
    assert data.stat().st_size == 4 * batch
    data.write_bytes(data.read_bytes()[:batch])
    again = losses_in(run("./train", cwd=product))  # the same mini-batch four times
    assert again[0] == losses_in(first)[0] and again[1] != losses_in(first)[1]
    for name, content in (("data.bin", b"x" * (batch - 1)), ("weights.bin", b"")):
        (product / name).write_bytes(content)
        done = subprocess.run(["./train"], cwd=product, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (1, f"train: too short: {name}\n")
        data.write_bytes(b"\0" * batch)
    done = subprocess.run(["./train", "absent"], cwd=product, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "train: cannot read absent/data.bin\n")


def test_a_network_without_inference_has_a_product_as_well(tmp_path: Path) -> None:
    losses = product_of(replace(task_of("SimpleMLP"), infer=None), tmp_path)
    product = tmp_path / "product"
    (command,) = re.findall(r"^    (cc .*)$", (product / "README.md").read_text(), re.MULTILINE)
    assert "net_infer" not in (product / "README.md").read_text() + (product / "main.c").read_text()
    run("sh", "-c", f"{command} -Wall -Wextra -Werror", cwd=product)
    text = run("./train", cwd=product)
    assert losses_in(text) == [f"{loss:.9g}" for loss in losses] and "prediction" not in text


def test_hostile_names_stay_inside_their_quotes(tmp_path: Path) -> None:
    evil = "a`|*/\nint x; \\ ${y} ## $(touch owned)"
    task = replace(task_of("TinyCNN"), name=evil)
    made = planned(task)
    program = emitted(task, made, tmp_path)
    renamed = replace(program, tensors=tuple(replace(entry, name=evil) for entry in program.tensors))
    write_product(renamed, task, made.plan, [1.0], tmp_path / "product")
    shown = "`a..*/.int x; \\ ${y} ## $(touch owned)`"
    readme = (tmp_path / "product/README.md").read_text()
    assert readme.startswith(f"# Training of {shown} in C\n") and readme.count(f"| {shown} |") == len(task.data) + 9
    assert "*/ int" not in (main := (tmp_path / "product/main.c").read_text()) and "*/.int" not in main
    assert "evil" not in (tmp_path / "product/CMakeLists.txt").read_text()
