"""Builders of loop nests.

The `emit` rules of ops are given a `Words`, which has one method for each word of the kernel
vocabulary; each appends a statement to the innermost open body and returns its value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ingot._native import Dtype
from ingot.compiler.forms.affine import Affine, Extent, Index, Symbol, affine, extent
from ingot.compiler.forms.nest.data import (
    Apart,
    Apply,
    Body,
    Buffer,
    Bundle,
    Carried,
    Checked,
    Constant,
    Joined,
    Lanes,
    Load,
    Loop,
    Mask,
    Multiple,
    Nest,
    Parallel,
    Position,
    Prefetch,
    Repeated,
    Splat,
    Split,
    Store,
    Value,
    When,
)
from ingot.compiler.forms.nest.words import ALIKE, DTYPES, OWN, RANKS, result_dtype
from ingot.compiler.forms.size import is_symbolic
from ingot.graph.dtype import (
    bfloat16,
    bool_,
    float16,
    float32,
    int64,
    is_inexact,
)
from ingot.graph.shape import contiguous

__all__ = ["NestBuilder", "Words", "repeated"]


class Words:
    """The kernel vocabulary as methods that append statements to the open body of a builder."""

    def __init__(self, builder: NestBuilder) -> None:
        self._builder = builder

    def constant(self, value: complex | bool, like: Value) -> Value:
        """A constant of the same dtype as `like`."""
        return self.constant_of(value, like.dtype)

    def constant_of(self, value: Any, dtype: Dtype) -> Value:
        """A constant of a dtype; `value` may be symbolic."""
        if not is_symbolic(value):
            return Constant(dtype, value)
        if is_inexact(dtype) or dtype is bool_:
            return self.cast(Position(int64, affine(value)), dtype)
        return Position(dtype, affine(value))

    def dtype(self, x: Value) -> Dtype:
        """The dtype of a value."""
        return x.dtype

    def cast(self, x: Value, dtype: Dtype) -> Value:
        """A value cast to a dtype; the value itself if it already has that dtype."""
        if x.dtype is dtype:
            return x
        return self._builder.apply(Apply(dtype, "cast", (x,), dtype))

    def taken_for(self, x: Value, dtype: Dtype) -> Value:
        """Reinterprets a half-precision value as the float32 it was computed in, or such a float32
        as a half-precision value that is yet to be rounded. No instruction is emitted.
        """
        return (
            x if x.dtype is dtype else self._builder.apply(Apply(dtype, "taken_for", (x,), dtype))
        )

    def represented(self, x: Value, dtype: Dtype) -> Value:
        """A float32 that a half type represents exactly, as that type. No instruction is
        emitted.
        """
        if x.dtype is dtype:
            return x
        return self._builder.apply(Apply(dtype, "represented", (x,), dtype))

    def rounded(self, x: Value) -> Value:
        """A half-precision value, which is computed in float32, rounded to the precision of its
        dtype.
        """
        if x.dtype is not float16 and x.dtype is not bfloat16:
            return x
        return self._builder.apply(Apply(x.dtype, "rounded", (x,)))

    def lookup(self, x: Value, table: tuple[float, ...]) -> Value:
        """Looks up the lowest four bits of each value in a table of sixteen float32."""
        return self._builder.apply(Apply(float32, "lookup", (x,), table))

    def rank(self, x: Value, order: str) -> Value:
        """The rank of a floating-point number, by `order` "largest" or "smallest"."""
        return self._builder.apply(Apply(RANKS[x.dtype], "rank", (x,), order))

    def from_rank(self, x: Value, dtype: Dtype, order: str) -> Value:
        """The number of a dtype that has a rank."""
        return self._builder.apply(Apply(dtype, "from_rank", (x,), (dtype, order)))

    def rotate_left(self, x: Value, count: int) -> Value:
        """Rotates the bits of a value to the left."""
        return self._builder.apply(Apply(x.dtype, "rotate_left", (x,), count))

    def absolute(self, x: Value) -> Value:
        """The absolute value."""
        return self._builder.apply(Apply(result_dtype("absolute", (x,)), "absolute", (x,)))

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """`a` where the condition holds, else `b`."""
        return self._builder.apply(Apply(a.dtype, "select", (condition, a, b)))

    # All other words take nothing but values; their methods are generated below.
    def __getattr__(self, word: str) -> Any:
        raise AttributeError(f"the kernel vocabulary has no word {word}")


def _word(name: str, dtype: Dtype | None) -> Any:
    def word(self: Words, *operands: Value) -> Value:
        return self._builder.apply(Apply(dtype or operands[0].dtype, name, operands))

    word.__name__ = name
    return word


for _name in ALIKE:
    setattr(Words, _name, _word(_name, None))
for _name, _dtype in (*DTYPES.items(), *OWN.items()):
    setattr(Words, _name, _word(_name, _dtype))


class NestBuilder:
    """A nest under construction: statements are appended to the innermost open body."""

    def __init__(self) -> None:
        self.nest = Nest()
        self.body: Body = []
        self.words = Words(self)

    # Memory

    def buffer(
        self,
        name: str,
        dtype: Dtype,
        shape: Sequence[Extent],
        strides: Sequence[Extent],
        argument: int | None,
        offset: Extent = 0,
        origin: Any = None,
    ) -> Buffer:
        """Declares memory that is passed to the kernel, or, without an `argument`, lives on its
        stack.
        """
        lengths, distances = tuple(map(extent, shape)), tuple(map(extent, strides))
        found = Buffer(name, dtype, lengths, distances, argument, extent(offset), origin)
        self.nest.buffers.append(found)
        return found

    def stack(self, name: str, dtype: Dtype, shape: Sequence[int], origin: Any = None) -> Buffer:
        """Declares a row-major buffer on the stack."""
        return self.buffer(name, dtype, shape, contiguous(shape, dtype.size), None, origin=origin)

    def row_major(
        self, name: str, dtype: Dtype, shape: Sequence[int], argument: int, offset: int
    ) -> Buffer:
        """Declares a row-major buffer in the memory of an argument."""
        strides = contiguous(shape, dtype.size)
        return self.buffer(name, dtype, shape, strides, argument, offset)

    def symbol(self, name: str) -> Symbol:
        """Declares a number that is passed to the kernel at each call."""
        found = Symbol(name)
        self.nest.symbols.append(found)
        return found

    # Statements

    def apply(self, value: Apply) -> Apply:
        """Appends the application of a word. Elements beside bundles are broadcast."""
        operands = value.operands
        if len(operands) > 1:
            lanes = max([x.lanes for x in operands])
            if lanes > 1:
                value.operands = tuple([self.in_lanes(x, lanes) for x in operands])
                value.lanes = lanes
        self.body.append(value)
        return value

    def in_lanes(self, x: Value, lanes: int) -> Value:
        """An element in all lanes of a bundle; a bundle as it is."""
        if x.lanes > 1 or lanes == 1:
            return x
        return (
            repeated(x.dtype, x.value, lanes) if isinstance(x, Constant) else self.splat(x, lanes)
        )

    def load(self, buffer: Buffer, index: Sequence[Affine | Value], ahead: int = 0) -> Load:
        """Loads one element."""
        found = Load(buffer.dtype, buffer, tuple(index), ahead=ahead)
        self.body.append(found)
        return found

    def store(
        self,
        value: Value,
        buffer: Buffer,
        index: Sequence[Affine | Value],
        limit: Extent | None = None,
        nontemporal: bool = False,
    ) -> None:
        """Stores an element, or those lanes of a bundle whose index is below the limit."""
        store = Store(buffer, tuple(index), value, _limit(limit))
        store.nontemporal = nontemporal
        self.body.append(store)

    def prefetch(self, buffer: Buffer, index: Sequence[Affine]) -> None:
        """Prefetches the cache line of an element, which may lie past the end of the buffer."""
        self.body.append(Prefetch(buffer, tuple(index)))

    def load_lanes(
        self,
        buffer: Buffer,
        index: Sequence[Affine | Value],
        lanes: int,
        limit: Extent | None = None,
        ahead: int = 0,
    ) -> Load:
        """Loads adjacent elements along the last axis; lanes at or beyond the limit are 0."""
        found = Load(buffer.dtype, buffer, tuple(index), lanes, _limit(limit), ahead)
        self.body.append(found)
        return found

    def splat(self, value: Value, lanes: int) -> Splat:
        """Broadcasts an element to all lanes, or each lane of a bundle to adjacent lanes."""
        found = Splat(value.dtype, value, lanes)
        self.body.append(found)
        return found

    def bundle(self, buffer: Buffer) -> Bundle:
        """All elements of a stack buffer, as a bundle."""
        found = Bundle(buffer.dtype, buffer)
        self.body.append(found)
        return found

    def some_lanes(self, value: Value, first: int, lanes: int, stride: int = 1) -> Lanes:
        """Every `stride`-th lane of a bundle, from `first` on."""
        picks = tuple(range(first, first + lanes * stride, stride))
        return self.picked_lanes((value,), picks)

    def picked_lanes(self, values: tuple[Value, ...], picks: tuple[int, ...]) -> Lanes:
        """Lanes of one or two bundles, counted through both."""
        found = Lanes(values[0].dtype, values, picks)
        self.body.append(found)
        return found

    def fold_lanes(
        self, value: Value, combine: Callable[[Value, Value], Value], lanes: int = 1
    ) -> Value:
        """Combines lanes of a bundle, lower halves with upper halves, until `lanes` are left."""
        while value.lanes > lanes:
            half = value.lanes // 2
            low, high = (self.some_lanes(value, first, half) for first in (0, half))
            value = combine(low, high)
        return value

    def fold_each(
        self, values: Sequence[Value], combine: Callable[[Value, Value], Value]
    ) -> list[Value]:
        """What `fold_lanes` makes of each of several bundles, in the same order of combining, but
        with fewer instructions: halves of two bundles share one.
        """
        if len(values) & (len(values) - 1):  # not a power of two
            some = 1 << (len(values).bit_length() - 1)
            first, rest = (self.fold_each(each, combine) for each in (values[:some], values[some:]))
            return [*first, *rest]
        return [
            self.some_lanes(each, at, 1) if each.lanes > 1 else each
            for each in self.fold_together(values, combine)
            for at in range(each.lanes)
        ]

    def fold_together(
        self, values: Sequence[Value], combine: Callable[[Value, Value], Value]
    ) -> list[Value]:
        """The results of `fold_each` as the lanes of bundles. The number of values is a power of
        two.
        """
        bundles, width = list(values), values[0].lanes  # width: lanes of what is one value
        while width > 1:
            width //= 2
            bundles = [
                combine(*[self._halves(bundles[at : at + 2], width, half) for half in (0, 1)])
                for at in range(0, len(bundles), 2)
            ]
        return bundles

    def _halves(self, bundles: Sequence[Value], width: int, half: int) -> Lanes:
        """The first or second halves, of a width, of all values in some bundles."""
        lanes = range(half * width, sum(each.lanes for each in bundles), 2 * width)
        picks = tuple(first + at for first in lanes for at in range(width))
        return self.picked_lanes(tuple(bundles), picks)

    def position(self, position: Affine, dtype: Dtype) -> Position:
        """The value of an affine expression."""
        return Position(dtype, position)

    def checked(self, value: Value, bound: Extent) -> Checked:
        """A value that an earlier step has checked to be in 0..bound."""
        return Checked(int64, value, extent(bound))

    # Loops

    @contextmanager
    def parallel(
        self, lengths: Sequence[Extent], work: Extent = 1, kind: str = "for", lanes: int = 0
    ) -> Iterator[tuple[Index, ...]]:
        """Opens a parallel loop; without lengths, it has a single iteration."""
        indices = tuple(Index() for _ in lengths)
        loop = Parallel(indices, tuple(map(extent, lengths)), extent(work), kind=kind, lanes=lanes)
        self.nest.parallel.append(loop)
        outside, self.body = self.body, loop.body
        yield indices
        self.body = outside

    @contextmanager
    def loop(
        self,
        begin: Extent,
        *ends: Extent,
        step: int = 1,
        kind: str = "for",
        lanes: int = 0,
        carried: Sequence[Carried] = (),
        copies: int = 0,
    ) -> Iterator[Index]:
        """Opens a loop from `begin` to the least of `ends`. The body must set `update` of each
        carried value.
        """
        index = Index()
        bounds = tuple(affine(end) for end in ends)
        loop = Loop(index, affine(begin), bounds, step, kind, lanes, list(carried), copies)
        self.body.append(loop)
        outside, self.body = self.body, loop.body
        yield index
        self.body = outside

    def multiple(self, base: Extent, *ends: Extent, by: int) -> Index:
        """The end of the whole steps of `by` from `base` up to the least of `ends`."""
        index = Index()
        bounds = tuple(affine(end) for end in ends)
        self.body.append(Multiple(index, affine(base), bounds, by))
        return index

    def joined(self, parts: Sequence[Checked], lengths: Sequence[Extent]) -> Joined:
        """The row-major linear index of an element, from its indices along the axes."""
        found = Joined(int64, tuple(parts), tuple(map(extent, lengths)))
        self.body.append(found)
        return found

    def split(self, number: Extent | Index, lengths: Sequence[Extent]) -> tuple[Index, ...]:
        """The indices along the axes of the element with a row-major linear index."""
        indices = tuple(Index() for _ in lengths)
        self.body.append(Split(indices, affine(number), tuple(map(extent, lengths))))
        return indices

    @contextmanager
    def apart(self, one: Buffer, other: Buffer) -> Iterator[None]:
        """Opens a body that runs unless the two buffers are the same memory."""
        found = Apart((one, other))
        self.body.append(found)
        outside, self.body = self.body, found.body
        yield
        self.body = outside

    @contextmanager
    def mask(self, index: Index, *ends: Extent) -> Iterator[Mask]:
        """Opens a body that runs where an index is below the least of `ends`; it appends to
        `results`.
        """
        found = Mask(index, tuple(affine(end) for end in ends))
        self.body.append(found)
        outside, self.body = self.body, found.body
        yield found
        self.body = outside

    @contextmanager
    def when(self, value: Value, low: Extent, high: Extent) -> Iterator[None]:
        """Opens a body that runs where low <= value < high."""
        found = When(value, affine(low), affine(high))
        self.body.append(found)
        outside, self.body = self.body, found.body
        yield
        self.body = outside


def repeated(dtype: Dtype, value: complex, lanes: int) -> Constant | Repeated:
    """A constant in all lanes of a bundle; an element if there is one lane."""
    number = Constant(dtype, value)
    return number if lanes == 1 else Repeated(dtype, number, lanes)


def _limit(limit: Extent | None) -> Affine | None:
    return None if limit is None else affine(limit)
