"""The errors a user can meet, each with the exit status of ``deeployRunner``.

Every message is one or two lines: what is wrong (naming the thing), then the remedy.
"""

from __future__ import annotations

EXIT_PASS = 0
EXIT_MISMATCH = 1
EXIT_BAD_INPUT = 2
EXIT_INFEASIBLE = 3
EXIT_TOOL = 4
EXIT_INTERRUPTED = 130


class DeeployError(Exception):
    """Base of every error that is reported without a traceback."""

    exit_status = EXIT_TOOL


class BadInputError(DeeployError):
    """The user's file, option or value cannot be used as it is."""

    exit_status = EXIT_BAD_INPUT


class InfeasibleError(DeeployError):
    """No plan exists for the given memories.

    Attributes:
        node: name of the node that does not fit, or "" when no single node is at fault.
        level: memory level that is too small ("L1", "L2", "L3").
        needed: bytes needed at that level.
        available: bytes available at that level.
        reason: the message without what helps; changes: what helps, tried by planning with it.
        can_change: whether an option of the plan might help.
    """

    exit_status = EXIT_INFEASIBLE

    def __init__(
        self,
        message: str,
        *,
        node: str,
        level: str,
        needed: int,
        available: int,
        reason: str | None = None,
        changes: tuple[str, ...] = (),
        can_change: bool = True,
    ) -> None:
        super().__init__(message)
        self.node, self.level, self.needed, self.available = node, level, needed, available
        self.reason = message if reason is None else reason
        self.changes, self.can_change = changes, can_change


class ToolError(DeeployError):
    """A compiler, a simulator or the emitted program failed."""

    exit_status = EXIT_TOOL
