"""``deeployRunner bench``: arguments in, exit status out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from deeploy_ext import engines
from deeploy_ext.arguments import Parser, UsageError, add_engine_options, place, size, spare_inputs
from deeploy_ext.bench.calibrate import fit_lines
from deeploy_ext.bench.cases import SHAPES, load_cases
from deeploy_ext.bench.report import head, line, report_text, summary
from deeploy_ext.bench.run import Row, run_cases
from deeploy_ext.choices import KERNELS
from deeploy_ext.errors import EXIT_MISMATCH, EXIT_PASS
from deeploy_ext.harness.files import OutputFile
from deeploy_ext.planning.target import load_target
from deeploy_ext.run_options import RunOptions, engine_options, plan_options_of

LITTLE_L1 = 60000
"""Bytes of L1 of a second pass, when the cost model is fitted: nests of several tiles, too."""


def parser() -> Parser:
    """The command line of ``deeployRunner bench``."""
    top = Parser(
        prog="deeployRunner bench",
        description="Measures every kernel over a list of layers and checks its numbers; exit status as deeployRunner's. "
        "On gvsoc cycles are measured (all layers: two minutes), on the host they are predicted.",
        epilog="columns: cycles in all, of kernels (the slowest core), waiting for transfers; MAC/cycle of kernels; share of "
        "the limit that was reached; predicted cycles and their error; what worker 0 lost of a kernel's cycles to loads, "
        "instruction fetches, L1 banks, the shared FPU",
        allow_abbrev=False,
    )
    top.add_argument("--op", metavar="OP,...", help="only these operators, e.g. conv,convgradx (default: all of the list)")
    top.add_argument("--shapes", type=place, metavar="FILE", help=f"list of layers (default: {SHAPES})")
    top.add_argument("--db", action="store_true", help="allow double buffering")
    top.add_argument("--l1", type=size, metavar="BYTES", help="total L1, stacks and runtime included: little makes many tiles")
    top.add_argument("--kernels", choices=KERNELS, default="fast", help="as for networks (default: fast)")
    top.add_argument(
        "--dispatch", choices=("runtime", "gather", "scatter"), default="runtime", help="of ConvGradX's portable body"
    )
    top.add_argument(
        "--fit", action="store_true", help="run all once more with little L1, fit the cost model and print its constants"
    )
    top.add_argument("--json", metavar="FILE", help="write what was measured as JSON")
    add_engine_options(top, ("host", "gvsoc", "auto"))
    return top


def _names(text: str | None) -> list[str]:
    """Operators of ``--op``, in any spelling; none: all."""
    if text is None:
        return []
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(f"argument --op: '{text}' is not a list of operators; give names with commas between, e.g. conv,gemm")
    return names


def bench(given: Sequence[str]) -> int:
    """Runs the bench; returns the exit status: 1 if a number is wrong.

    Raises:
        BadInputError, InfeasibleError, ToolError: as the stages do.
    """
    args = parser().answer(given)
    if args is None:
        return EXIT_PASS
    if args.fit and args.db:
        raise UsageError("argument --fit: the model is fitted to nests without double buffering; leave --db out")
    spare_inputs({"--shapes": args.shapes}, {"--json": args.json})
    asked = RunOptions(
        test="bench", engine=args.engine, cc=args.cc, gvsoc=args.gvsoc, gvsoc_target=args.gvsoc_target, isa=args.isa,
        time_limit=args.time_limit, double_buffer=args.db, l1=args.l1, default_level="L2", kernels=args.kernels,
        dispatch=args.dispatch,
    )  # fmt: skip
    target = load_target(asked.target)
    options = plan_options_of(asked, target)
    cases = load_cases(Path(args.shapes) if args.shapes else SHAPES, _names(args.op))
    engine = engines.select(replace(engine_options(asked), events=True))
    if args.fit and not engine.model:
        raise UsageError(f"argument --fit: engine {engine.name} measures no cycles; add --engine gvsoc")
    output = OutputFile("--json", args.json) if args.json is not None else None
    rows: list[Row] = []
    try:
        print(": ".join(filter(None, (f"engine {engine.name}", engine.note))))
        for plan in (options, replace(options, l1=LITTLE_L1)) if args.fit else (options,):
            print(head(bool(engine.model)))
            for row in run_cases(cases, engine, target, plan):
                print(line(row, target), flush=True)
                rows.append(row)
        print("\n".join(summary(rows)))
        if args.fit:
            print("\n".join(fit_lines(rows, target)))
        if output:
            output.commit(report_text(rows, target, engine.name, engine.model, asdict(options)))
    finally:
        if output:
            output.discard()
    return EXIT_MISMATCH if any(row.wrong for row in rows) else EXIT_PASS
