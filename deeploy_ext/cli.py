"""``deeployRunner``: arguments in, exit status out; nothing else."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Sequence

from deeploy_ext import __version__
from deeploy_ext.arguments import Parser, UsageError, add_engine_options, count, named, number, place, seed, size, spare_inputs
from deeploy_ext.choices import KERNELS
from deeploy_ext.errors import EXIT_INTERRUPTED, EXIT_PASS, EXIT_TOOL, DeeployError

EXITS = """\
exit status:
  0    every number agrees with the golden run
  1    numeric mismatch
  2    bad input or usage
  3    no plan fits the memories
  4    a tool or the engine failed
  130  interrupted

deeployRunner doctor      says what this machine has of what is needed, and how to get the rest
deeployRunner bench       measures every kernel over a list of layers; bench --help says more
deeployRunner cycles      compares measured cycles of test networks with committed ones; cycles --help says more

deeployRunner new-operator NAME     writes a new operator that works, here or in a package of your own
deeployRunner check-operator NAME   checks all that an operator claims

sizes are bytes, with the suffix k or KiB (1024 bytes), M or MiB (1024 * 1024 bytes): 131072, 128k, 128KiB"""


def parser() -> Parser:
    """The command line of ``deeployRunner``."""
    top = Parser(
        prog="deeployRunner",
        description="Trains a network on a microcontroller target, proves every number against a golden run",
        epilog=EXITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    net = top.add_argument_group("network")
    net.add_argument(
        "-t", "--test", type=named, metavar="NET", help="test network (--list), folder of one, training folder, model.onnx"
    )
    net.add_argument(
        "--optimizer", type=place, metavar="DIR", help="optimizer directory of a training directory, instead of its sibling"
    )
    net.add_argument("--loss", choices=("cross_entropy", "mse"), help="of a model.onnx, which needs it")
    net.add_argument("--trainable", metavar="WHICH", help="weights that train: all, last:N (layers), or NAME,GLOB,...")
    net.add_argument(
        "--data", type=place, metavar="FILE", help="samples and targets for a model.onnx, as npz (default: generated)"
    )
    net.add_argument("--batchnorm", choices=("frozen", "train"), help="statistics of a model.onnx (default: as exported)")
    net.add_argument("--steps", type=count, metavar="N", help="optimizer steps")
    net.add_argument("--accum", type=count, metavar="N", help="mini-batches accumulated per step")
    net.add_argument("--lr", type=number(1e-30, 1e30), metavar="RATE", help="learning rate")
    net.add_argument("--tolerance", type=number(1e-12, 1.0), metavar="TOL", help="of losses, relative to max(1, |golden|)")
    net.add_argument("--seed", type=seed, metavar="N", help="of generated weights and data")
    plan = top.add_argument_group("plan")
    plan.add_argument("-p", "--target", default="gap9", metavar="TARGET", help="chip to plan for (default: gap9)")
    plan.add_argument("--promote", action="store_true", help="place tensors in any level, not only in the default one")
    plan.add_argument("--db", action="store_true", help="allow double buffering, used where it pays")
    plan.add_argument("--l1", type=size, metavar="BYTES", help="total L1, stacks and runtime included")
    plan.add_argument("--l2", type=size, metavar="BYTES", help="total L2, code included")
    plan.add_argument("--default-level", choices=("L2", "L3"), default="L3", help="where tensors live (default: L3)")
    plan.add_argument("--cores", type=count, metavar="N", help="worker cores (default: all of the target's)")
    plan.add_argument("--dispatch", choices=("runtime", "static"), default="runtime", help="how ConvGradX picks its kernel")
    plan.add_argument(
        "--kernels",
        choices=KERNELS,
        default="fast",
        help="the fastest for each node, without or with minimal filtering, or the portable bodies",
    )
    plan.add_argument(
        "--no-fuse", action="store_true", help="keep gradients and update apart where one mini-batch makes a step, too"
    )
    plan.add_argument(
        "--planner", choices=("joint", "greedy"), default="joint", help="of --promote: one model, or a quick heuristic"
    )
    plan.add_argument(
        "--groups", choices=("joint", "single"), default="joint", help="tile nests of several nodes where that saves cycles"
    )
    plan.add_argument("--plan", type=place, metavar="FILE", help="use this plan.json (from --dump) instead of planning")
    plan.add_argument(
        "--override", action="append", type=named, metavar="NODE=FILE.c", default=[],
        help="a kernel of your own for a node, or for all nodes of an operator; compared with the generated one",
    )  # fmt: skip
    plan.add_argument(
        "--variant", action="append", type=named, metavar="NODE=NAME", default=[],
        help="another kernel for a node, or for all of an operator: portable, scatter, ...; compared with the planned one",
    )  # fmt: skip
    plan.add_argument(
        "--plan-only", action="store_true", help="will it fit, where does everything live, predicted cycles; no run"
    )
    engine = add_engine_options(top)
    engine.add_argument("--dma", choices=("eager", "lazy", "random"), default="eager", help="host: when transfers move data")
    engine.add_argument("--sanitize", choices=("address", "undefined", "thread"), help="host: build with this sanitizer")
    output = top.add_argument_group("output")
    output.add_argument("--dump", metavar="DIR", help="write the value of every stage")
    output.add_argument("--out", metavar="DIR", help="write a folder with all of the C, once it is proven")
    output.add_argument("--save-weights", metavar="FILE", help="write the trained weights as .npz, or into the model as .onnx")
    output.add_argument("--json", metavar="FILE", help="write the report as JSON")
    output.add_argument("--plan-html", metavar="FILE", help="draw the plan as one HTML page: memory over time, traffic, why")
    output.add_argument("--list", action="store_true", help="list test networks and targets")
    loud = output.add_mutually_exclusive_group()
    loud.add_argument("-v", "--verbose", action="store_true", help="list all failures and nodes; tracebacks of internal errors")
    loud.add_argument("-q", "--quiet", action="store_true", help="print the verdict only")
    output.add_argument("--version", action="version", version=f"deeployRunner {__version__}")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns its exit status."""
    if arguments is None:  # as a command: a request to end, as time limits send it, cleans up like Ctrl-C
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    given = list(sys.argv[1:] if arguments is None else arguments)
    verbose = "-v" in given or "--verbose" in given
    try:
        status = _main(given)
        sys.stdout.flush()
        return status
    except DeeployError as error:
        return _fail(str(error), error.exit_status, verbose and not isinstance(error, UsageError))
    except KeyboardInterrupt:
        return _fail("interrupted; nothing was written", EXIT_INTERRUPTED, False)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_TOOL
    except OSError as error:  # a full disk, a closed terminal: nothing to report to us
        return _fail(f"the system refused: {error}", EXIT_TOOL, verbose)
    except Exception as error:  # the last line of defence: a mistake of ours, not of the user's
        what = " ".join(f"{type(error).__name__}: {error}".split())
        remedy = "" if verbose else "; please report this with the output of the same command with -v"
        return _fail(f"internal error: {what}{remedy}", EXIT_TOOL, verbose)


