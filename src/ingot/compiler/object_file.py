"""Object files: which functions machine code calls that are not in it.

LLVM ends the process when it loads code that calls a function it cannot find, so that is looked up
before.
"""

from __future__ import annotations

import struct

__all__ = ["undefined_symbols"]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE = 2


def undefined_symbols(data: bytes) -> list[str]:
    """The names of the functions that an ELF object file needs from elsewhere; none for other
    formats.
    """
    if data[:5] != b"\x7fELF\x02":
        return []
    header = _HEADER.unpack_from(data)
    offset, size, count = header[6], header[11], header[12]
    sections = [_SECTION.unpack_from(data, offset + i * size) for i in range(count)]
    names: list[str] = []
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        texts = sections[section[6]]
        for position in range(section[4], section[4] + section[5], section[9]):
            name, _, _, index, _, _ = _SYMBOL.unpack_from(data, position)
            if index == 0 and name:
                start = texts[4] + name
                names.append(data[start : data.index(b"\0", start)].decode())
    return names
