"""``deeployRunner cycles``: measures test networks on the simulator and compares with what is committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from deeploy_ext import engines, pipeline
from deeploy_ext.arguments import Parser, add_engine_options
from deeploy_ext.bench.gate import FILE, Record, compiler_key, differences, read_records, record_of, records_text
from deeploy_ext.errors import EXIT_MISMATCH, EXIT_PASS, BadInputError, ToolError
from deeploy_ext.harness.files import OutputFile, Outputs
from deeploy_ext.harness.terminal import Terminal
from deeploy_ext.resources import resource
from deeploy_ext.run_options import RunOptions, engine_options

FLAGS = {"promote": "--promote", "double_buffer": "--db"}
"""What is gated: the flags that a user of all features gives, by option of a run."""


def parser() -> Parser:
    """The command line of ``deeployRunner cycles``."""
    top = Parser(
        prog="deeployRunner cycles",
        description=f"Measures test networks with {' '.join(FLAGS.values())}, updates apart, and compares with the records "
        f"beside them ({FILE}); exit status 1: cycles differ, or there is no record of this model and compiler",
        allow_abbrev=False,
    )
    top.add_argument("networks", nargs="*", metavar="NET", help="shipped test networks (default: all that have a record)")
    top.add_argument("--update", action="store_true", help="write what is measured into the records, instead of comparing")
    add_engine_options(top, ("gvsoc",), ("gap9like",))
    return top


def cycles(given: Sequence[str]) -> int:
    """Runs the gates; returns the exit status.

    Raises:
        BadInputError, InfeasibleError, ToolError: as the stages do.
    """
    args = parser().answer(given)
    if args is None:
        return EXIT_PASS
    # one mini-batch is enough to measure the entries that networks with several per step have
    flags: dict[str, Any] = dict.fromkeys(FLAGS, True)
    asked = RunOptions(
        test="", engine=args.engine, cc=args.cc, gvsoc=args.gvsoc, gvsoc_target=args.gvsoc_target, isa=args.isa,
        time_limit=args.time_limit, steps=1, accumulation=1, fuse=False, **flags,
    )  # fmt: skip
    engine = engines.select(engine_options(asked))
    assert isinstance(engine, engines.GvsocEngine)
    compiler = compiler_key(engine.compiler.family, engine.compiler.version)
    print(f"{engine.model}, {compiler}")
    known = {path.parent.name: path for path in resource("testnets").glob(f"*/{FILE}")}
    different = 0
    for network in dict.fromkeys(args.networks or sorted(known)):
        folder = resource("testnets", network)
        if not folder.is_dir():
            raise BadInputError(f"'{network}' is not a shipped test network; deeployRunner --list shows them.")
        found = _measure(replace(asked, test=network), compiler)
        different += _update(folder / FILE, found) if args.update else _compare(network, folder / FILE, found)
    if different and not args.update:
        print("If that is meant: deeployRunner cycles --update, and commit the records with the change")
    return EXIT_MISMATCH if different else EXIT_PASS


def _measure(asked: RunOptions, compiler: str) -> Record:
    with Outputs(json_file=None, out=None, dump=None) as outputs:
        report = pipeline.run(asked, outputs, Terminal(verbosity=-1))
    if report.exit_status:
        wrong = f"{report.verdict.errors} of {report.verdict.total} numbers are wrong"
        raise ToolError(f"{asked.test}: {wrong}; cycles say nothing then.")
    return record_of(report.cycles, compiler, list(FLAGS.values()))


def _update(path: Path, found: Record) -> int:
    others = [record for record in read_records(path) if record.key != found.key]
    output = OutputFile("--update", str(path))
    output.commit(records_text([*others, found]))
    print(f"{path.parent.name}: {found.entries['minibatch']:,} cycles per mini-batch, recorded")
    return 0


def _compare(network: str, path: Path, found: Record) -> int:
    """Prints the differences; returns whether there are any, which a missing record is."""
    same = [record for record in read_records(path) if record.key == found.key]
    if not same:
        print(f"{network}: no record for {found.model} and {found.compiler}: nothing to compare with; --update makes one")
        return 1
    rows = list(differences(same[0], found))
    verdict = f"{len(rows)} differences" if rows else "as recorded"
    print(f"{network}: {found.entries['minibatch']:,} cycles per mini-batch, {verdict}")
    if rows:
        print(f"{'recorded':>14}{'measured':>14}{'':>9}")
    for row in rows:
        print(row.line())
    return int(bool(rows))
