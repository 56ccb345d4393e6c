"""Where the data folders of the package are: templates, targets and test networks.

They stand at the top of the repository and inside ``deeploy_ext/`` in an installed wheel.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource(*parts: str) -> Path:
    """Path of a shipped file or folder, e.g. ``resource("targets", "gap9", "target.toml")``."""
    installed = _PACKAGE.joinpath(*parts)
    return installed if (_PACKAGE / parts[0]).is_dir() else _PACKAGE.parent.joinpath(*parts)
