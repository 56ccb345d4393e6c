"""What an operator is: one class that states its meaning once; everything else is derived.

A subclass of :class:`Operator` gives the ONNX name, operands, attributes, shape inference, gradient rule, reference body
(for operators that are not standard ONNX), what may be computed in place, and the *phases*: loop nests with access
relations. The planner derives tiles, DMA boxes and core splits from the phases; ``templates/<name>.c.mako`` computes one
tile of each phase.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from deeploy_ext.errors import BadInputError
from deeploy_ext.operators.relations import Affine

if TYPE_CHECKING:
    import onnx_ir as ir

    from deeploy_ext.training.builder import GraphBuilder

ONNX = ""
MICROSOFT = "com.microsoft"
OWN = "deeploy_ext"
OPSET = 21
"""The one version of the ONNX operator set that every graph is normalised to."""

REQUIRED = object()
"""Marks an attribute without default."""


@dataclass(frozen=True)
class TensorType:
    """Element type and static shape of a tensor."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * self.dtype.itemsize


LoopKind = Literal["parallel", "reduction", "whole"]


@dataclass(frozen=True)
class Loop:
    """One loop of a phase: ``parallel`` iterations are independent, ``reduction`` ones accumulate, ``whole`` is never tiled."""

    name: str
    extent: int
    kind: LoopKind = "parallel"


Start = Literal["none", "zero", "sum", "seed"]

Work = Literal["elementwise", "statistics", "exponential", "error_function", "mac", "mac_strided", "mac_dense"]
"""Classes of work of phases, of which every target states the costs; team kernels have further ones."""


@dataclass(frozen=True)
class Access:
    """How a phase touches one operand.

    Attributes:
        operand: name of the operand (one of the operator's ``inputs`` or ``outputs``).
        index: one affine index per axis of ``view``; ``None`` means the whole axis.
        view: shape under which the (contiguous) operand is seen; ``()`` means as it is.
        start: for writes: how the region starts on the first tile of a reduction: ``none`` (written once), ``zero``, ``sum``
            (zero, and what follows is a plain sum, which may as well go on from any other), ``seed`` (from another operand).
    """

    operand: str
    index: tuple[Affine | None, ...]
    view: tuple[int, ...] = ()
    start: Start = "none"


@dataclass(frozen=True)
class Phase:
    """One loop nest of an operator; phases of a node run one after the other with a barrier between.

    Attributes:
        name: the ``<%def>`` of the operator's template that computes a tile of it.
        loops: all loops, outermost first.
        reads, writes: access relations. A later phase may read what an earlier one wrote.
        work: class of one iteration.
    """

    name: str
    loops: tuple[Loop, ...]
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    work: Work = "elementwise"


@dataclass(frozen=True)
class Variant:
    """One of several bodies that accept the same tiles: usable where the named (operand, axis) are whole in the tile."""

    name: str
    whole: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class TeamKernel:
    """A faster body for some uses of an operator of one phase: all workers run its steps together, a barrier between them.

    Attributes:
        steps: the steps' names, as the operator's template knows them, in order.
        work: cost class of one iteration of the phase, or of one of ``multiplied``.
        scratch: bytes of L1 that a tile needs beside its operands, from the iterations per tile of each loop.
        multiplied: multiplications for a tile, where they are not the phase's iterations.
        transformed: floats for a tile that are computed before and after them.
    """

    steps: tuple[str, ...]
    work: str
    scratch: Callable[[Mapping[str, int]], int]
    multiplied: Callable[[Mapping[str, int]], int] | None = None
    transformed: Callable[[Mapping[str, int]], int] | None = None


@dataclass(frozen=True)
class Invocation:
    """One use of an operator, as its methods see it: types, checked attributes and constant inputs, in operand order.

    ``inputs``/``outputs`` hold None for absent optional operands; ``outputs`` is empty during inference.
    ``constants`` holds the values of inputs known at compile time, by operand name, ``redundant`` those of redundant
    attributes as far as they are given.
    """

    name: str
    operator: Operator
    inputs: tuple[TensorType | None, ...]
    outputs: tuple[TensorType | None, ...]
    attributes: Mapping[str, Any]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    redundant: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __getitem__(self, operand: str) -> TensorType:
        """Type of an operand that must be present."""
        found = self.get(operand)
        if found is None:
            raise BadInputError(f"{self.name} ({self.operator.op_type}): operand '{operand}' is missing; give it in the model.")
        return found

    def get(self, operand: str) -> TensorType | None:
        """Type of an operand, or None when it is absent."""
        for names, types in ((self.operator.inputs, self.inputs), (self.operator.outputs, self.outputs)):
            if operand in names and names.index(operand) < len(types):
                return types[names.index(operand)]
        return None

    def refuse(self, what: str, remedy: str) -> BadInputError:
        """An error for a use of the operator that is not implemented: never ignored, never computed wrongly."""
        return BadInputError(f"{self.name} ({self.operator.op_type}): {what} is not supported; {remedy}.")


@dataclass(frozen=True)
class Case:
    """A small use of an operator, stated beside it: everything that is claimed of the operator is checked on its cases.

    Sizes that divide nothing (5, 7, 11) make tiles of unequal sizes; numeric differentiation wants at most some hundred
    elements.

    Attributes:
        inputs: for every input that is given its shape, for random values, or the values themselves.
        attributes: of the node; those left out have the operator's defaults.
        outputs: the outputs that are wanted; (): those that are not optional, and those that the phases need.
        ranges: lowest and highest value of an input, where normally distributed ones will not do.
    """

    inputs: Mapping[str, tuple[int, ...] | np.ndarray[Any, Any]]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    outputs: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])


