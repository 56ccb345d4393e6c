"""net_math.h against numpy in double precision: both functions within 2 ulp over their range, special values right."""

from __future__ import annotations

import subprocess

import numpy as np

from deeploy_ext.resources import resource

PROGRAM = """
#include <stdio.h>
#include "net_math.h"
int main(int count, char **arguments) {
    float x, y;
    (void)arguments;
    while (fread(&x, sizeof x, 1, stdin) == 1) {
        y = count > 1 ? net_log(x) : net_exp(x);
        fwrite(&y, sizeof y, 1, stdout);
    }
    return 0;
}
"""


def evaluate(tmp_path, values: np.ndarray, *arguments: str) -> np.ndarray:
    source, program = tmp_path / "m.c", tmp_path / "m"
    source.write_text(PROGRAM)
    include = f"-I{resource('targets', 'gap9', 'runtime')}"
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", include, str(source), "-o", str(program)], check=True)
    done = subprocess.run([str(program), *arguments], input=values.astype("<f4").tobytes(), capture_output=True, check=True)
    return np.frombuffer(done.stdout, "<f4")


def ulps(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    return np.abs(found.astype(np.float64) - exact) / np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)


def test_exp(tmp_path) -> None:
    x = np.concatenate([np.linspace(-87.3, 88.7, 40001), np.linspace(-1e-3, 1e-3, 2001)]).astype(np.float32)
    assert ulps(evaluate(tmp_path, x), np.exp(x.astype(np.float64))).max() <= 2
    special = evaluate(tmp_path, np.array([0, -np.inf, np.inf, np.nan, -200, 200], np.float32))
    np.testing.assert_array_equal(special, np.array([1, 0, np.inf, np.nan, 0, np.inf], np.float32))


def test_log(tmp_path) -> None:
    x = np.concatenate([np.logspace(-44, 38, 40001), np.linspace(0.5, 2, 20001)]).astype(np.float32)
    x = x[x > 0]
    assert ulps(evaluate(tmp_path, x, "log"), np.log(x.astype(np.float64)))[np.abs(x - 1) > 1e-6].max() <= 2
    special = evaluate(tmp_path, np.array([1, 0, np.inf, np.nan, -1], np.float32), "log")
    np.testing.assert_array_equal(special, np.array([0, -np.inf, np.inf, np.nan, np.nan], np.float32))
