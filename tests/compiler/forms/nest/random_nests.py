"""Random loop nests for Hypothesis: what the builders of kernels make, mixed at random.

A nest goes over a domain of a few short axes. Operands lie in memory in any order, forwards and
backwards, repeat along some axes, or are read at computed indices; the last axis is cut into tiles
or not; rows are reduced, kept on the stack and read again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ingot._native import Dtype
from ingot.compiler.forms.affine import Affine, Extent, Symbol, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Carried, Constant, Nest, Value
from ingot.graph.dtype import float32, float64, int32, int64, uint8

DTYPES = (float32, float64, int32, uint8)
_FLOAT_WORDS = "add subtract multiply divide maximum minimum largest smallest".split()
_INTEGER_WORDS = "add subtract multiply maximum minimum bitwise_and bitwise_xor remainder".split()
_UNARY = "negative absolute".split()
TILE = 3


@dataclass
class Case:
    """A nest with arrays to run it on and what its symbols stand for."""

    nest: Nest
    arrays: list[np.ndarray] = field(default_factory=list)
    symbols: dict[Symbol, int] = field(default_factory=dict)

    def copies(self) -> list[np.ndarray]:
        """The arrays once more, in the same layout."""
        found = []
        for array in self.arrays:
            copy = np.empty_like(array)
            if copy.strides != array.strides:
                flipped = tuple(
                    slice(None, None, -1) if stride < 0 else slice(None) for stride in array.strides
                )
                copy = np.empty_like(array[flipped])[flipped]
            copy[...] = array
            found.append(copy)
        return found


class Maker:
    """Draws a nest."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.builder = NestBuilder()
        self.case = Case(self.builder.nest)
        self.lengths = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
        self.symbolic = draw(st.booleans())
        self.extents: tuple[Extent, ...] = self.lengths
        if self.symbolic:
            self.extents = tuple(self._symbol(length) for length in self.lengths)

    def _symbol(self, number: int) -> Symbol:
        symbol = self.builder.symbol(f"n{len(self.case.symbols)}")
        self.case.symbols[symbol] = number
        return symbol

    def operand(self, dtype: Dtype, axes: tuple[int, ...], filled: bool = True) -> Buffer:
        """A buffer along some axes of the domain, in an order and direction of its own."""
        shape = [self.lengths[axis] for axis in axes]
        order = self.draw(st.permutations(range(len(axes))))
        values = np.zeros([shape[axis] for axis in order], dtype.numpy)
        if filled:
            values[...] = _numbers(self.draw(st.integers(0, 2**32 - 1)), values.shape, dtype)
        array = values.transpose(np.argsort(order)) if axes else values
        flips = [self.draw(st.booleans()) and not self.symbolic for _ in axes]
        if axes:
            array = array[tuple(slice(None, None, -1) if flip else slice(None) for flip in flips)]
        strides: list[int | Symbol] = list(array.strides)
        if self.symbolic and self.draw(st.booleans()):
            strides = [self._symbol(stride) for stride in array.strides]
        number = len(self.case.arrays)
        self.case.arrays.append(array)
        return self.builder.buffer(
            f"x{number}",
            dtype,
            [self.extents[axis] for axis in axes],
            strides,
            number,
            self.draw(st.sampled_from((0, 64))),
        )

    def some_axes(self) -> tuple[int, ...]:
        return tuple(
            sorted(self.draw(st.sets(st.sampled_from(range(len(self.lengths))), min_size=0)))
        )

    def expression(self, values: list[Value], dtype: Dtype) -> Value:
        """A few words applied to values of one dtype and each other."""
        words = self.builder.words
        known = list(values)
        binary = _FLOAT_WORDS if dtype in (float32, float64) else _INTEGER_WORDS
        for _ in range(self.draw(st.integers(1, 4))):
            a, b = (known[self.draw(st.integers(0, len(known) - 1))] for _ in range(2))
            kind = self.draw(st.integers(0, 5))
            if kind == 0:
                known.append(getattr(words, self.draw(st.sampled_from(_UNARY)))(a))
            elif kind == 1:
                known.append(words.select(words.less(a, b), b, a))
            elif kind == 2:
                other = self.draw(st.sampled_from(DTYPES))
                small = words.maximum(words.minimum(a, words.constant(50, a)), words.constant(0, a))
                small = words.select(words.equal(small, small), small, words.constant(0, a))
                known.append(words.cast(words.cast(small, other), dtype))
            else:
                known.append(getattr(words, self.draw(st.sampled_from(binary)))(a, b))
        return known[-1]

    def gathered(self, point: tuple[Affine, ...], dtype: Dtype) -> Value:
        """An element at an index that another buffer holds."""
        builder = self.builder
        size = self.draw(st.integers(1, 5))
        axes = self.some_axes()
        index = self.operand(int64, axes)
        self.case.arrays[-1][...] = np.abs(self.case.arrays[-1]) % size
        number = len(self.case.arrays)
        seed = self.draw(st.integers(0, 2**32 - 1))
        self.case.arrays.append(_numbers(seed, (size,), dtype))
        source = builder.buffer(f"x{number}", dtype, [size], [dtype.size], number)
        found = builder.load(index, tuple(point[axis] for axis in axes))
        return builder.load(source, (builder.checked(found, size),))


