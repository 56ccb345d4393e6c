"""``deeployRunner bench``: arguments in, exit status out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from deeploy_ext import engines
from deeploy_ext.arguments import Parser, add_engine_options, place
from deeploy_ext.bench.cases import SHAPES, load_cases
from deeploy_ext.bench.report import head, line, report_text, summary
from deeploy_ext.bench.run import Row, run_cases
from deeploy_ext.errors import EXIT_MISMATCH, EXIT_PASS
from deeploy_ext.harness.files import OutputFile
from deeploy_ext.planning.planner import PlanOptions
from deeploy_ext.planning.target import load_target


def parser() -> Parser:
    """The command line of ``deeployRunner bench``."""
    top = Parser(
        prog="deeployRunner bench",
        description="Measures every kernel over a list of layers and checks its numbers; exit status as deeployRunner's",
        allow_abbrev=False,
    )
    top.add_argument("--op", metavar="OP,...", help="only these operators, e.g. conv,convgradx (default: all of the list)")
    top.add_argument("--shapes", type=place, metavar="FILE", help=f"list of layers (default: {SHAPES.name} of this package)")
    top.add_argument("--db", action="store_true", help="allow double buffering")
    top.add_argument("--kernels", choices=("fast", "portable"), default="fast", help="as for networks (default: fast)")
    top.add_argument(
        "--dispatch", choices=("runtime", "gather", "scatter"), default="runtime", help="of ConvGradX's portable body"
    )
    top.add_argument("--json", metavar="FILE", help="write what was measured as JSON")
    add_engine_options(top)
    return top


def bench(given: Sequence[str]) -> int:
    """Runs the bench; returns the exit status: 1 if a number is wrong.

    Raises:
        BadInputError, InfeasibleError, ToolError: as the stages do.
    """
    try:
        args = parser().parse_args(given)
    except SystemExit:  # --help has printed what was asked for
        return EXIT_PASS
    target = load_target("gap9")
    cases = load_cases(Path(args.shapes) if args.shapes else SHAPES, args.op.split(",") if args.op else ())
    engine = engines.select(
        engines.EngineOptions(args.engine, args.cc, args.gvsoc, args.gvsoc_target, args.isa, args.time_limit, events=True)
    )
    options = PlanOptions(double_buffer=args.db, default_level="L2", kernels=args.kernels, dispatch=args.dispatch)
    output = OutputFile("--json", args.json) if args.json else None
    rows: list[Row] = []
    try:
        for row in run_cases(cases, engine, target, options):
            if not rows:
                print(f"engine {engine.name}: {engine.note}\n{head(bool(row.measured))}")
            print(line(row, target), flush=True)
            rows.append(row)
        print("\n".join(summary(rows)))
        if output:
            model = getattr(engine, "model", "")
            output.commit(report_text(rows, target, engine.name, model, asdict(options)))
    finally:
        if output:
            output.discard()
    return EXIT_MISMATCH if any(row.wrong for row in rows) else EXIT_PASS
