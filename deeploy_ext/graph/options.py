"""What a user may override of a network's own settings."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from deeploy_ext.errors import BadInputError
from deeploy_ext.training.task import TrainingSpec


@dataclass(frozen=True)
class LoadOptions:
    """Overrides of a network's own settings; None keeps the network's.

    Attributes:
        optimizer: file or folder of the optimizer graph of a training directory, instead of its sibling.
        trainable: ``all``, ``last:N``, or names and globs separated by commas; not for training directories.
        loss: a key of ``deeploy_ext.training.losses.LOSSES``; of own models, which need it.
        data: npz file with samples and targets for an own model.
        batchnorm: statistics of an own model's batch normalisation: ``frozen`` or ``train``; None: as it was exported.
    """

    steps: int | None = None
    accumulation: int | None = None
    learning_rate: float | None = None
    tolerance: float | None = None
    seed: int | None = None
    optimizer: Path | None = None
    trainable: str | None = None
    loss: str | None = None
    data: Path | None = None
    batchnorm: Literal["frozen", "train"] | None = None

    def refuse(self, what: str, *names: str) -> None:
        """Raises BadInputError if one of the named options is given, since it does not apply to ``what``."""
        for name in names:
            if getattr(self, name) is not None:
                raise BadInputError(f"--{name} does not apply to {what}; leave it out.")


MAX_MINI_BATCHES = 10_000
"""Of one run."""

_OVERRIDES = ("steps", "accumulation", "learning_rate", "tolerance", "seed")


def override(spec: TrainingSpec, options: LoadOptions) -> TrainingSpec:
    """The spec with the user's overrides. Raises BadInputError for values that make no sense."""
    given = {name: getattr(options, name) for name in _OVERRIDES if getattr(options, name) is not None}
    return checked(replace(spec, **given))


def checked(spec: TrainingSpec) -> TrainingSpec:
    """The spec itself. Raises BadInputError for values that make no sense."""
    if spec.steps < 1:
        raise BadInputError(f"steps is {spec.steps}; use 1 or more.")
    if spec.accumulation < 1:
        raise BadInputError(f"accumulation is {spec.accumulation}; use 1 or more mini-batches per step.")
    if spec.mini_batches > MAX_MINI_BATCHES:
        raise BadInputError(
            f"{spec.steps} steps of {spec.accumulation} are {spec.mini_batches} mini-batches; every gradient of each is kept "
            f"and compared, so use at most {MAX_MINI_BATCHES}."
        )
    if not math.isfinite(spec.learning_rate) or not 1e-38 < spec.learning_rate < 1e38:
        raise BadInputError(f"learning rate is {spec.learning_rate}; use a positive number that float32 holds.")
    if not math.isfinite(spec.tolerance) or spec.tolerance <= 0:
        raise BadInputError(f"tolerance is {spec.tolerance}; use a positive number.")
    if not 0 <= spec.seed < 2**32:
        raise BadInputError(f"seed is {spec.seed}; use a number from 0 to {2**32 - 1}.")
    return spec
