"""What a run writes: checked before any work starts, written beside its place, and moved there as a whole at the end.

A run that fails or is interrupted leaves what was there before.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from deeploy_ext.errors import BadInputError, ToolError

MANIFEST = "deeployRunner.json"
"""Lists the files of a folder we wrote: such a folder may be replaced, as long as nothing else is in it."""

WEIGHT_SUFFIXES = (".npz", ".onnx")
FILES = ("--json", "--save-weights", "--plan-html")
"""Options that name a file, not a folder."""


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _check_place(option: str, given: str) -> Path:
    """The absolute path, if its folder exists; raises BadInputError naming the option otherwise."""
    if not given or "\0" in given:
        raise BadInputError(f"{option}: {given!r} is not a path; give the name of what is to be written.")
    try:
        path = Path(given).resolve()
    except (OSError, RuntimeError) as error:
        raise BadInputError(f"{option}: '{given}' cannot be used: {error}") from error
    if not path.parent.is_dir():
        raise BadInputError(f"{option}: there is no folder '{path.parent}'; create it first.")
    return path


def _unwritable(option: str, path: Path, error: OSError) -> BadInputError:
    return BadInputError(f"{option}: '{path}' cannot be written: {error.strerror or error}")


class OutputFile:
    """A file that appears complete or not at all.

    Raises:
        BadInputError: on construction, if the place cannot be written (exit status 2, before any work).
    """

    def __init__(self, option: str, given: str) -> None:
        self.option, self.path = option, _check_place(option, given)
        self._draft = _beside(self.path)
        try:
            if self.path.exists() and not self.path.is_file():
                raise BadInputError(f"{option}: '{given}' exists and is not a regular file; give another name.")
            self._draft.touch()
        except OSError as error:
            raise _unwritable(option, self.path, error) from error

    def fill(self, content: bytes) -> None:
        """Writes the whole draft."""
        try:
            self._draft.write_bytes(content)
        except OSError as error:
            raise _unwritable(self.option, self.path, error) from error

    def commit(self, text: str | None = None) -> None:
        """Moves the file into its place, with this text or as it was filled."""
        if text is not None:
            self.fill(text.encode("utf-8"))
        try:
            self._draft.replace(self.path)
        except OSError as error:
            raise _unwritable(self.option, self.path, error) from error

    def discard(self) -> None:
        """Removes the draft; harmless after ``commit``."""
        self._draft.unlink(missing_ok=True)


class OutputFolder:
    """A folder that appears complete or not at all; write into ``draft``.

    An existing folder is replaced only if it is empty or holds nothing but files that an earlier run listed as its own.

    Raises:
        BadInputError: on construction, if the place cannot be written or holds something else.
    """

    def __init__(self, option: str, given: str) -> None:
        self.option, self.path = option, _check_place(option, given)
        self.draft = _beside(self.path)
        try:
            if self.path.exists() or self.path.is_symlink():
                self._check_replaceable()
            self.draft.mkdir()
        except OSError as error:
            raise _unwritable(option, self.path, error) from error

    def commit(self) -> None:
        """Lists the draft's files in its manifest and moves it into its place."""
        files = _files(self.draft)
        text = json.dumps({"written_by": "deeployRunner", "files": files}, indent=1) + "\n"
        old = self.draft.with_suffix(".old")
        try:
            (self.draft / MANIFEST).write_text(text, encoding="utf-8")
            if self.path.exists():
                self.path.rename(old)
            self.draft.rename(self.path)
        except OSError as error:
            raise _unwritable(self.option, self.path, error) from error
        shutil.rmtree(old, ignore_errors=True)

    def discard(self) -> None:
        """Removes the draft; harmless after ``commit``."""
        shutil.rmtree(self.draft, ignore_errors=True)

    def _check_replaceable(self) -> None:
        if not self.path.is_dir():
            raise BadInputError(f"{self.option}: '{self.path}' exists and is not a folder; give another name.")
        if Path.cwd().is_relative_to(self.path):
            raise BadInputError(f"{self.option}: '{self.path}' is the current folder or above it; name a new folder.")
        found = _files(self.path)
        strangers = sorted(set(found) - set(self._own_files()))
        if strangers:
            raise BadInputError(
                f"{self.option}: '{self.path}' holds '{strangers[0]}', which deeployRunner did not write; "
                "give an empty or a new folder."
            )

    def _own_files(self) -> list[str]:
        try:
            manifest = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
            return [MANIFEST, *(str(name) for name in manifest["files"])]
        except (OSError, ValueError, TypeError, KeyError):
            return [MANIFEST]


def _files(folder: Path) -> list[str]:
    """Everything below a folder that is not itself a folder, relative and sorted; empty folders do not count."""
    return sorted((Path(root) / name).relative_to(folder).as_posix() for root, _, names in os.walk(folder) for name in names)


class Outputs:
    """The places one run writes: ``--json``, ``--plan-html`` and ``--save-weights`` files, ``--out`` and ``--dump`` folders;
    None: not asked.

    As a context manager it discards what was not committed, but keeps the dump when a tool failed: it shows what the
    tool was given.
    """

    def __init__(
        self,
        *,
        json_file: str | None = None,
        out: str | None = None,
        dump: str | None = None,
        weights: str | None = None,
        plan_html: str | None = None,
    ) -> None:
        self.json: OutputFile | None = None
        self.plan_html: OutputFile | None = None
        self.out: OutputFolder | None = None
        self.dump: OutputFolder | None = None
        self.weights: OutputFile | None = None
        try:
            places = {
                "--out": out,
                "--dump": dump,
                "--json": json_file,
                "--save-weights": weights,
                "--plan-html": plan_html,
            }
            _check_apart({option: _check_place(option, given) for option, given in places.items() if given is not None})
            self.out = None if out is None else OutputFolder("--out", out)
            self.dump = None if dump is None else OutputFolder("--dump", dump)
            self.json = None if json_file is None else OutputFile("--json", json_file)
            self.plan_html = None if plan_html is None else OutputFile("--plan-html", plan_html)
            if weights is not None and not weights.endswith(WEIGHT_SUFFIXES):
                raise BadInputError(f"--save-weights: '{weights}' is neither .npz nor .onnx; give a name that ends so.")
            self.weights = None if weights is None else OutputFile("--save-weights", weights)
        except BaseException:
            self.discard()
            raise

    def commit(self, report: str, *, proven: bool) -> None:
        """Moves everything into its place; the emitted C and the trained weights only if the numbers are ``proven``."""
        if self.out and proven:
            self.out.commit()
        if self.weights and proven:
            self.weights.commit()
        if self.dump:
            self.dump.commit()
        if self.plan_html:
            self.plan_html.commit()
        if self.json:
            self.json.commit(report)

    def discard(self) -> None:
        """Removes all drafts that were not committed."""
        for place in (self.json, self.plan_html, self.out, self.dump, self.weights):
            if place is not None:
                place.discard()

    def __enter__(self) -> Outputs:
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        try:
            if isinstance(error, ToolError) and self.dump and any(self.dump.draft.iterdir()):
                self.dump.commit()
        finally:
            self.discard()


def _check_apart(places: dict[str, Path]) -> None:
    for option, path in places.items():
        for other, folder in places.items():
            if other != option and (path == folder or (other not in FILES and path.is_relative_to(folder))):
                raise BadInputError(f"{option} and {other} overlap at '{path}'; give them separate places.")
