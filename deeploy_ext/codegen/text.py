"""Names and texts from a model, made safe for C (identifiers, comments, string literals, numbers) and for Markdown."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

C_TYPES = {"float32": "float", "int32": "int32_t", "int64": "int64_t", "bool": "uint8_t"}


def c_type(dtype: np.dtype[Any]) -> str:
    """C type of one element."""
    return C_TYPES[dtype.name]


def c_comment(text: str, limit: int = 120) -> str:
    """``text`` for the inside of a comment: printable ASCII, unable to end the comment or to continue the line."""
    safe = re.sub(r"[^ -~]|[\\\\?]", ".", text).replace("*/", "*.").replace("/*", ".*")
    return safe if len(safe) <= limit else safe[: limit - 3] + "..."


def md_code(text: str) -> str:
    """``text`` as code in Markdown, also in a table: unable to end the code, the cell or the line."""
    return "`" + re.sub(r"[^ -~]|[`|]", ".", text) + "`"


def c_string(text: str) -> str:
    """``text`` as a C string literal (UTF-8, everything but plain characters as octal escapes)."""
    plain = re.compile(rb"[A-Za-z0-9 _.,:;/+\-*=()\[\]<>@#$%&|~^!]")
    encoded = text.encode("utf-8", "surrogatepass")
    return '"' + "".join(chr(b) if plain.match(bytes([b])) else f"\\{b:03o}" for b in encoded) + '"'


def c_float(value: float) -> str:
    """A float literal that reads back as the same fp32 number."""
    rounded = np.float32(value)
    if not math.isfinite(rounded):
        raise ValueError(f"{value} has no C literal")
    text = np.format_float_scientific(rounded, unique=True, trim="0")
    return f"{text}f" if rounded >= 0 else f"({text}f)"


def c_identifier(text: str) -> str:
    """A legal part of an identifier; collisions are the caller's business."""
    return re.sub(r"[^A-Za-z0-9]", "_", text)
