"""Runs a loop nest as machine code, on memory made for it."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from itertools import count

import numpy as np

from ingot.compiler.forms.affine import Symbol, affine
from ingot.compiler.forms.nest.data import Buffer, Nest
from ingot.compiler.llvm.nests import nest_module
from ingot.compiler.machine.jit import compile_object, load_object

_names = count()


def arguments_of(nest: Nest) -> list[Buffer]:
    """The buffers that are no memory on the stack."""
    return [buffer for buffer in nest.buffers if buffer.argument is not None]


def run_nest(
    nest: Nest,
    arrays: Sequence[np.ndarray],
    symbols: Mapping[Symbol, int] | None = None,
    chunk: int = 1 << 62,
) -> None:
    """Runs the code of a nest on one array for each buffer in the memory of its arguments, `chunk`
    iterations of its parallel loop at a time.
    """
    symbols = symbols or {}
    name = f"test_nest_{next(_names)}"
    code = load_object(compile_object(nest_module(nest).replace("KERNEL", name)), name)
    integers = [ctypes.c_int64] * 2
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *integers, ctypes.c_int32)(code.address)
    pointers: list[int] = []
    for buffer, array in zip(arguments_of(nest), arrays, strict=True):
        assert array.dtype == buffer.dtype.numpy
        assert buffer.argument is not None
        address = array.ctypes.data - buffer.offset
        if buffer.argument == len(pointers):
            pointers.append(address)
        assert pointers[buffer.argument] == address
    table = np.array([symbols[symbol] for symbol in nest.symbols], np.int64)
    if nest.symbols:
        pointers.append(table.ctypes.data)
    arguments = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
    total = 0
    for region in nest.parallel:
        size = 1
        for length in region.lengths:
            found = affine(length)
            size *= found.constant + sum(symbols[v] * c for v, c in found.terms.items())
        total += size
    for begin in range(0, total, chunk):
        function(arguments, begin, min(begin + chunk, total), 0)


class Memory:
    """Random numbers for the arguments of a nest whose lengths are known. Integers are small, so
    that they may be indices.
    """

    def __init__(self, nest: Nest, seed: int, largest: int) -> None:
        generator = np.random.default_rng(seed)
        reach: dict[int, tuple[int, int]] = {}
        for buffer in arguments_of(nest):
            assert buffer.argument is not None
            low, high = reach.get(buffer.argument, (0, 0))
            first, last = _reach(buffer)
            reach[buffer.argument] = (min(low, first), max(high, last))
        self.raw = {
            argument: np.zeros(high - low + 64, np.uint8) for argument, (low, high) in reach.items()
        }
        self.arrays = []
        for buffer in arguments_of(nest):
            assert buffer.argument is not None
            start = buffer.offset - reach[buffer.argument][0]
            raw = self.raw[buffer.argument]
            view = np.ndarray(
                buffer.shape,
                buffer.dtype.numpy,
                raw.data,
                start,
                buffer.strides,  # type: ignore[arg-type]
            )
            if view.dtype.kind in "iub":
                view[...] = generator.integers(0, largest + 1, view.shape)
            else:
                view[...] = generator.uniform(-2, 2, view.shape)
            self.arrays.append(view)


def _reach(buffer: Buffer) -> tuple[int, int]:
    """The bytes around its address that a buffer covers."""
    low = high = buffer.offset
    for length, stride in zip(buffer.shape, buffer.strides, strict=True):
        assert isinstance(length, int)
        assert isinstance(stride, int)
        low += min(0, stride * (length - 1))
        high += max(0, stride * (length - 1))
    return low, high + buffer.dtype.size  # type: ignore[return-value]
