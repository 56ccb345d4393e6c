"""Compilers and simulators: which we look for, where, and how they are called. Needs no package, so that ``doctor`` can ask."""

from __future__ import annotations

CANDIDATES = ("cc", "gcc", "clang")

FLAGS = (
    "-std=c11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Werror=implicit-function-declaration",
    # A device may fuse multiply and add. Here fusing would let the same expression round differently in two copies of a
    # kernel, and on two machines; so results are bit-identical over dispatch modes, compilers and hosts.
    "-ffp-contract=off",
    "-pthread",
)

SANITIZERS = ("address", "undefined", "thread")