def _fail(message: str, status: int, verbose: bool) -> int:
    if verbose:
        traceback.print_exc()
    print("\n".join(_printable(line) for line in f"deeployRunner: {message}".split("\n")), file=sys.stderr)
    return status


def _printable(line: str, limit: int = 900) -> str:
    """One line of a message as a terminal may show it: control characters escaped, and not endless."""
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in line)
    return safe if len(safe) <= limit else f"{safe[: limit // 2]} ... {safe[-limit // 2 :]}"


def _main(given: Sequence[str]) -> int:
    if given[:1] == ["doctor"]:
        return _doctor(given[1:])
    if given[:1] == ["bench"]:
        from deeploy_ext.bench.command import bench

        return bench(given[1:])
    if given[:1] == ["cycles"]:
        from deeploy_ext.bench.gate_command import cycles

        return cycles(given[1:])
    if given[:1] == ["new-operator"]:
        from deeploy_ext.workshop.new_operator import new_operator

        return new_operator(given[1:])
    if given[:1] == ["check-operator"]:
        from deeploy_ext.workshop.check_command import check_operators

        return check_operators(given[1:])
    args = parser().answer(given)
    if args is None:
        return EXIT_PASS
    from deeploy_ext import pipeline  # late: a usage error needs no onnxruntime
    from deeploy_ext.harness.files import Outputs
    from deeploy_ext.harness.plan_report import plan_lines, plan_report_text
    from deeploy_ext.harness.report import report_text
    from deeploy_ext.harness.terminal import Terminal
    from deeploy_ext.run_options import RunOptions

    terminal = Terminal(verbosity=int(args.verbose) - int(args.quiet))
    if args.list:
        from deeploy_ext.listing import listing

        for line in listing():
            terminal.line(line)
        return EXIT_PASS
    if args.test is None:
        raise UsageError("the following arguments are required: -t/--test; --list shows the test networks")
    options = RunOptions(
        test=args.test,
        target=args.target,
        engine=args.engine,
        cc=args.cc,
        gvsoc=args.gvsoc,
        gvsoc_target=args.gvsoc_target,
        isa=args.isa,
        time_limit=args.time_limit,
        promote=args.promote,
        double_buffer=args.db,
        l1=args.l1,
        l2=args.l2,
        default_level=args.default_level,
        cores=args.cores,
        steps=args.steps,
        accumulation=args.accum,
        learning_rate=args.lr,
        tolerance=args.tolerance,
        seed=args.seed,
        dispatch=args.dispatch,
        kernels=args.kernels,
        planner=args.planner,
        groups="single" if args.override or args.variant else args.groups,  # a kernel is tried alone
        dma=args.dma,
        sanitize=args.sanitize,
        optimizer=args.optimizer,
        plan=args.plan,
        loss=args.loss,
        trainable=args.trainable,
        data=args.data,
        batchnorm=args.batchnorm,
        override=tuple(args.override),
        variant=tuple(args.variant),
        fuse=not args.no_fuse,
    )
    if (args.override or args.variant) and (args.plan_only or args.plan or args.out or args.engine == "board"):
        spare = [o for o in ("--plan-only", "--plan", "--out") if getattr(args, o[2:].replace("-", "_"))] or ["--engine board"]
        raise UsageError(f"argument {spare[0]}: --override and --variant try a kernel; leave one of them out")
    if args.plan_only and args.out is not None:
        raise UsageError("argument --out: --plan-only emits no C; leave one of them out (--dump DIR keeps the plan)")
    if args.plan_only and args.save_weights is not None:
        raise UsageError("argument --save-weights: --plan-only trains nothing; leave one of them out")
    board = args.engine == "board" and not args.plan_only
    if board and args.dump is None:
        raise UsageError("argument --engine: board writes a project for the vendor's SDK and runs nothing; give --dump DIR")
    useless = {"--out": args.out, "--json": args.json, "--save-weights": args.save_weights, "--sanitize": args.sanitize}
    for option, value in useless.items():
        if board and value is not None:
            raise UsageError(f"argument {option}: --engine board builds and runs nothing; leave one of them out")
    spare_inputs(
        {"-t": args.test, "--data": args.data, "--plan": args.plan, "--optimizer": args.optimizer},
        {
            "--json": args.json,
            "--out": args.out,
            "--dump": args.dump,
            "--save-weights": args.save_weights,
            "--plan-html": args.plan_html,
        },
        ("-t", "--save-weights"),  # weights may go back into the model they came from
    )
    with Outputs(
        json_file=args.json, out=args.out, dump=args.dump, weights=args.save_weights, plan_html=args.plan_html
    ) as outputs:
        if args.plan_only:
            planned = pipeline.plan_only(options, outputs, terminal)
            lines = list(plan_lines(planned, everything=args.verbose))
            for line in lines[:1] if args.quiet else lines:
                terminal.line(line)
            outputs.commit(plan_report_text(planned), proven=False)
            return EXIT_PASS
        if board:
            pipeline.board_project(options, outputs, terminal)
            outputs.commit("", proven=False)
            terminal.line(
                f"Nothing was run and no number was proven: the project in {args.dump}/board is for you to run on a board"
            )
            return EXIT_PASS
        report = pipeline.run(options, outputs, terminal)
        terminal.report(report)
        if options.override or options.variant:
            from deeploy_ext.workshop.trial import compare_with_untouched

            for line in compare_with_untouched(options, report):
                terminal.line(line)
        proven = report.exit_status == EXIT_PASS
        outputs.commit(report_text(report), proven=proven)
        if outputs.out and not proven:
            terminal.line(f"{outputs.out.path} was not written, because its numbers are wrong; --dump shows the C")
    return report.exit_status


def _doctor(given: Sequence[str]) -> int:
    if given in (["-h"], ["--help"]):
        print("usage: deeployRunner doctor")
        print("says what this machine has of what the host engine needs; exit status 0: all of it, 4: not all")
        return EXIT_PASS
    if given:
        raise UsageError(f"doctor takes no arguments, but {given[0]!r} is given; deeployRunner --help explains everything else")
    from deeploy_ext.doctor import doctor

    lines, status = doctor()
    print("\n".join(lines))
    return status
