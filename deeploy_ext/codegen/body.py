"""Bodies: the C function that computes one tile of one phase, rendered from the operator's template.

Bodies with equal text are one function, shared by all nodes: constants appear only where a template uses them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from mako.exceptions import CompileException, RichTraceback, SyntaxException, TopLevelLookupException
from mako.lookup import TemplateLookup
from mako.template import Template

from deeploy_ext.codegen.text import c_float, c_identifier, c_type
from deeploy_ext.errors import BadInputError
from deeploy_ext.graph.program import Call
from deeploy_ext.operators.guard import template_folder
from deeploy_ext.operators.relations import Affine
from deeploy_ext.operators.spec import Operator, Phase
from deeploy_ext.planning.joint import operands_of
from deeploy_ext.planning.plan import AxisPlan, BodyPlan, Group
from deeploy_ext.resources import resource


@cache
def lookup(folder: Path | None = None) -> TemplateLookup:
    """The template folder, behind that of a plugin if one is given. Undefined names in a template are errors."""
    folders = [str(path) for path in (folder, resource("templates")) if path is not None]
    return TemplateLookup(folders, strict_undefined=True, input_encoding="utf-8")


class BodyContext:
    """What a template may ask about the tile it computes; loops and operands are addressed by their names."""

    def __init__(self, call: Call, group: Group, phase: Phase, plan: BodyPlan) -> None:
        self.call = call.invocation
        self.phase, self.plan = phase, plan
        self.kernels: dict[str, tuple[str, str]] = {}
        self._plans = {loop.name: loop for loop in group.loops}
        self._loops = {loop.name: i for i, loop in enumerate(group.loops)}
        self._blocks = {u.operand: i for i, block in enumerate(group.blocks) for u in block.uses if u.node == plan.node}
        self._views = {o: tuple(axis.extent for axis in group.blocks[i].axes) for o, i in self._blocks.items()}
        self._flat: dict[str, int] = {}
        if plan.flat:  # of an element-wise node all boxes lie in L1 alike: it counts their elements from 0
            self._flat = {name: place for place, name in enumerate(operands_of(phase))}
            self._loops = {phase.loops[0].name: 0}
            self._views |= {access.operand: access.view for access in (*phase.reads, *phase.writes) if access.view}
            self._starts, self._strides = {}, {}
        else:
            self._starts, self._strides = _alike({o: group.blocks[i].axes for o, i in self._blocks.items()}, phase)

    def has(self, operand: str) -> bool:
        """Whether the phase touches an operand (optional ones may be absent)."""
        return operand in self._blocks and any(a.operand == operand for a in (*self.phase.reads, *self.phase.writes))

    def begin(self, loop: str) -> str:
        """First iteration of this worker's part of a loop."""
        return f"range->begin[LOOP_{loop.upper()}]"

    def end(self, loop: str) -> str:
        """One past the last iteration of this worker's part of a loop."""
        return f"range->end[LOOP_{loop.upper()}]"

    def count(self, loop: str) -> str:
        """Iterations of this worker's part of a loop."""
        return f"({self.end(loop)} - {self.begin(loop)})"

    def loop(self, name: str) -> str:
        """Header of a ``for`` over this worker's part of a loop."""
        return f"int32_t {name} = {self.begin(name)}; {name} < {self.end(name)}; ++{name}"

    def at(self, operand: str, *index: str) -> str:
        """The element of an operand at an index of the whole tensor."""
        view = self._views[operand]
        kept = [(axis, text) for axis, text in enumerate(index) if view[axis] > 1 and text != "0"]
        terms = [
            (text if self._flat else f"{text} - {self.start(operand, axis)}")
            if axis == len(index) - 1
            else f"({text} - {self.start(operand, axis)}) * {self.stride(operand, axis)}"
            for axis, text in kept
        ]
        return f"{operand}[{' + '.join(terms) or '0'}]"

    def index(self, operand: str) -> list[str]:
        """The index at which the phase touches an operand, in names of loops."""
        (found,) = [a.index for a in (*self.phase.reads, *self.phase.writes) if a.operand == operand]
        return [_sum(index) for index in found if index is not None]

    def start(self, operand: str, axis: int) -> str:
        """First index of the tile's box along an axis."""
        if self._flat:
            return "0"
        like, place = self._starts.get((operand, axis), (operand, axis))
        return f"{like}_box->start[{place}]"

    def stride(self, operand: str, axis: int) -> str:
        """Elements in L1 from one index to the next along an axis."""
        return f"{self._strides.get((operand, axis), operand)}_box->stride[{axis}]"

    def size(self, operand: str, axis: int) -> str:
        """Extent of the tile's box along an axis."""
        return f"{operand}_box->size[{axis}]"

    def fresh(self, operand: str) -> str:
        """Whether the tile has another box than the nest's tile before; else what scratch holds of it is still right."""
        return f"{operand}_box->fresh"

    def extent(self, operand: str, axis: int) -> int:
        """Extent of the whole tensor along an axis of its view."""
        return self._views[operand][axis]

    @staticmethod
    def opaque(*pointers: str) -> str:
        """A statement without instructions that hides where pointers come from.

        Compilers else take apart pointers that step through a loop, and add up their parts anew for each access.
        """
        return f"""__asm__("" : {", ".join(f'"+r"({pointer})' for pointer in pointers)});"""

    @staticmethod
    def interleaved(
        loads: Sequence[Sequence[str]],
        computations: Sequence[Sequence[str]],
        stores: Sequence[Sequence[str]] = (),
        ahead: int = 1,
    ) -> list[str]:
        """One list of lines from those of several lanes, in an order for in-order cores of which two share an FPU.

        Lines that use the FPU take turns with those that do not, evenly. A lane's loads stand ``ahead`` lanes before their
        use, its stores one lane after; so in place, each element is loaded before it is stored.
        """
        lines = [line for lane in loads[:ahead] for line in lane]
        for lane, computation in enumerate(computations):
            others = [line for later in loads[lane + ahead : lane + ahead + 1] for line in later]
            others += stores[lane - 1] if stores and lane else ()
            done = 0
            for i, line in enumerate(computation):
                lines.append(line)
                until = -(-len(others) * (i + 1) // len(computation))
                lines += others[done:until]
                done = until
        return lines + list(stores[-1] if stores else ())

    def ctype(self, operand: str) -> str:
        return c_type(self.call[operand].dtype)

    def variant(self) -> str:
        """The variant the plan proved, "runtime" when the tile decides, or the step of a team kernel."""
        return self.plan.variant

    def kernel(self, header: str, macro: str, *arguments: object) -> str:
        """Name of the kernel that a macro of a header of the target defines for these constants."""
        text = ", ".join(str(a).lower() if isinstance(a, bool) else str(a) for a in arguments)
        name = f"{macro.lower()}_{re.sub(r'[^a-z0-9]+', '_', text)}"
        self.kernels[name] = (header, f"{macro}({name}, {text})")
        return name

    def tile(self, loop: str) -> int:
        """Iterations per tile of a loop that is split; 0 if one tile has them all."""
        plan = self._plans[loop]
        return plan.tile if plan.count > 1 else 0

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
            if operand in self._flat:
                source = f"tile->operand[range->flat[{self._flat[operand]}]]"
            boxed = bool(re.search(rf"\b{box}\b", text))
            if boxed:
                lines.append(f"    const net_operand_t *const {box} = &{source};")
            if re.search(rf"(?<!\.)\b{operand}(\[|[,;])", text):
                qualifier = "" if operand in written else "const "
                pointer = f"{box}->data" if boxed else f"{source}.data"
                lines.append(f"    {qualifier}{self.ctype(operand)} *const {operand} = {pointer};")
        return "\n".join(lines)


def _sum(index: Affine) -> str:
    """An affine index in C; of one without loops the constant."""
    terms = [name if factor == 1 else f"{factor} * {name}" for name, factor in index.terms]
    return " + ".join([*terms, *([str(index.offset)] if index.offset or not terms else [])])


def _alike(
    axes: Mapping[str, Sequence[AxisPlan]], phase: Phase
) -> tuple[dict[tuple[str, int], tuple[str, int]], dict[tuple[str, int], str]]:
    """For axes of the phase's operands: the first axis that starts where this one does, the first operand with its stride.

    Operands that a phase walks together then share one computation of an offset. Alike are axes that one index relation
    and the same regions belong to: the relation keeps the text from depending on sizes that agree by chance.
    """
    starts: dict[tuple[str, int], tuple[str, int]] = {}
    strides: dict[tuple[str, int], str] = {}
    seen: dict[object, tuple[str, int]] = {}
    for access in (*phase.reads, *phase.writes):
        operand = access.operand
        keys = [(index, axis.loops, axis.regions) for index, axis in zip(access.index, axes[operand], strict=True)]
        for i, key in enumerate(keys):
            if (operand, i) not in starts:
                starts[operand, i] = seen.setdefault(key, (operand, i))
                strides[operand, i] = seen.setdefault((i, *keys[i + 1 :]), (operand, i))[0]
    return starts, strides


def untiled(operand: str, axis: int) -> str:
    """Enumerator for the size of an operand before tiling."""
    return f"{operand.upper()}_UNTILED_{axis}"


def stem_of(call: Call, plan: BodyPlan) -> str:
    """Name of a body, apart from the number that tells those of an operator apart: of team kernels with the step."""
    step = f"_{plan.variant}" if plan.team else ""
    return f"{c_identifier(call.invocation.operator.op_type)}_{plan.phase}{step}"


class Bodies:
    """All distinct bodies of a program, in order of first use.

    ``others`` names functions that take the place of generated bodies, by node and stem.
    """

    def __init__(self, others: Mapping[tuple[str, str], str] | None = None) -> None:
        self._others = others or {}
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._kernels: dict[str, tuple[str, str]] = {}

    def name_of(self, call: Call, group: Group, phase: Phase, plan: BodyPlan) -> str:
        """Name of the function for a phase; rendered now unless an equal one exists."""
        stem = stem_of(call, plan)
        context = BodyContext(call, group, phase, plan)
        text = _render(call, phase, context)
        self._kernels |= context.kernels  # also for what stands in: it may begin as a copy
        if (call.name, stem) in self._others:
            return self._others[call.name, stem]
        if text not in self._names:
            self._counts[stem] = self._counts.get(stem, 0) + 1
            self._names[text] = f"{stem}_{self._counts[stem]}"
        return self._names[text]

    def headers(self) -> list[str]:
        """Headers of all kernels that bodies call, sorted."""
        return sorted({header for header, _ in self._kernels.values()})

    def kernels(self) -> list[str]:
        """Lines of C that define all kernels that bodies call: headers, then a macro each."""
        return [
            *(f'#include "{header}"' for header in self.headers()),
            *(text for _, text in sorted(self._kernels.values()) if text),
        ]

    def functions(self) -> Mapping[str, str]:
        """Function name -> its C text."""
        return {
            name: f"static void {name}(const net_tile_t *tile, const net_range_t *range)\n{{\n{text}}}\n"
            for text, name in self._names.items()
        }


def _render(call: Call, phase: Phase, context: BodyContext) -> str:
    operator = call.invocation.operator
    template = _template(operator)
    if not template.has_def(phase.name):
        raise BadInputError(
            f'{template.filename}: template of operator {operator.op_type} has no <%def name="{phase.name}()">; add it.'
        )
    try:
        text = str(template.get_def(phase.name).render(t=context, call=context.call, c_float=c_float))
    except Exception as error:  # a template may raise anything
        raise BadInputError(_in_template(operator, template.filename, error)) from error
    body = "\n".join(indented(text.split("\n")))
    return f"{context.declarations(body)}\n{body}\n"


def _in_template(operator: Operator, file: str | None, error: Exception) -> str:
    """An error of a template's, with its place there."""
    where = RichTraceback(error=error)
    lines = [f", line {line}" for name, line, *_ in where.records if name.endswith(".mako")][-1:]
    said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return f"{file}{''.join(lines)}: template of operator {operator.op_type}: {said}; correct the template."


_COMMENT = re.compile(r"\s*/\*.*?\*/")


def indented(lines: Iterable[str]) -> list[str]:
    """Lines of C with the indentation of a function's body, whatever they had; empty ones vanish.

    A ``{`` of its own joins the ``for``, ``if`` or ``else`` before it.
    """
    found: list[str] = []
    around: list[tuple[int, int]] = []
    level, unfinished = 1, 0
    for line in filter(None, map(str.strip, lines)):
        if line == "{" and unfinished:
            found[-1] += " {"
            around.append((level, unfinished - 1))
            level, unfinished = level + unfinished, 0
            continue
        if line.startswith("}"):
            level, unfinished = around.pop()
        found.append(f"{'    ' * (level + unfinished)}{line}")
        code = _COMMENT.sub("", line)
        if code.endswith("{"):
            around.append((level, unfinished))
            level, unfinished = level + unfinished + 1, 0
        elif code.endswith((";", "}")):
            unfinished = 0
        elif code and not code.endswith(","):
            unfinished += 1
    return found


def _template(operator: Operator) -> Template:
    name, folder = f"{operator.template or operator.op_type}.c.mako", template_folder(operator)
    try:
        return lookup(folder).get_template(name)
    except TopLevelLookupException as error:
        message = f"operator {operator.op_type} has no template {folder or resource('templates')}/{name}; add it."
        raise BadInputError(message) from error
    except (CompileException, SyntaxException) as error:
        message = f"template of operator {operator.op_type}: {' '.join(str(error).split())[:300]}; correct the template."
        raise BadInputError(message) from error