def _numbers(seed: int, shape: tuple[int, ...], dtype: Dtype) -> np.ndarray:
    generator = np.random.default_rng(seed)
    if dtype in (float32, float64):
        return generator.uniform(-4, 4, shape).astype(dtype.numpy)
    return generator.integers(0, 100, shape).astype(dtype.numpy)


def _element(maker: Maker, point: tuple[Affine, ...], dtype: Dtype, reads: list[Any]) -> Value:
    builder = maker.builder
    values: list[Value] = [
        builder.load(buffer, tuple(point[axis] for axis in axes)) for buffer, axes in reads
    ]
    values.append(Constant(dtype, 3))
    if dtype is int32:
        position = affine(5)
        for number, at in enumerate(point):
            position = position + at * (7 * number + 1)
        values.append(builder.position(position, dtype))
    if maker.draw(st.booleans()):
        values.append(maker.gathered(point, dtype))
    return maker.expression(values, dtype)


@st.composite
def maps(draw: Any) -> Case:
    """Every element by itself, the last axis in one or in tiles."""
    maker = Maker(draw)
    builder, dtype = maker.builder, draw(st.sampled_from(DTYPES))
    every = tuple(range(len(maker.lengths)))
    reads = [(maker.operand(dtype, axes), axes) for axes in (maker.some_axes(), every)]
    out = maker.operand(dtype, every, filled=False)
    *outer, last = maker.extents
    if draw(st.booleans()) and not maker.symbolic:
        tiles = -(-maker.lengths[-1] // TILE)
        with builder.parallel((*outer, tiles)) as (*indices, tile):
            first = affine(tile) * TILE
            with builder.loop(first, first + TILE, last, kind="vector") as inner:
                point = tuple(map(affine, (*indices, inner)))
                builder.store(_element(maker, point, dtype, reads), out, point)
    else:
        with builder.parallel(outer) as indices, builder.loop(0, last, kind="vector") as inner:
            point = tuple(map(affine, (*indices, inner)))
            value = _element(maker, point, dtype, reads)
            builder.store(value, out, point)
    return maker.case


@st.composite
def rows(draw: Any, steps: tuple[int, ...] = (1, 2, 3)) -> Case:
    """Rows that are reduced, kept on the stack, and read again with what they were reduced to."""
    maker = Maker(draw)
    maker.lengths = maker.lengths[-2:]
    maker.extents = maker.extents[-2:]
    builder, dtype = maker.builder, draw(st.sampled_from(DTYPES))
    words = builder.words
    every = tuple(range(len(maker.lengths)))
    reads = [(maker.operand(dtype, axes), axes) for axes in (maker.some_axes(), every)]
    out = maker.operand(dtype, every, filled=False)
    kept = builder.stack("row", dtype, maker.lengths[-1:]) if not maker.symbolic else None
    *outer, last = maker.extents
    word, start = draw(st.sampled_from((("add", 0), ("largest", 0), ("multiply", 1))))
    step = draw(st.sampled_from(steps))
    with builder.parallel(outer) as indices:
        total = Carried(dtype, Constant(dtype, start))
        with builder.loop(0, last, step=step, carried=[total]) as inner:
            point = tuple(map(affine, (*indices, inner)))
            value = _element(maker, point, dtype, reads)
            total.update = getattr(words, word)(total, value)
            if kept is not None:
                builder.store(value, kept, (affine(inner),))
        with builder.loop(0, last, step=step, kind="vector") as inner:
            point = tuple(map(affine, (*indices, inner)))
            again = total if kept is None else builder.load(kept, (affine(inner),))
            builder.store(words.add(again, total), out, point)
    return maker.case


@st.composite
def blocks(draw: Any) -> Case:
    """Steps of several elements at a time, and the rest one by one; guarded updates."""
    maker = Maker(draw)
    maker.lengths, maker.extents = maker.lengths[-1:], maker.extents[-1:]
    builder, dtype = maker.builder, draw(st.sampled_from(DTYPES))
    source, out = maker.operand(dtype, (0,)), maker.operand(dtype, (0,), filled=False)
    by = draw(st.integers(2, 3))
    with builder.parallel(()):
        whole = builder.multiple(0, maker.extents[0], by=by)
        with (
            builder.loop(0, affine(whole), step=by) as first,
            builder.loop(0, by, kind="unroll") as number,
        ):
            at = (affine(first) + number,)
            builder.store(builder.load(source, at), out, at)
        with builder.loop(affine(whole), maker.extents[0]) as one:
            value = builder.load(source, (affine(one),))
            position = builder.position(affine(one), int64)
            found = builder.words.add(position, builder.words.constant(0, position))
            with builder.when(found, 1, maker.extents[0]):
                builder.store(builder.words.add(value, value), out, (found,))
    return maker.case


def any_nest() -> st.SearchStrategy[Case]:
    """Any of these."""
    return st.one_of(maps(), rows(), blocks())


__all__ = ["Case", "any_nest", "blocks", "maps", "rows"]
