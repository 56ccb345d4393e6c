"""Bodies: the C function that computes one tile of one phase, rendered from the operator's template.

Bodies with equal text are one function, shared by all nodes: constants appear only where a template uses them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from mako.lookup import TemplateLookup
from mako.template import Template

from deeploy_ext.codegen.text import c_float, c_identifier, c_type
from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.program import Call
from deeploy_ext.operators.spec import Phase
from deeploy_ext.planning.plan import BodyPlan, Group
from deeploy_ext.resources import resource


@cache
def lookup() -> TemplateLookup:
    """The template folder. Undefined names in a template are errors."""
    return TemplateLookup([str(resource("templates"))], strict_undefined=True, input_encoding="utf-8")


class BodyContext:
    """What a template may ask about the tile it computes; loops and operands are addressed by their names."""

    def __init__(self, call: Call, group: Group, phase: Phase, plan: BodyPlan) -> None:
        self.call = call.invocation
        self.phase, self.plan = phase, plan
        self._loops = {loop.name: i for i, loop in enumerate(group.loops)}
        self._blocks = {block.operand: i for i, block in enumerate(group.blocks)}
        self._views = {block.operand: tuple(axis.extent for axis in block.axes) for block in group.blocks}

    def has(self, operand: str) -> bool:
        """Whether the phase touches an operand (optional ones may be absent)."""
        return operand in self._blocks and any(a.operand == operand for a in (*self.phase.reads, *self.phase.writes))

    def begin(self, loop: str) -> str:
        """First iteration of this worker's part of a loop."""
        return f"range->begin[LOOP_{loop.upper()}]"

    def end(self, loop: str) -> str:
        """One past the last iteration of this worker's part of a loop."""
        return f"range->end[LOOP_{loop.upper()}]"

    def loop(self, name: str) -> str:
        """Header of a ``for`` over this worker's part of a loop."""
        return f"int32_t {name} = {self.begin(name)}; {name} < {self.end(name)}; ++{name}"

    def at(self, operand: str, *index: str) -> str:
        """The element of an operand at an index of the whole tensor."""
        view = self._views[operand]
        kept = [(axis, text) for axis, text in enumerate(index) if view[axis] > 1 and text != "0"]
        terms = [
            f"{text} - {operand}_box->start[{axis}]"
            if axis == len(index) - 1
            else f"({text} - {operand}_box->start[{axis}]) * {operand}_box->stride[{axis}]"
            for axis, text in kept
        ]
        return f"{operand}[{' + '.join(terms) or '0'}]"

    def start(self, operand: str, axis: int) -> str:
        """First index of the tile's box along an axis."""
        return f"{operand}_box->start[{axis}]"

    def size(self, operand: str, axis: int) -> str:
        """Extent of the tile's box along an axis."""
        return f"{operand}_box->size[{axis}]"

    def extent(self, operand: str, axis: int) -> int:
        """Extent of the whole tensor along an axis of its view."""
        return self._views[operand][axis]

    def ctype(self, operand: str) -> str:
        return c_type(self.call[operand].dtype)

    def variant(self) -> str:
        """The variant the plan proved, or "runtime" when the tile decides."""
        return self.plan.variant

    def whole_test(self, variant: str) -> str:
        """C condition under which a variant may run: the tile's sizes equal the untiled ones."""
        found = next(v for v in self.call.operator.variants if v.name == variant)
        return " && ".join(f"{self.size(o, axis)} == {untiled(o, axis)}" for o, axis in found.whole)

    def untiled_sizes(self, variant: str) -> str:
        """Enumerators with the sizes that :meth:`whole_test` compares with, captured from the untiled tensors."""
        found = next(v for v in self.call.operator.variants if v.name == variant)
        return ", ".join(f"{untiled(o, axis)} = {self.extent(o, axis)}" for o, axis in found.whole)

    def declarations(self, text: str) -> str:
        """Names of loops, boxes and pointers, as far as the body's text uses them."""
        written = {access.operand for access in self.phase.writes}
        lines: list[str] = []
        numbers = [f"LOOP_{n.upper()} = {i}" for n, i in self._loops.items() if f"[LOOP_{n.upper()}]" in text]
        if numbers:
            lines.append(f"    enum {{ {', '.join(numbers)} }}; /* loops */")
        for operand, place in self._blocks.items():
            box, source = f"{operand}_box", f"tile->operand[{place}]"
            boxed = bool(re.search(rf"\b{box}\b", text))
            if boxed:
                lines.append(f"    const net_operand_t *const {box} = &{source};")
            if re.search(rf"\b{operand}\[", text):
                qualifier = "" if operand in written else "const "
                pointer = f"{box}->data" if boxed else f"{source}.data"
                lines.append(f"    {qualifier}{self.ctype(operand)} *const {operand} = {pointer};")
        return "\n".join(lines)


def untiled(operand: str, axis: int) -> str:
    """Enumerator for the size of an operand before tiling."""
    return f"{operand.upper()}_UNTILED_{axis}"


class Bodies:
    """All distinct bodies of a program, in order of first use."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def name_of(self, call: Call, group: Group, phase: Phase, plan: BodyPlan) -> str:
        """Name of the function for a phase; rendered now unless an equal one exists."""
        context = BodyContext(call, group, phase, plan)
        text = _render(call, phase, context)
        if text not in self._names:
            stem = f"{c_identifier(call.invocation.operator.op_type)}_{phase.name}"
            self._counts[stem] = self._counts.get(stem, 0) + 1
            self._names[text] = f"{stem}_{self._counts[stem]}"
        return self._names[text]

    def functions(self) -> Mapping[str, str]:
        """Function name -> its C text."""
        return {
            name: f"static void {name}(const net_tile_t *tile, const net_range_t *range)\n{{\n{text}}}\n"
            for text, name in self._names.items()
        }


def _render(call: Call, phase: Phase, context: BodyContext) -> str:
    template = _template(call.invocation.operator.op_type)
    if not template.has_def(phase.name):
        raise BadInputError(
            f'template of operator {call.invocation.operator.op_type} has no <%def name="{phase.name}()">; add it.'
        )
    text = str(template.get_def(phase.name).render(t=context, call=context.call, c_float=c_float))
    lines = [line.rstrip() for line in text.split("\n")]
    body = "\n".join(line for line in lines if line)
    return f"{context.declarations(body)}\n{body}\n"


def _template(op_type: str) -> Template:
    name = f"{op_type}.c.mako"
    if not lookup().has_template(name):
        raise BadInputError(f"operator {op_type} has no template {name}; add it to the template folder.")
    return lookup().get_template(name)
