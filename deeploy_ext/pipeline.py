"""From a network to a verdict: every stage is one function from one value to the next, and none reaches back."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from deeploy_ext import engines
from deeploy_ext.codegen.board import write_board_project
from deeploy_ext.codegen.emit import emit
from deeploy_ext.codegen.override import assignments, read_overrides
from deeploy_ext.codegen.product import write_product
from deeploy_ext.engines import DmaMode, Engine, EngineResult, Sanitizer
from deeploy_ext.errors import BadInputError, InfeasibleError
from deeploy_ext.graph.load import load
from deeploy_ext.graph.lower import lower
from deeploy_ext.graph.program import Program
from deeploy_ext.harness.compare import identical
from deeploy_ext.harness.dump import Dump
from deeploy_ext.harness.files import Outputs
from deeploy_ext.harness.golden import run_golden
from deeploy_ext.harness.plan_page import plan_page
from deeploy_ext.harness.plan_report import PlanReport
from deeploy_ext.harness.report import CycleReport, Report
from deeploy_ext.harness.sides import judge
from deeploy_ext.harness.terminal import Terminal
from deeploy_ext.harness.weights import check_saveable, saved_weights
from deeploy_ext.planning.check import check_plan, in_plan_order
from deeploy_ext.planning.figures import with_figures
from deeploy_ext.planning.nest import macs
from deeploy_ext.planning.options import PlanOptions
from deeploy_ext.planning.plan import Plan
from deeploy_ext.planning.planner import is_feasible, make_plan
from deeploy_ext.planning.remedy import explained, fewer_layers
from deeploy_ext.planning.schedule import scheduled
from deeploy_ext.planning.target import Target, load_target
from deeploy_ext.planning.traffic import tensor_traffic
from deeploy_ext.run_options import RunOptions, engine_options, load_options, plan_options_of
from deeploy_ext.training.autodiff import differentiate
from deeploy_ext.training.task import TrainingTask, Trajectory


@dataclass(frozen=True)
class Compiled:
    """The values of the stages before anything is emitted."""

    options: RunOptions
    target: Target
    task: TrainingTask
    golden: Trajectory
    program: Program
    plan: Plan


def run(options: RunOptions, outputs: Outputs, terminal: Terminal) -> Report:
    """Trains a network on an engine and proves every number against the golden run.

    Writes into the drafts of ``outputs``; committing them is the caller's.

    Raises:
        BadInputError, InfeasibleError, ToolError: as the stages do.
    """
    engine = engines.select(engine_options(options))
    made = compiled(options, outputs, terminal)
    report, _ = execute(made, engine, outputs, terminal, dma=options.dma, sanitize=options.sanitize)
    return report


def compiled(options: RunOptions, outputs: Outputs, terminal: Terminal) -> Compiled:
    """Loads, differentiates, runs the golden run, lowers and plans.

    Raises:
        BadInputError, InfeasibleError, ToolError: as the stages do.
    """
    target = load_target(options.target)
    plan_options = plan_options_of(options, target)
    dump = Dump(outputs.dump.draft if outputs.dump else None)
    task = _task(options, dump, terminal)
    if outputs.weights:
        check_saveable(task, outputs.weights.path)
    with terminal.stage("golden"):
        golden = run_golden(task)
        dump.trajectory(task, golden, "golden")
    program, plan = _planned(task, options, target, plan_options, dump, outputs, terminal)
    return Compiled(options, target, task, golden, program, plan)


def execute(
    made: Compiled,
    engine: Engine,
    outputs: Outputs,
    terminal: Terminal,
    *,
    dma: DmaMode = "eager",
    sanitize: Sanitizer | None = None,
) -> tuple[Report, EngineResult]:
    """Emits, builds, runs and compares; ``dma`` and ``sanitize`` are the host engine's.

    Raises:
        BadInputError, ToolError: as the stages do.
    """
    options, target, task, golden, program, plan = (
        made.options, made.target, made.task, made.golden, made.program, made.plan,
    )  # fmt: skip
    dump = Dump(outputs.dump.draft if outputs.dump else None)
    with tempfile.TemporaryDirectory(prefix="deeployRunner-") as scratch:
        with terminal.stage("emit"):
            folder = Path(scratch, "c")
            emitted = emit(task, program, plan, folder, read_overrides(options.override, program, plan))
            dump.code(folder)
        build = Path(scratch, "build")
        with terminal.stage("build") as stage, dump.logs(build):
            stage.note = engine.note
            built = engine.build(emitted, build, sanitize)
        with terminal.stage("run") as stage, dump.logs(build):
            result = engine.run(built, dma=dma, seed=task.spec.seed)
            stage.note = f"{len(result.rounds)} rounds"
            dump.trajectory(task, result.rounds[0], "measured")
            if outputs.weights:
                outputs.weights.fill(saved_weights(task, result.rounds[0], outputs.weights.path.suffix))
        if outputs.out:
            write_product(emitted, task, plan, result.rounds[0].losses, outputs.out.draft)
    first, *others = result.rounds
    predicted = predicted_cycles(plan, target)
    repeats = [difference for other in others if (difference := identical(first, other))]
    judgement = judge(task, golden, first, fused=program.fused)
    report = Report(
        test=task.name,
        target=target.name,
        engine=engine.name,
        options={**asdict(options), **plan.options, **asdict(task.spec)},
        verdict=judgement.verdict,
        expected=judgement.expected,
        sides=tuple(map(str, judgement.sides)),
        makers_sides=tuple(map(str, judgement.makers)),
        repeat=repeats[0] if repeats else None,
        computed=first.losses,
        golden=golden.losses,
        cycles=_measured(predicted, result) if result.cycles else predicted,
        predicted=predicted if result.cycles else None,
        counters=result.counters,
        memory=plan.memory,
        traffic=plan.traffic,
        tensors=tensor_traffic(plan),
        macs=sum(macs(call) for call in program.calls if call.entry == "step"),
        seconds=terminal.elapsed(),
        fused=program.fused,
    )
    return report, result


def board_project(options: RunOptions, outputs: Outputs, terminal: Terminal) -> None:
    """Loads, plans and emits, and writes a project for the vendor's SDK into ``board/`` of the dump's draft; runs nothing.

    Raises:
        BadInputError, InfeasibleError, ToolError: as the stages do.
    """
    assert outputs.dump
    target = load_target(options.target)
    plan_options = plan_options_of(options, target)
    dump = Dump(outputs.dump.draft)
    with tempfile.TemporaryDirectory(prefix="deeployRunner-") as scratch:
        task = _task(options, dump, terminal)
        with terminal.stage("golden"):
            golden = run_golden(task)
            dump.trajectory(task, golden, "golden")
        program, plan = _planned(task, options, target, plan_options, dump, outputs, terminal)
        with terminal.stage("emit") as stage:
            folder = Path(scratch, "c")
            emitted = emit(task, program, plan, folder)
            dump.code(folder)
            write_board_project(emitted, task, plan, golden.losses, outputs.dump.draft / "board")
            stage.note = f"project for the SDK in {outputs.dump.path / 'board'}"


def plan_only(options: RunOptions, outputs: Outputs, terminal: Terminal) -> PlanReport:
    """Loads, plans and checks; writes the graphs and the plan into the dump's draft, but runs and emits nothing.

    Raises:
        BadInputError, InfeasibleError: as the stages do.
    """
    target = load_target(options.target)
    plan_options = plan_options_of(options, target)
    dump = Dump(outputs.dump.draft if outputs.dump else None)
    task = _task(options, dump, terminal)
    program, plan = _planned(task, options, target, plan_options, dump, outputs, terminal)
    return _plan_report(task, program, plan, options, target, terminal)


def _plan_report(
    task: TrainingTask, program: Program, plan: Plan, options: RunOptions, target: Target, terminal: Terminal
) -> PlanReport:
    operators = {(call.entry, call.name): call.invocation.operator.op_type for call in program.calls}
    return PlanReport(
        test=task.name,
        target=target,
        options={**asdict(options), **plan.options, **asdict(task.spec)},
        plan=plan,
        cycles=predicted_cycles(plan, target),
        schedule=["+".join(nodes) for _, nodes in plan.schedule],
        operators=["+".join(operators[entry, name] for name in nodes) for entry, nodes in plan.schedule],
        macs=sum(macs(call) for call in program.calls if call.entry == "step"),
        seconds=terminal.elapsed(),
    )


def _task(options: RunOptions, dump: Dump, terminal: Terminal) -> TrainingTask:
    with terminal.stage("load") as stage:
        network = load(options.test, load_options(options))
        stage.note = "" if isinstance(network, TrainingTask) else "; ".join(network.notes)
    with terminal.stage("autodiff") as stage:
        task = network if isinstance(network, TrainingTask) else differentiate(network)
        stage.note = f"{len(task.parameters)} parameters, {task.spec.steps} x {task.spec.accumulation} mini-batches"
        dump.task(task)
    return task


def plan_for(task: TrainingTask, options: RunOptions) -> tuple[Program, Plan]:
    """Lowers and plans a task as a run with these options does.

    Raises:
        BadInputError, InfeasibleError: as the stages do.
    """
    target = load_target(options.target)
    quiet = Terminal(verbosity=-1)
    return _planned(task, options, target, plan_options_of(options, target), Dump(None), Outputs(), quiet)


def _planned(
    task: TrainingTask,
    options: RunOptions,
    target: Target,
    plan_options: PlanOptions,
    dump: Dump,
    outputs: Outputs,
    terminal: Terminal,
) -> tuple[Program, Plan]:
    with terminal.stage("plan") as stage:
        if options.plan:
            plan = _read_plan(options.plan, target)
            _refuse_other_flags(options, plan)
            program = in_plan_order(lower(task, fuse="update" not in plan.entries), plan)
            check_plan(program, plan)
            plan = with_figures(plan, program, target, {"L1": options.l1, "L2": options.l2})
        else:
            program = scheduled(lower(task, fuse=options.fuse))
            if options.variant:
                plan_options = replace(plan_options, variants=chosen_variants(options.variant, program))
            plan = _new_plan(program, options, target, plan_options)
        check_plan(program, plan)
        stage.note = f"{len(plan.groups)} tile nests{', fused update' if program.fused else ''}"
        dump.plan(plan)
        if outputs.plan_html:
            outputs.plan_html.fill(plan_page(_plan_report(task, program, plan, options, target, terminal)))
    return program, plan


def _refuse_other_flags(options: RunOptions, plan: Plan) -> None:
    """A plan that is read decides; what is asked for beside it must not be lost in silence. Sizes of memories are heeded."""
    if not options.fuse and "update" not in plan.entries:
        raise BadInputError(f"--no-fuse: the plan of '{options.plan}' has fused updates; leave it out, or plan again.")
    for field in (field for field in fields(RunOptions) if field.name in {*plan.options} - {"l1", "l2"}):
        asked = getattr(options, field.name)
        if asked not in (field.default, plan.options[field.name]):
            flag = {"double_buffer": "db"}.get(field.name, field.name.replace("_", "-"))
            given = f"--{flag}" if asked is True else f"--{flag} {asked}"
            raise BadInputError(f"{given}: the plan of '{options.plan}' was made without; leave it out, or plan again.")


def _new_plan(program: Program, options: RunOptions, target: Target, plan_options: PlanOptions) -> Plan:
    """A plan; if there is none, also how many of the last layers could be trained."""
    try:
        return make_plan(program, target, plan_options)
    except InfeasibleError as error:
        if not error.can_change:
            raise

        def fits(layers: int) -> bool:
            network = load(options.test, replace(load_options(options), trainable=f"last:{layers}"))
            assert not isinstance(network, TrainingTask)
            return is_feasible(scheduled(lower(differentiate(network), fuse=options.fuse)), target, plan_options)

        layers = fewer_layers(fits)
        raise (explained(error, [*error.changes, f"--trainable last:{layers}"]) if layers else error) from error


def chosen_variants(given: Sequence[str], program: Program) -> dict[str, str]:
    """Bodies by node, from ``--variant NODE=NAME``.

    Raises:
        BadInputError: no such node, or no such variant of its operator.
    """
    kinds = {call.name: call.invocation.operator for call in program.calls}
    found: dict[str, str] = {}
    for nodes, name in assignments("--variant", given, program):
        for node in nodes:
            known = ["portable", *(variant.name for variant in kinds[node].variants)]
            if name not in known:
                operator = kinds[node].op_type
                raise BadInputError(f"--variant: {operator} (node '{node}') has no variant '{name}'; use {' or '.join(known)}.")
            found[node] = name
    return found


def _read_plan(file: str, target: Target) -> Plan:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"--plan: '{file}' cannot be read ({error}); give a plan.json written by --dump.") from error
    plan = Plan.from_json(text)
    if plan.target != target.name:
        raise BadInputError(f"--plan: '{file}' is for target '{plan.target}', not '{target.name}'; plan again with --dump.")
    for name, use in plan.memory.items():
        if name in target.levels and use.capacity > target.levels[name].capacity:
            most = target.levels[name].capacity
            raise BadInputError(
                f"--plan: '{file}' wants {use.capacity} bytes of {name}, there are {most}; plan again with --dump."
            )
    return plan


def predicted_cycles(plan: Plan, target: Target) -> CycleReport:
    """The cost model's figures of a plan."""
    return CycleReport(
        kind="predicted",
        model=target.model,
        minibatch=plan.cycles("step"),
        update=plan.cycles("update") if "update" in plan.entries else None,
        inference=plan.cycles("infer") if "infer" in plan.entries else None,
        per_node=tuple((group.entry, group.node, "+".join(group.phases), group.cycles.total) for group in plan.groups),
    )


def _measured(predicted: CycleReport, result: EngineResult) -> CycleReport:
    """What the engine has counted, row by row as predicted."""
    assert result.cycles
    entries, groups = result.cycles.entries, result.cycles.groups
    rows = zip(predicted.per_node, groups, strict=True)
    return CycleReport(
        kind="measured",
        model=result.model,
        minibatch=entries["step"],
        update=entries.get("update"),
        inference=entries.get("infer"),
        per_node=tuple((entry, node, phase, group.total) for (entry, node, phase, _), group in rows),
        kernel=tuple(group.kernel for group in groups),
        wait=tuple(group.wait for group in groups),
    )
