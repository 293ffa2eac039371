"""Object files: machine code as LLVM writes it, made ready to run.

Loading compiled code with LLVM takes longer than all the rest of a first call, because its library
must be loaded. So the common case, ELF files for x86-64 and aarch64, is handled here: sections are
laid out in one image, relocations between them applied, and a table of the addresses of external
functions appended. LLVM loads files with anything else. The disk cache holds images, which only
lack what differs from process to process: the addresses of the image and of external functions.
"""

from __future__ import annotations

import ctypes
import marshal
import struct
from functools import lru_cache
from typing import ClassVar, NamedTuple

from ingot._native import MachineCode
from ingot.runtime.processor import machine

__all__ = ["Image", "image_of", "undefined_symbols"]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_WORD = struct.Struct("<q")
_PACKED = b"image\n"
_MARSHAL_VERSION = 4  # which all supported versions of Python read
_SYMBOL_TABLE, _RELOCATIONS, _NO_BITS = 2, 4, 8
_ALLOCATED, _WRITTEN, _THREAD_LOCAL = 2, 1, 0x400


class _Section(NamedTuple):
    name: str
    kind: int
    flags: int
    data: bytes
    alignment: int
    target: int  # of relocations: the section that they apply to
    table: int  # of relocations: their symbol table


class _Symbol(NamedTuple):
    name: str
    section: int  # 0: external
    value: int


class Image(NamedTuple):
    """Linked code, the offsets of its functions, and the 64-bit words that are still to be filled:
    the address of the image is added to some, that of an external function to others.
    """

    data: bytes
    relative: tuple[int, ...]
    external: tuple[tuple[int, str], ...]
    functions: dict[str, int]

    def packed(self) -> bytes:
        """The image as bytes for the disk cache."""
        return _PACKED + marshal.dumps(tuple(self), _MARSHAL_VERSION)

    @staticmethod
    def unpacked(data: bytes) -> Image | None:
        """An image that was packed; None if the bytes are something else."""
        if not data.startswith(_PACKED):
            return None
        return Image(*marshal.loads(memoryview(data)[len(_PACKED) :]))

    def missing(self) -> list[str]:
        """The external functions that no library of this process defines."""
        return [name for _, name in self.external if address_of(name) is None]

    def loaded(self, function: str) -> MachineCode:
        """The code of a function in memory; no external function may be missing."""
        data = self.data
        if self.external:
            filled = bytearray(data)
            for offset, name in self.external:
                (addend,) = _WORD.unpack_from(filled, offset)
                _WORD.pack_into(filled, offset, (address_of(name) or 0) + addend)
            data = bytes(filled)
        return MachineCode(data, self.relative, self.functions[function])


class _UnsupportedError(Exception):
    """The file has something that only LLVM can load."""


class _File:
    """The sections and symbols of an ELF file."""

    def __init__(self, data: bytes) -> None:
        header = _HEADER.unpack_from(data)
        self.machine = header[2]
        offset, size, count, names = header[6], header[11], header[12], header[13]
        rows = [_SECTION.unpack_from(data, offset + i * size) for i in range(count)]
        texts = rows[names]
        self.sections = [
            _Section(
                _text(data, texts[4] + name),
                kind,
                flags,
                bytes(nbytes) if kind == _NO_BITS else data[start : start + nbytes],
                max(1, alignment),
                target,
                link,
            )
            for name, kind, flags, _, start, nbytes, link, target, alignment, _ in rows
        ]
        self.symbols: list[_Symbol] = []
        for row in rows:
            if row[1] != _SYMBOL_TABLE:
                continue
            strings = rows[row[6]][4]
            for position in range(row[4], row[4] + row[5], row[9]):
                name, _, _, index, value, _ = _SYMBOL.unpack_from(data, position)
                self.symbols.append(_Symbol(_text(data, strings + name), index, value))


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()


def _is_elf(data: bytes) -> bool:
    return data[:5] == b"\x7fELF\x02"


