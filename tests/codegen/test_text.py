"""Nothing from a model file reaches C text unescaped."""

from __future__ import annotations

import subprocess

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deeploy_ext.codegen.text import c_comment, c_float, c_identifier, c_string


@given(st.text())
def test_a_comment_neither_ends_early_nor_continues(text: str) -> None:
    safe = c_comment(text)
    assert "*/" not in safe and "/*" not in safe and "\\" not in safe and "\n" not in safe and "??" not in safe
    assert safe.isascii() and len(safe) <= 120


def test_strings_survive_the_compiler(tmp_path) -> None:
    texts = ["plain", 'quote " and \\', "line\nbreak", "tab\t", "ünïcode ☃", "??/ trigraph", "%s %n", "1\x00", "*/", "\x7f9"]
    lines = "".join(f"fwrite({c_string(t)}, 1, {len(t.encode())}, stdout); putchar(0);" for t in texts)
    source = tmp_path / "s.c"
    source.write_text(f"#include <stdio.h>\nint main(void) {{ {lines} return 0; }}\n")
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", str(source), "-o", str(tmp_path / "s")], check=True)
    out = subprocess.run([str(tmp_path / "s")], check=True, capture_output=True).stdout
    assert out == b"".join(t.encode() + b"\0" for t in texts)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_literal_reads_back(value: float) -> None:
    assert np.float32(float(c_float(value).strip("()").rstrip("f"))) == np.float32(value)


@given(st.text())
def test_identifiers_are_legal(text: str) -> None:
    assert all(c.isascii() and (c.isalnum() or c == "_") for c in c_identifier(text))
