"""``deeployRunner check-operator``: arguments in, exit status out."""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from deeploy_ext import engines
from deeploy_ext.arguments import Parser, UsageError, add_engine_options, named
from deeploy_ext.errors import EXIT_MISMATCH, EXIT_PASS, ToolError
from deeploy_ext.operators import registry
from deeploy_ext.operators.spec import Operator
from deeploy_ext.planning.target import load_target
from deeploy_ext.run_options import RunOptions, engine_options
from deeploy_ext.workshop.check import check_operator


def parser() -> Parser:
    """The command line of ``deeployRunner check-operator``."""
    top = Parser(
        prog="deeployRunner check-operator",
        description="Checks all that an operator claims, on its cases: shapes and gradients, and its kernels in every tile "
        "regime, on 1 and 8 cores, double-buffered under lazy DMA, under sanitizers, on the host and on GVSoC if it is there; "
        "exit status 1: something is wrong",
        epilog="--engine host leaves GVSoC out, --engine gvsoc fails without it; auto (the default) says that it is skipped",
        allow_abbrev=False,
    )
    top.add_argument(
        "operators", nargs="+", type=named, metavar="NAME", help="ONNX name, or DOMAIN::NAME; several make one run"
    )
    top.add_argument("-p", "--target", default="gap9", metavar="TARGET", help="chip to plan for (default: gap9)")
    add_engine_options(top, ("host", "gvsoc", "auto"))
    return top


def find_operator(name: str) -> Operator:
    """The operator of an ONNX name, or of ``domain::name`` where several domains have it.

    Raises:
        UsageError: there is none, or there are several.
    """
    domain, _, op_type = name.rpartition("::")
    every = registry()
    found = [key for key in every if key[1] == op_type and (not domain or key[0] == domain.replace("ai.onnx", ""))]
    if len(found) == 1:
        return every[found[0]]
    if found:
        names = " or ".join(f"{key[0] or 'ai.onnx'}::{key[1]}" for key in found)
        raise UsageError(f"several operators are called '{name}'; give {names}")
    near = difflib.get_close_matches(op_type, [key[1] for key in every], n=1)
    raise UsageError(
        f"no operator is called '{name}'{f'; did you mean {near[0]}?' if near else ''}; docs/operators.md lists those that "
        "come with deeploy_ext, those of plugins are there once their package is installed"
    )


def check_operators(given: Sequence[str]) -> int:
    """Checks operators and prints a line for each check; returns the exit status.

    Raises:
        BadInputError, InfeasibleError, ToolError: as the stages do.
    """
    args = parser().answer(given)
    if args is None:
        return EXIT_PASS
    operators = [find_operator(name) for name in dict.fromkeys(args.operators)]
    asked = RunOptions(
        test="check", target=args.target, engine="host", gvsoc=args.gvsoc, gvsoc_target=args.gvsoc_target, isa=args.isa,
        time_limit=args.time_limit, cc=args.cc if args.engine == "host" else None,
    )  # fmt: skip
    options = engine_options(asked)
    host = engines.select(options)
    gvsoc: engines.Engine | str = "--engine host"
    if args.engine != "host":
        try:
            gvsoc = engines.select(replace(options, name="gvsoc", compiler=args.cc))
        except ToolError as error:
            if args.engine == "gvsoc" or args.gvsoc:
                raise
            gvsoc = str(error).splitlines()[0]
    counts = {"ok": 0, "FAILED": 0, "skipped": 0}
    with tempfile.TemporaryDirectory(prefix="deeployRunner-") as folder:
        for check in check_operator(operators, host, gvsoc, load_target(args.target), Path(folder)):
            counts[check.state] += 1
            print(f"{check.state:<8} {check.name}: {check.said}", flush=True)
    names = ", ".join(operator.op_type for operator in operators)
    rest = "".join(f", {counts[state]} {state}" for state in ("skipped", "FAILED") if counts[state])
    print(f"{names}: {counts['ok']} ok{rest}")
    return EXIT_MISMATCH if counts["FAILED"] else EXIT_PASS