def undefined_symbols(data: bytes) -> list[str]:
    """The external functions that an ELF object file needs; none for other formats."""
    if not _is_elf(data):
        return []
    return [symbol.name for symbol in _File(data).symbols if symbol.section == 0 and symbol.name]


@lru_cache(256)
def address_of(name: str) -> int | None:
    """The address of a function of the C library."""
    try:
        function = getattr(ctypes.CDLL(None), name)
    except AttributeError:
        return None
    return ctypes.cast(function, ctypes.c_void_p).value


class _Linker:
    """Makes an image of a file; how a relocation is computed, subclasses know."""

    jump: bytes  # code that jumps to the address that follows it

    def __init__(self, file: _File) -> None:
        self.file = file
        self.image = bytearray()
        self.start: dict[int, int] = {}  # offsets of sections in the image
        self.relative: list[int] = []
        self.external: list[tuple[int, str]] = []
        self.jumps: dict[str, int] = {}
        self.table: dict[_Symbol, int] = {}

    def run(self) -> Image:
        for number, section in enumerate(self.file.sections):
            if not section.flags & _ALLOCATED or section.name == ".eh_frame":
                continue
            # Constants that hold addresses are relocated when the image is loaded, then made
            # read-only.
            is_constant = section.name.startswith(".data.rel.ro")
            if section.flags & _THREAD_LOCAL or (section.flags & _WRITTEN and not is_constant):
                raise _UnsupportedError(section.name)
            self._align(section.alignment)
            self.start[number] = len(self.image)
            self.image += section.data
        for section in self.file.sections:
            if section.kind == _RELOCATIONS and section.target in self.start:
                for offset, which, addend in _RELOCATION.iter_unpack(section.data):
                    symbol = self.file.symbols[which >> 32]
                    where = self.start[section.target] + offset
                    self._fill(where, which & 0xFFFFFFFF, symbol, addend)
        functions = {
            symbol.name: self.start[symbol.section] + symbol.value
            for symbol in self.file.symbols
            if symbol.name and symbol.section in self.start
        }
        return Image(bytes(self.image), tuple(self.relative), tuple(self.external), functions)

    def _align(self, to: int) -> None:
        self.image += bytes(-len(self.image) % to)

    def _fill(self, where: int, kind: int, symbol: _Symbol, addend: int) -> None:
        """Applies a relocation to what is at an offset of the image."""
        raise NotImplementedError

    def _called(self, symbol: _Symbol) -> int:
        """Where a call of a function goes: to a jump if it is external."""
        return self._jump(symbol) if symbol.section == 0 else self._inside(symbol)

    def _inside(self, symbol: _Symbol) -> int:
        if symbol.section not in self.start:
            raise _UnsupportedError(symbol.name)
        return self.start[symbol.section] + symbol.value

    def _absolute(self, where: int, symbol: _Symbol, addend: int) -> None:
        if symbol.section == 0:
            self.external.append((where, symbol.name))
            _WORD.pack_into(self.image, where, addend)
        else:
            self.relative.append(where)
            _WORD.pack_into(self.image, where, self._inside(symbol) + addend)

    def _jump(self, symbol: _Symbol) -> int:
        """A jump to an external function, which may be out of range of a call."""
        if symbol.name not in self.jumps:
            self._align(16)
            self.jumps[symbol.name] = len(self.image)
            self.image += self.jump + bytes(8)
            self._absolute(len(self.image) - 8, symbol, 0)
        return self.jumps[symbol.name]

    def _entry(self, symbol: _Symbol) -> int:
        if symbol not in self.table:
            self._align(8)
            self.table[symbol] = len(self.image)
            self.image += bytes(8)
            self._absolute(self.table[symbol], symbol, 0)
        return self.table[symbol]


