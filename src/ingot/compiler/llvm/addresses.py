"""Addresses of elements as sums of products of indices and strides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ingot.compiler.forms.affine import (
    Affine,
    Extent,
    Index,
    Symbol,
    Variable,
    affine,
    size_of_extent,
)
from ingot.compiler.forms.nest.data import Buffer, Indices
from ingot.compiler.llvm.code import Code, Register, literal

__all__ = ["Address", "Addresses", "Factor", "Pointers", "hide_moved"]

Factor = int | Affine  # of symbols


class Address:
    """An address that is linear in the loop indices: strides in bytes, and a constant."""

    __slots__ = ("buffer", "constant", "terms")

    def __init__(self, buffer: Buffer, terms: dict[Index, Factor], constant: Factor) -> None:
        self.buffer = buffer
        self.terms = terms
        self.constant = constant


class Addresses:
    """The addresses of a nest. Addresses that differ by a constant share a pointer: the difference
    is an immediate of the instruction and takes no register.
    """

    def __init__(self) -> None:
        self.known: dict[tuple[object, ...], Address] = {}

    def address_of(self, buffer: Buffer, index: Indices) -> tuple[Address, int]:
        """The shared address of an element of a buffer, without computed indices, and the distance
        in bytes from it.
        """
        terms: dict[Index, Factor] = {}
        constant: Factor = buffer.offset if type(buffer.offset) is int else affine(buffer.offset)
        for stride, at in zip(buffer.strides, index, strict=True):
            if not isinstance(at, Affine):
                continue
            for variable, factor in at.terms.items():
                if isinstance(variable, Symbol):
                    constant = affine(constant) + _product_of_extents(stride, variable) * factor
                else:
                    moved = _product(stride, factor)
                    terms[variable] = _sum(terms[variable], moved) if variable in terms else moved
            if at.constant:
                constant = _sum(constant, _product(stride, at.constant))
        constant, distance = _apart(constant)
        key = (buffer, _key(constant), *((index, _key(factor)) for index, factor in terms.items()))
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = Address(buffer, terms, constant)
        return found, distance


class Pointers:
    """Pointers to the addresses of a nest, while its code is written: each loop advances those of
    the accesses inside it.
    """

    def __init__(self, code: Code) -> None:
        self.code = code
        self.table = Addresses()
        self.numbers: dict[Variable, Register] = {}  # the values of indices and symbols
        self.memory: dict[Buffer, Register] = {}
        self.pointers: dict[Address, Register] = {}

    def first(self, address: Address) -> Register:
        memory = self.memory[address.buffer]
        if type(address.constant) is int and address.constant == 0:
            return memory
        return self.code.offset(memory, self.number(address.constant))

    def move(self, addresses: Sequence[Address], index: Index) -> None:
        """Advances pointers along the index of the loop that was just entered."""
        distances: dict[Factor, Register] = {}
        moved: dict[tuple[Register, Register], Register] = {}
        for address in addresses:
            factor = address.terms.get(index)
            if factor is None:
                continue
            distance = distances.get(factor)
            if distance is None:
                distance = self.code.binary("mul nsw", self.numbers[index], self.number(factor))
                distances[factor] = distance
            step = (self.pointers[address], distance)
            if step not in moved:
                moved[step] = self.code.offset(*step)
            self.pointers[address] = moved[step]

    def pointer(self, address: tuple[Address, int]) -> Register:
        shared, distance = address
        pointer = self.pointers[shared]
        return self.code.offset(pointer, literal("i64", distance)) if distance else pointer

    def number(self, x: Extent | Index) -> Register:
        """An affine expression as an i64."""
        if isinstance(x, int):
            return literal("i64", x)
        x = affine(x)
        total: Register | None = None
        for variable, factor in x.terms.items():
            part = self.numbers[variable]
            if factor != 1:
                part = self.code.binary("mul nsw", part, literal("i64", factor))
            total = part if total is None else self.code.binary("add nsw", total, part)
        if total is None:
            return literal("i64", x.constant)
        if x.constant:
            total = self.code.binary("add nsw", total, literal("i64", x.constant))
        return total

    def least(self, ends: Sequence[Affine]) -> Register:
        found = self.number(ends[0])
        for end in ends[1:]:
            found = self.code.intrinsic("smin", found, self.number(end))
        return found


def hide_moved(
    code: Code, pointers: dict[Address, Register], before: Mapping[Address, Register]
) -> None:
    """Makes the pointers opaque that are not what they were before: LLVM's strength reduction takes
    most of the time of compiling a loop that advances sums of quotients and remainders.
    """
    opaque: dict[Register, Register] = {}
    for address, pointer in pointers.items():
        if pointer is not before[address]:
            if pointer not in opaque:
                opaque[pointer] = code.opaque(pointer)
            pointers[address] = opaque[pointer]


def _apart(constant: Factor) -> tuple[Factor, int]:
    """The symbolic part of an offset, and its constant."""
    if isinstance(constant, int):
        return 0, constant
    return Affine(constant.terms) if constant.terms else 0, constant.constant


def _key(factor: Factor) -> object:
    return factor if isinstance(factor, int) else factor.key()


def _product(stride: Extent, factor: int) -> Factor:
    return stride * factor if isinstance(stride, int) else affine(stride) * factor


def _product_of_extents(stride: Extent, symbol: Symbol) -> Affine:
    """A product of symbols, which is itself a symbol of the kernel."""
    if isinstance(stride, int):
        return affine(symbol) * stride
    return affine(size_of_extent(stride) * size_of_extent(symbol))


def _sum(a: Factor, b: Factor) -> Factor:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return affine(a) + b
