"""net_math.h against double precision: functions within 2 ulp over their range, special values right."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable

import numpy as np
import pytest

from deeploy_ext.resources import resource

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net_math.h"
int main(int count, char **arguments) {
    float x, y, power = count > 2 ? strtof(arguments[2], NULL) : 0.0f;
    const char *const name = arguments[1];
    while (fread(&x, sizeof x, 1, stdin) == 1) {
        y = !strcmp(name, "exp") ? net_exp(x) : !strcmp(name, "log") ? net_log(x) : !strcmp(name, "tanh") ? net_tanh(x)
          : !strcmp(name, "erf") ? net_erf(x) : !strcmp(name, "floor") ? net_floor(x) : !strcmp(name, "ceil") ? net_ceil(x)
          : net_pow(x, power);
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
    assert ulps(evaluate(tmp_path, x, "exp"), np.exp(x.astype(np.float64))).max() <= 2
    special = evaluate(tmp_path, np.array([0, -np.inf, np.inf, np.nan, -200, 200], np.float32), "exp")
    np.testing.assert_array_equal(special, np.array([1, 0, np.inf, np.nan, 0, np.inf], np.float32))


def test_log(tmp_path) -> None:
    x = np.concatenate([np.logspace(-44, 38, 40001), np.linspace(0.5, 2, 20001)]).astype(np.float32)
    x = x[x > 0]
    assert ulps(evaluate(tmp_path, x, "log"), np.log(x.astype(np.float64)))[np.abs(x - 1) > 1e-6].max() <= 2
    special = evaluate(tmp_path, np.array([1, 0, np.inf, np.nan, -1], np.float32), "log")
    np.testing.assert_array_equal(special, np.array([0, -np.inf, np.inf, np.nan, np.nan], np.float32))


@pytest.mark.parametrize(("name", "exact"), [("tanh", math.tanh), ("erf", math.erf)])
def test_odd_functions_that_level_off(tmp_path, name: str, exact: Callable[[float], float]) -> None:
    x = np.concatenate([np.linspace(-6, 6, 60001), np.logspace(-30, 1, 4001), np.linspace(0.6, 0.95, 20001)]).astype(np.float32)
    wanted = np.array([exact(float(value)) for value in x])
    assert ulps(evaluate(tmp_path, x, name)[x != 0], wanted[x != 0]).max() <= 2
    special = evaluate(tmp_path, np.array([0, -np.inf, np.inf, np.nan, -50, 50], np.float32), name)
    np.testing.assert_array_equal(special, np.array([0, -1, 1, np.nan, -1, 1], np.float32))


@pytest.mark.parametrize(("name", "exact"), [("floor", np.floor), ("ceil", np.ceil)])
def test_rounding(tmp_path, name: str, exact: Callable[[np.ndarray], np.ndarray]) -> None:
    edges = [0, -0.25, 0.75, 8388607.5, -8388607.5, 8388608, 3e9, -3e9, 1e38, np.inf, -np.inf, np.nan]
    x = np.concatenate([np.linspace(-5, 5, 4001), edges]).astype(np.float32)
    np.testing.assert_array_equal(evaluate(tmp_path, x, name), exact(x))


def test_pow(tmp_path) -> None:
    x = np.logspace(-6, 6, 4001).astype(np.float32)
    for exponent in (-2.5, -1, 0.3, 0.5, 1, 2, 3.7):
        found, exact = evaluate(tmp_path, x, "pow", str(exponent)), x.astype(np.float64) ** np.float32(exponent)
        assert (ulps(found, exact) / (1 + np.abs(exponent * np.log(x.astype(np.float64))))).max() <= 2
    base = np.array([-2, 0, 1, np.inf, np.nan], np.float32)
    np.testing.assert_allclose(evaluate(tmp_path, base, "pow", "3"), [-8, 0, 1, np.inf, np.nan], rtol=1e-6)
    np.testing.assert_allclose(evaluate(tmp_path, base, "pow", "2"), [4, 0, 1, np.inf, np.nan], rtol=1e-6)
    np.testing.assert_array_equal(evaluate(tmp_path, base, "pow", "0"), np.ones(5, np.float32))
    np.testing.assert_array_equal(evaluate(tmp_path, base, "pow", "0.5")[:2], np.array([np.nan, 0], np.float32))
    np.testing.assert_array_equal(evaluate(tmp_path, base, "pow", "-1")[[1, 3]], np.array([np.inf, 0], np.float32))
