"""deeploy_ext: from an ONNX network to bare-metal C that trains it on GAP9-class microcontrollers.

``deeploy_ext.compile(model, training, target, plan_options)`` is the compiler; see ``api.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deeploy_ext.api import PlanOptions, Program, Run, Training, compile

__version__ = "0.1.0"

__all__ = ["PlanOptions", "Program", "Run", "Training", "__version__", "compile"]


def __getattr__(name: str) -> Any:
    """The API, when it is asked for: the commands that need no onnxruntime do not load it."""
    if name in __all__:
        from deeploy_ext import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
