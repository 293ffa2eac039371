"""Addresses of elements as sums of products of indices and strides."""

from __future__ import annotations

from collections.abc import Mapping

from ingot.compiler.forms.affine import (
    Affine,
    Extent,
    Index,
    Symbol,
    affine,
    size_of_extent,
)
from ingot.compiler.forms.nest.data import Buffer, Indices
from ingot.compiler.llvm.code import Code, Register

__all__ = ["Address", "Addresses", "Factor", "hide_moved"]

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
