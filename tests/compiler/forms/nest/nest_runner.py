"""Runs a loop nest as machine code, on memory made for it."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from ingot.compiler.forms.affine import Extent, Symbol, affine
from ingot.compiler.forms.nest.data import Buffer, Nest
from ingot.compiler.llvm.nests import nest_module
from ingot.compiler.machine.kernels import load_kernels


def arguments_of(nest: Nest) -> list[Buffer]:
    """The buffers that are no memory on the stack."""
    return [buffer for buffer in nest.buffers if buffer.argument is not None]


def run_nest(
    nest: Nest,
    arrays: Sequence[np.ndarray],
    symbols: Mapping[Symbol, int] | None = None,
    chunk: int = 1 << 62,
    begin: int = 0,
    end: int | None = None,
    module: str | None = None,
) -> None:
    """Runs the code of a nest on one array for each buffer in the memory of its arguments, `chunk`
    iterations of its parallel loop at a time, all of them or those in begin..end. `module` is the
    nest's LLVM module, if it was written before.
    """
    symbols = symbols or {}
    (code,) = load_kernels([module or nest_module(nest)]).codes
    integers = [ctypes.c_int64] * 2
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *integers, ctypes.c_int32)(code.address)
    pointers: list[int] = []
    for buffer, array in zip(arguments_of(nest), arrays, strict=True):
        assert array.dtype == buffer.dtype.numpy
        assert buffer.argument is not None
        address = array.ctypes.data - number_of(buffer.offset, symbols)
        if buffer.argument == len(pointers):
            pointers.append(address)
        assert pointers[buffer.argument] == address
    table = np.array([symbols[symbol] for symbol in nest.symbols], np.int64)
    if nest.symbols:
        pointers.append(table.ctypes.data)
    arguments = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
    total = 0
    for region in nest.parallel:
        total += prod(number_of(length, symbols) for length in region.lengths)
    end = total if end is None else end
    for first in range(begin, end, chunk):
        function(arguments, first, min(first + chunk, end), 0)


def number_of(x: Extent, symbols: Mapping[Symbol, int]) -> int:
    """An extent for some values of its symbols."""
    found = affine(x)
    return found.constant + sum(symbols[v] * c for v, c in found.terms.items())


class Memory:
    """Random numbers for the arguments of a nest; integers are at most `largest`, so that they may
    be indices.
    """

    def __init__(
        self, nest: Nest, seed: int, largest: int, symbols: Mapping[Symbol, int] | None = None
    ) -> None:
        symbols = symbols or {}
        generator = np.random.default_rng(seed)
        reach: dict[int, tuple[int, int]] = {}
        for buffer in arguments_of(nest):
            assert buffer.argument is not None
            low, high = reach.get(buffer.argument, (0, 0))
            first, last = _reach(buffer, symbols)
            reach[buffer.argument] = (min(low, first), max(high, last))
        self.raw = {
            argument: np.zeros(high - low + 64, np.uint8) for argument, (low, high) in reach.items()
        }
        self.arrays = []
        for buffer in arguments_of(nest):
            assert buffer.argument is not None
            start = number_of(buffer.offset, symbols) - reach[buffer.argument][0]
            view = np.ndarray(
                tuple(number_of(length, symbols) for length in buffer.shape),
                buffer.dtype.numpy,
                self.raw[buffer.argument].data,
                start,
                tuple(number_of(stride, symbols) for stride in buffer.strides),
            )
            if view.dtype.kind in "iub":
                view[...] = generator.integers(0, largest + 1, view.shape)
            else:
                view[...] = generator.uniform(-2, 2, view.shape)
            self.arrays.append(view)


def _reach(buffer: Buffer, symbols: Mapping[Symbol, int]) -> tuple[int, int]:
    """The bytes around its address that a buffer covers."""
    low = high = number_of(buffer.offset, symbols)
    for extent, distance in zip(buffer.shape, buffer.strides, strict=True):
        length, stride = number_of(extent, symbols), number_of(distance, symbols)
        low += min(0, stride * (length - 1))
        high += max(0, stride * (length - 1))
    return low, high + buffer.dtype.size
