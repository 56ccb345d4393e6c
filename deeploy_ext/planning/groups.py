"""From a nest and the choice of its tiles to a group of the plan: addresses of slots and stages, and the bodies."""

from __future__ import annotations

from dataclasses import replace

from deeploy_ext.errors import BadInputError
from deeploy_ext.operators.spec import Phase
from deeploy_ext.planning.cost import core_loop
from deeploy_ext.planning.joint import flat_blocks, flat_phase
from deeploy_ext.planning.nest import Nest
from deeploy_ext.planning.options import PlanOptions
from deeploy_ext.planning.plan import CONTINUED, AxisPlan, BlockPlan, BodyPlan, Group
from deeploy_ext.planning.search import Choice, NestSearch
from deeploy_ext.planning.steps import Step


def group_of(step: Step, search: NestSearch, choice: Choice, options: PlanOptions, l1: int, stage: int) -> Group:
    """A group with the tiles of ``choice``, which may be that of other nodes of the same kind.

    Args:
        search: of the step's own nest, with the homes of its operands.
        l1, stage: where its slots in L1 and its staging buffers in L2 begin.
    """
    nest = search.nest
    blocks: list[BlockPlan] = []
    for operand in nest.operands:
        axes, how = choice.axes[operand.name], choice.stages[operand.name]
        sizes = search.block(operand, axes, how, choice.double_buffer)
        slots = tuple(l1 + i * sizes.bytes for i in range(sizes.slots))
        staged = tuple(stage + i * sizes.stage_bytes for i in range(sizes.stage_slots))
        l1 += sizes.bytes * sizes.slots
        stage += sizes.stage_bytes * sizes.stage_slots
        blocks.append(
            BlockPlan(
                operand.uses, operand.value, operand.loaded, operand.stored, operand.item, tuple(axes),
                sizes.bytes, slots, how, sizes.stage_bytes, staged,
            )
        )  # fmt: skip
    main = len(nest.before)
    bodies: list[BodyPlan] = []
    for node, call in enumerate(step):
        phase = flat_phase(call)
        if phase:
            variant = CONTINUED if node == nest.continued else ""
            bodies.append(BodyPlan(phase.name, None, variant, node=node, flat=flat_blocks(nest, node, call)))
        elif nest.kernel:
            bodies += [BodyPlan(nest.phases[0].name, None, name, team=True, node=main) for name in nest.kernel.steps]
        else:
            cores = search.machine.cores
            bodies += [replace(_body(nest, phase, choice, options, cores), node=main) for phase in nest.phases]
    return Group(
        step[0].entry, tuple(call.name for call in step), main, tuple(bodies), choice.tiling.loop_plans(),
        choice.order, tuple(blocks), choice.double_buffer, choice.cycles, l1 if nest.kernel else 0, choice.tiling.scratch,
    )  # fmt: skip


def _body(nest: Nest, phase: Phase, choice: Choice, options: PlanOptions, cores: int) -> BodyPlan:
    loop, _ = core_loop(phase, nest, choice.tiling.tiles, cores)
    variants = nest.call.invocation.operator.variants
    axes = {use.operand: choice.axes[o.name] for o in nest.operands for use in o.uses if use.node == len(nest.before)}
    if not variants:
        return BodyPlan(phase.name, loop)
    wanted = options.variants.get(nest.call.name, "portable")
    dispatch = options.dispatch if wanted == "portable" else wanted
    if dispatch == "runtime":
        return BodyPlan(phase.name, loop, "runtime")
    for variant in [v for v in variants if v.name == dispatch] or variants:
        whole = [_whole(axes[operand][axis]) for operand, axis in variant.whole]
        if all(w == "always" for w in whole):
            return BodyPlan(phase.name, loop, variant.name)
        if not any(w == "never" for w in whole):
            break
    if wanted != "portable":
        message = f"--variant {nest.call.name}={wanted}: the tiles of this node do not all allow it; give it more --l1."
        raise BadInputError(message)
    return BodyPlan(phase.name, loop, "runtime")


def _whole(axis: AxisPlan) -> str:
    """Whether an axis is whole in the tiles: always, never or sometimes."""
    whole = [size == axis.extent for _, size in axis.regions]
    return "always" if all(whole) else "sometimes" if any(whole) else "never"
