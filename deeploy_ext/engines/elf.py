"""What we ask of a 32-bit little-endian ELF file: where its sections lie, and which function an address is in.

Layout after the System V ABI (Tool Interface Standard, ELF 1.2).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

_HEADER = struct.Struct("<16sHHIIIIIHHHHHH")
_SECTION = struct.Struct("<10I")
_SYMBOL = struct.Struct("<IIIBBH")
_SYMBOL_TABLE, _ALLOCATED, _FUNCTION, _ANY = 2, 2, 2, 0


@dataclass(frozen=True)
class Section:
    """A section that takes room in the memory of the program."""

    name: str
    address: int
    size: int


class Elf:
    """The tables of an executable.

    Raises:
        ValueError: not a 32-bit little-endian ELF file.
    """

    def __init__(self, path: Path) -> None:
        self._data = path.read_bytes()
        if self._data[:6] != b"\x7fELF\x01\x01":
            raise ValueError(f"{path} is not a 32-bit little-endian ELF file")
        header = _HEADER.unpack_from(self._data)
        offset, size, count, names = header[6], header[11], header[12], header[13]
        self._headers = [_SECTION.unpack_from(self._data, offset + i * size) for i in range(count)]
        self._names = self._headers[names][4]

    def sections(self) -> list[Section]:
        """Sections with an address, in the order of the file."""
        return [
            Section(self._text(self._names + header[0]), header[3], header[5])
            for header in self._headers
            if header[2] & _ALLOCATED and header[5]
        ]

    def function_at(self, address: int) -> str | None:
        """Name of the function that ``address`` is in; None if no symbol says."""
        best: tuple[int, str] | None = None
        for value, size, kind, name in self._symbols():
            starts = value <= address and (address < value + size if size else address - value < 4096)
            if starts and kind in (_FUNCTION, _ANY) and name and name[0] != "$" and (best is None or value >= best[0]):
                best = value, name
        return best[1] if best else None

    def symbol(self, wanted: str) -> int:
        """Value of a symbol.

        Raises:
            KeyError: there is none of that name.
        """
        for value, _, _, name in self._symbols():
            if name == wanted:
                return value
        raise KeyError(wanted)

    def _symbols(self) -> list[tuple[int, int, int, str]]:
        """Value, size, type and name of every symbol."""
        found: list[tuple[int, int, int, str]] = []
        for header in self._headers:
            if header[1] == _SYMBOL_TABLE:
                strings = self._headers[header[6]][4]
                for offset in range(header[4], header[4] + header[5], _SYMBOL.size):
                    name, value, size, info, _, _ = _SYMBOL.unpack_from(self._data, offset)
                    found.append((value, size, info & 15, self._text(strings + name)))
        return found

    def _text(self, offset: int) -> str:
        return self._data[offset : self._data.index(b"\0", offset)].decode("ascii", errors="replace")
