"""How much of L2 an emitted program takes itself: an estimate from above, since it is needed before the C is there."""

from __future__ import annotations

from deeploy_ext.graph.program import Program
from deeploy_ext.planning.nest import kernels_of
from deeploy_ext.planning.target import Target


def code_bytes(program: Program, target: Target, kernels: str) -> int:
    """Bytes of code, constant tables and stack of the fabric controller.

    Uses of an operator with equal attributes share their bodies and kernels; of several kernels that a use may have (see
    :func:`~deeploy_ext.planning.nest.kernels_of`) the largest counts.
    """
    code = target.code
    total = code["runtime"] + len(program.calls) * code["node"]
    seen: set[object] = set()
    for call in program.calls:
        use, operator = call.invocation, call.invocation.operator
        classes = tuple(kernel.work for kernel in kernels_of(call, kernels))
        key = (operator.key, repr(sorted(use.attributes.items())), classes)
        if key not in seen:
            seen.add(key)
            total += len(operator.phases(use)) * code["body"]
            total += max((code[f"kernel.{work}"] for work in classes), default=0)
    return total
