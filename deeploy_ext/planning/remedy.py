"""What to change when nothing fits: the smallest changes of single options that work, found by trying them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from deeploy_ext.errors import BadInputError, InfeasibleError
from deeploy_ext.planning.options import PlanOptions
from deeploy_ext.planning.target import Target

Fits = Callable[[PlanOptions], bool]
"""Whether there is a plan with some options."""


def remedies(options: PlanOptions, target: Target, feasible: Fits, fits: Fits) -> list[str]:
    """Changes of options that make a plan possible, each the smallest of its kind, as a user would type them.

    Args:
        feasible: a quick test, by which sizes are searched.
        fits: makes the plan; nothing is proposed that it has not tried.
    """
    found: list[str] = []
    for level in ("l1", "l2"):
        size = _smallest(options, target, level, feasible)
        if size is not None and fits(replace(options, **{level: size})):
            found.append(f"--{level} {size} or more")
    if not options.promote:
        if options.default_level != "L3" and fits(replace(options, default_level="L3")):
            found.append("--default-level L3")
        if fits(replace(options, promote=True)):
            found.append("--promote")
    return found or _both(options, target, feasible, fits)


def _both(options: PlanOptions, target: Target, feasible: Fits, fits: Fits) -> list[str]:
    """Two sizes where one alone does not help."""
    l1 = _smallest(replace(options, l2=target.levels["L2"].capacity), target, "l1", feasible)
    l2 = _smallest(replace(options, l1=l1), target, "l2", feasible) if l1 is not None else None
    if l2 is None or not fits(replace(options, l1=l1, l2=l2)):
        return []
    return [f"--l1 {l1} --l2 {l2} or more of both"]


def _smallest(options: PlanOptions, target: Target, name: str, feasible: Fits) -> int | None:
    """The smallest size of a memory with which a plan is possible, up to what the target has; None: there is none."""
    level = target.levels[name.upper()]
    given = getattr(options, name) or level.capacity
    low, high = given // level.alignment, level.capacity // level.alignment
    if low >= high or not feasible(replace(options, **{name: high * level.alignment})):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        fitting = feasible(replace(options, **{name: middle * level.alignment}))
        low, high = (low, middle) if fitting else (middle, high)
    return high * level.alignment


def fewer_layers(fits: Callable[[int], bool]) -> int | None:
    """The most last layers that can train; ``fits`` says of a number of them whether there is a plan, and raises
    :class:`BadInputError` if the network does not have so many, or cannot be trained in part."""

    def works(count: int) -> bool:
        try:
            return fits(count)
        except (BadInputError, InfeasibleError):
            return False

    if not works(1):
        return None
    low = 1
    while works(2 * low):
        low *= 2
    high = 2 * low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if works(middle) else (low, middle)
    return low


def explained(error: InfeasibleError, changes: list[str]) -> InfeasibleError:
    """The error with what helps."""
    listed = ", or ".join(changes)
    remedy = f"use {listed}" if changes else "nothing helps but a smaller network or fewer trainable layers (--trainable)"
    return InfeasibleError(
        f"{error.reason}; {remedy}.",
        node=error.node,
        level=error.level,
        needed=error.needed,
        available=error.available,
        changes=tuple(changes),
        reason=error.reason,
    )