@dataclass(frozen=True)
class Alias:
    """Another name of an operator: ``renamed`` attributes have other names there, ``given`` ones are what it says."""

    domain: str
    op_type: str
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Operator:
    """Base class of all operators; see the module docstring.

    Class attributes:
        domain, op_type: ONNX name. ``since``: opset version of the domain the semantics come from.
        inputs, outputs: operand names in ONNX order. ``optional``: those that may be absent.
        attributes: name -> default, or REQUIRED. Attributes not listed here are refused.
        inference_attributes: values that attributes take when the trained network is only run, e.g. training_mode 0.
        redundant_attributes: attributes that repeat what the operands say, e.g. ``kernel_shape``; checked, then dropped.
        implied: value of the first operand where exporters leave it out (the gradient of a loss by itself); None: never.
        function: reference body in ONNX's textual function syntax, for operators outside the standard domain.
        needed: optional outputs that the phases need even when the graph does not use them.
        in_place: (input, output) pairs that *may* share storage because each element is read before it is written.
        state: (input, output) pairs that *must* share storage (buffers updated in place).
        accumulates: the input that is added to the first state, or overwrites it when a run-time flag, the other input, says
            so: what computes it as a plain sum may go on from the state instead. None: no such.
        view: the output is the input's storage under another shape (no code).
        constant_inputs: inputs that must be known at compile time (shapes, axes); they never exist in the emitted C.
        operand_types: numpy names of the element types of inputs that are not float32.
        positive: inputs that are never below zero, whatever the network: variances and the like.
        decided_by: of a gradient: the input of which only the sign counts, the output of the forward node; None: there is none.
        variants: alternative bodies in the template, the preferred one first, the last without condition; () for one body.
        template: name of the template, where operators share one; "": the operator's own name.
        variadic: the operator has as many outputs as the node names, the first ones of ``outputs``.
        aliases: other names under which exporters write the operator; loading gives it this one.
        images: operands of shape (N, C, image axes) or (Co, Ci, image axes). The operator is of 2-D images; used on 1-D
            ones, they are seen as images of one row (``graph/lines.py``).
        cases: what the operator is checked on; at least one.
    """

    domain: ClassVar[str] = ONNX
    op_type: ClassVar[str]
    inputs: ClassVar[tuple[str, ...]]
    outputs: ClassVar[tuple[str, ...]]
    optional: ClassVar[frozenset[str]] = frozenset()
    attributes: ClassVar[Mapping[str, Any]] = {}
    inference_attributes: ClassVar[Mapping[str, Any]] = {}
    redundant_attributes: ClassVar[frozenset[str]] = frozenset()
    implied: ClassVar[float | None] = None
    function: ClassVar[str | None] = None
    needed: ClassVar[tuple[str, ...]] = ()
    in_place: ClassVar[tuple[tuple[str, str], ...]] = ()
    state: ClassVar[tuple[tuple[str, str], ...]] = ()
    accumulates: ClassVar[str | None] = None
    view: ClassVar[bool] = False
    constant_inputs: ClassVar[tuple[str, ...]] = ()
    operand_types: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    positive: ClassVar[frozenset[str]] = frozenset()
    decided_by: ClassVar[str | None] = None
    variants: ClassVar[tuple[Variant, ...]] = ()
    template: ClassVar[str] = ""
    variadic: ClassVar[bool] = False
    aliases: ClassVar[tuple[Alias, ...]] = ()
    images: ClassVar[tuple[str, ...]] = ()
    cases: ClassVar[tuple[Case, ...]] = ()

    @property
    def continues(self) -> tuple[str, str, str] | None:
        """(sum, value, restart) of an operator with ``accumulates``: its state, what is added, and the flag to start anew."""
        if self.accumulates is None:
            return None
        total = self.state[0][0]
        return total, self.accumulates, next(name for name in self.inputs if name not in (total, self.accumulates))

    @property
    def key(self) -> tuple[str, str]:
        return (self.domain, self.op_type)

    def training_form(self, attributes: Mapping[str, Any]) -> tuple[str, str] | None:
        """The operator with the same leading operands and attributes that takes this one's place when the network trains."""
        return None

    def infer(self, call: Invocation) -> tuple[TensorType, ...]:
        """Types of all outputs, from input types and attributes. Refuses what is not implemented."""
        raise NotImplementedError

    def gradient(
        self, call: Invocation, node: ir.Node, grads: Sequence[ir.Value | None], build: GraphBuilder
    ) -> Sequence[ir.Value | None]:
        """Gradients of the inputs (None where there is none), emitted through ``build``, from those of the outputs."""
        raise call.refuse("training through this operator", "freeze the layers before it")

    def kernels(self, call: Invocation) -> tuple[TeamKernel, ...]:
        """Faster bodies for this use, no two with the same steps; of several the plan takes the fastest by prediction."""
        return ()

    def phases(self, call: Invocation) -> tuple[Phase, ...]:
        """Loop nests with access relations, in execution order. Empty for views."""
        raise NotImplementedError