class _X86Linker(_Linker):
    """Links for x86-64: addresses are words, distances are 32 bits of an instruction."""

    jump = b"\xff\x25\x00\x00\x00\x00"  # jmp [rip]
    ADDRESS, DISTANCE, CALL, THROUGH_TABLE = (1,), (2,), (4,), (9, 41, 42)

    def _fill(self, where: int, kind: int, symbol: _Symbol, addend: int) -> None:
        if kind in self.ADDRESS:
            self._absolute(where, symbol, addend)
            return
        if kind in self.DISTANCE:
            target = self._inside(symbol)
        elif kind in self.CALL:
            target = self._called(symbol)
        elif kind in self.THROUGH_TABLE:
            target = self._entry(symbol)
        else:
            raise _UnsupportedError(f"a relocation of type {kind}")
        struct.pack_into("<i", self.image, where, target + addend - where)


class _ArmLinker(_Linker):
    """Links for aarch64, whose instructions hold the distance in pages of 4 KiB and the offset in
    the page apart. Images begin at a page, so that neither depends on their address.
    """

    jump = b"\x50\x00\x00\x58\x00\x02\x1f\xd6"  # ldr x16, .+8; br x16
    ADDRESS, DISTANCE, CALLS = (257,), (261,), (282, 283)
    PAGE, PAGE_OF_TABLE = (275, 276), (311,)
    # The sizes of what is loaded and stored at an offset in a page, which is stored in units of it.
    IN_PAGE: ClassVar = {277: 1, 278: 1, 284: 2, 285: 4, 286: 8, 299: 16}
    IN_PAGE_OF_TABLE: ClassVar = {312: 8}

    def _fill(self, where: int, kind: int, symbol: _Symbol, addend: int) -> None:
        if kind in self.ADDRESS:
            self._absolute(where, symbol, addend)
        elif kind in self.DISTANCE:
            distance = self._inside(symbol) + addend - where
            struct.pack_into("<i", self.image, where, distance)
        elif kind in self.CALLS:
            self._set(where, (self._called(symbol) + addend - where) >> 2, 0, 26)
        elif kind in self.PAGE:
            self._set_page(where, self._inside(symbol) + addend)
        elif kind in self.PAGE_OF_TABLE:
            self._set_page(where, self._entry(symbol) + addend)
        elif kind in self.IN_PAGE:
            offset = (self._inside(symbol) + addend) % 4096
            self._set(where, offset // self.IN_PAGE[kind], 10, 12)
        elif kind in self.IN_PAGE_OF_TABLE:
            offset = (self._entry(symbol) + addend) % 4096
            self._set(where, offset // self.IN_PAGE_OF_TABLE[kind], 10, 12)
        else:
            raise _UnsupportedError(f"a relocation of type {kind}")

    def _set_page(self, where: int, target: int) -> None:
        """The distance in pages of `adrp`: its lowest two bits are apart from the others."""
        pages = (target >> 12) - (where >> 12)
        self._set(where, pages, 29, 2)
        self._set(where, pages >> 2, 5, 19)

    def _set(self, where: int, value: int, first: int, count: int) -> None:
        """Sets a field of an instruction."""
        mask = (1 << count) - 1
        (before,) = struct.unpack_from("<I", self.image, where)
        after = before & ~(mask << first) | (value & mask) << first
        struct.pack_into("<I", self.image, where, after)


# By the name of the processor: its number in ELF files, and what links for it.
_LINKERS: dict[str, tuple[int, type[_Linker]]] = {
    "x86_64": (62, _X86Linker),
    "aarch64": (183, _ArmLinker),
}


def image_of(data: bytes, processor: str | None = None) -> Image | None:
    """An object file as an image that can be loaded without LLVM; None if only LLVM can. It is for
    this processor, unless another is named.
    """
    number, linker = _LINKERS.get(processor or machine(), (0, _Linker))
    if not _is_elf(data) or (file := _File(data)).machine != number:
        return None
    try:
        return linker(file).run()
    except _UnsupportedError:
        return None
