"""``net_save`` and ``net_load``: a run in two parts is the run in one, and no bad image touches the network."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hal_programs import Hal

from deeploy_ext.engines.compiler import compile_all, find_compiler, link
from deeploy_ext.resources import resource
from deeploy_ext.toolchain import FLAGS
from support import FIXED_L1, emitted, planned, task_of

DRIVER = Path(__file__).parent / "state_driver.c"


class Network:
    """An emitted network with the driver."""

    def __init__(self, folder: Path, net: str, flags: tuple[str, ...] = (), **plan: Any) -> None:
        self.task = task_of(net)
        folder.mkdir()
        self.program = emitted(self.task, planned(self.task, **plan), folder)
        self.c = self.program.directory
        hal = resource("targets", "gap9", "hal")
        sources = [*(self.c / name for name in self.program.sources), *sorted((hal / "host").glob("*.c")), DRIVER]
        includes = [self.c, hal, hal / "host"]
        flags = (*FLAGS, "-DNET_TRACE=1", *flags)
        self._executable = folder / "build" / "program"
        objects = compile_all([find_compiler()], sources, includes, folder / "build", flags=flags)
        link([find_compiler()], objects, self._executable, flags=[*flags, "-lm"])

    def call(self, what: str, *arguments: object) -> list[str]:
        command = [self._executable, what, self.c, *map(str, arguments)]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Network:
    return Network(tmp_path_factory.mktemp("state") / "tiny", "TinyCNN", promote=True, double_buffer=True)


@pytest.mark.parametrize("net", ["TinyCNN", "TinySeparable", "SimpleMLP"])
def test_a_run_in_two_parts_is_the_run_in_one(net: str, tmp_path: Path) -> None:
    network = Network(tmp_path / net, net)  # everything in L3
    whole, image, end = (tmp_path / name for name in ("whole.bin", "image.bin", "end.bin"))
    losses = network.call("train", 4, "-", whole)
    first = network.call("train", 2, "-", image)
    second = network.call("train", 2, image, end)
    assert len(losses) == 4 * network.task.spec.accumulation
    assert first + second == losses
    assert len(set(losses)) == len(losses), "training must change the losses, or this test proves nothing"
    assert end.read_bytes() == whole.read_bytes() != image.read_bytes()


def test_the_image_is_what_its_description_says(tiny: Network, tmp_path: Path) -> None:
    """Header, then all parameters, then all states: before training, the initial weights."""
    tiny.call("train", 0, "-", tmp_path / "image.bin")
    image = (tmp_path / "image.bin").read_bytes()
    magic, checksum, version, size, low, high = struct.unpack("<4s5I", image[:24])
    assert (magic, version, size) == (b"NETS", 1, len(image))
    assert checksum == zlib.crc32(image[8:])
    header = (tiny.c / "net.h").read_text()
    assert f"NET_FINGERPRINT UINT64_C(0x{high:08x}{low:08x})" in header
    names = [*(p.weight for p in tiny.task.parameters), *(s.before for s in tiny.task.states)]
    assert names == [t.name for t in tiny.program.tensors if t.role.name in ("PARAMETER", "STATE")]
    np.testing.assert_array_equal(
        np.frombuffer(image[24:], "<f4"), np.concatenate([tiny.task.initial[name].ravel() for name in names])
    )


def test_damaged_images_leave_the_network_as_it_was(tiny: Network) -> None:
    """Every byte damaged once, every length cut once."""
    tiny.call("refuse")


def test_the_image_is_read_within_its_bounds(tmp_path: Path, hal: Hal) -> None:
    hal.need("address")
    network = Network(tmp_path / "a", "SimpleMLP", ("-fsanitize=address", "-fno-sanitize-recover=all"))
    network.call("refuse")


def test_each_reason_has_its_code(tiny: Network, tmp_path: Path) -> None:
    codes = {name: int(value) for name, value in re.findall(r"(NET_LOAD_\w+) = (-\d+)", (tiny.c / "net_state.h").read_text())}
    assert sorted(codes.values()) == [-5, -4, -3, -2, -1]
    tiny.call("train", 1, "-", tmp_path / "good.bin")
    good = (tmp_path / "good.bin").read_bytes()
    other = Network(tmp_path / "mlp", "SimpleMLP")
    other.call("train", 1, "-", tmp_path / "other.bin")

    def said(image: bytes) -> int:
        (tmp_path / "image.bin").write_bytes(image)
        return int(tiny.call("load", tmp_path / "image.bin")[0])

    assert said(good) == 0
    assert said(b"") == said(good[:23]) == said(b"\x89PNG" + good[4:]) == codes["NET_LOAD_NO_IMAGE"]
    assert said(good[:8] + b"\x02" + good[9:]) == codes["NET_LOAD_OTHER_VERSION"]
    assert said((tmp_path / "other.bin").read_bytes()) == codes["NET_LOAD_OTHER_NETWORK"]
    assert said(good[:-1]) == said(good[:24]) == said(good + b"\0") == codes["NET_LOAD_WRONG_SIZE"]
    assert said(good[:-1] + bytes([good[-1] ^ 1])) == said(good[:4] + b"\0\0\0\0" + good[8:]) == codes["NET_LOAD_CORRUPT"]


def test_an_image_outlives_the_plan(tiny: Network, tmp_path: Path) -> None:
    """Saved with tensors in L2, loaded where they live in L3 and the tiles are smaller, and the other way round."""
    other = Network(tmp_path / "l3", "TinyCNN", l1=FIXED_L1 + 1_760)
    assert (other.c / "net.c").read_text() != (tiny.c / "net.c").read_text()
    tiny.call("train", 1, "-", tmp_path / "image.bin")
    other.call("train", 0, tmp_path / "image.bin", tmp_path / "there.bin")
    tiny.call("train", 0, tmp_path / "there.bin", tmp_path / "back.bin")
    assert (
        (tmp_path / "image.bin").read_bytes() == (tmp_path / "there.bin").read_bytes() == (tmp_path / "back.bin").read_bytes()
    )
