"""Pooling and its gradient: nests that read windows in place, several vectors of channels at once.

The loops over the taps of a window run over its elements inside the image, so padding costs
nothing. The gradient of a maximum reads a window three times while it is in L1: for its largest
element, for the number of elements that equal it, and to add its share of the cotangent to each of
them. Windows that overlap add to the same elements, so one iteration of the parallel loop has all
windows of an image, for some of its channels. It sets rows of the result to zero just before the
first window that reaches them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import inf, prod
from typing import NamedTuple

from ingot.compiler.forms.affine import Affine, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Carried, Constant, Repeated, Value
from ingot.compiler.forms.size import is_symbolic
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Lowered, kernel_of
from ingot.compiler.lower.products.register_tile import lanes_of
from ingot.graph.dtype import float32, is_floating
from ingot.graph.roles import Pooling, PoolingBackward, PoolingWindows
from ingot.tuning_products import MIN_POOLING_TASKS, POOLING_VECTORS

__all__ = ["lower_pooling", "lower_pooling_backward"]

Strides = dict[Step, tuple[int, ...]]
Point = tuple[Affine, ...]


class _Axis(NamedTuple):
    """An axis of the images, and the windows along it."""

    length: int
    windows: int  # their number
    size: int
    step: int
    padding: int

    @property
    def overruns(self) -> bool:
        """Whether the last window ends after the image."""
        return (self.windows - 1) * self.step - self.padding + self.size > self.length


class _Span(NamedTuple):
    """The taps of a window along an axis that are inside the image: `begin` up to the least of
    `ends`, counted from `start`.
    """

    start: Affine
    begin: Affine
    ends: tuple[Affine, ...]


def lower_pooling(step: Step, strides_of: Strides) -> Lowered | None:
    """The kernel of pooling; None if there is none for its dtype or lengths."""
    op = step.op
    assert isinstance(op, Pooling)
    if not _has_nest(step, strides_of):
        return None
    (x,) = step.inputs
    nest = _PoolingNest(
        op.kind, op.windows, x.shape, [(each, strides_of[each]) for each in (x, step)]
    )
    builder = nest.builder
    images, results = nest.buffers
    outer, *inner = nest.axes
    work = prod(axis.windows * axis.size for axis in inner) * outer.size * nest.channels
    with (
        builder.parallel((x.shape[0], outer.windows), work) as (image, row),
        nest.windows(inner, [nest.span(outer, affine(row))], (affine(image), affine(row))) as at,
        nest.vectors(affine(0), nest.padded_channels) as channel,
    ):
        nest.store(nest.reduced(images, at, channel), results, (*at.result, channel))
    return Lowered([kernel_of(builder.nest, (x, step))])


def lower_pooling_backward(step: Step, strides_of: Strides) -> Lowered | None:
    """The kernel of the gradient; None likewise."""
    op = step.op
    assert isinstance(op, PoolingBackward)
    if not _has_nest(step, strides_of):
        return None
    steps = (*step.inputs, step)
    nest = _PoolingNest(
        op.kind, op.windows, step.shape, [(each, strides_of[each]) for each in steps]
    )
    builder = nest.builder
    outer, *inner = nest.axes
    chunk = nest.chunk(step.shape[0])
    chunks = nest.padded_channels // chunk
    work = prod(axis.windows * axis.size for axis in nest.axes) * chunk
    with builder.parallel((step.shape[0], chunks), work) as (number, part):
        image, first = affine(number), affine(part) * chunk
        reached = min(outer.size - outer.padding, outer.length)
        nest.clear(image, affine(0), [affine(reached)], first, chunk)
        with builder.loop(0, outer.windows) as row:
            spans = [nest.span(outer, affine(row))]
            with (
                nest.windows(inner, spans, (image, affine(row))) as at,
                nest.vectors(first, chunk) as channel,
            ):
                nest.spread(at, channel)
            begin = affine(row) * outer.step + (outer.size - outer.padding)
            nest.clear(image, begin, [begin + outer.step, affine(outer.length)], first, chunk)
    return Lowered([kernel_of(builder.nest, steps)])


def _has_nest(step: Step, strides_of: Strides) -> bool:
    steps = (*step.inputs, step)
    numbers = [n for each in steps for n in (*each.shape, *strides_of[each])]
    return is_floating(step.dtype) and not any(map(is_symbolic, numbers))


class _At(NamedTuple):
    """A window: its image, its taps along each axis, and the index of its result without the
    channel.
    """

    image: Affine
    spans: list[_Span]
    result: Point


class _PoolingNest:
    """A nest under construction. Its operands are (N, ..., C), the last of them is the result."""

    def __init__(
        self,
        kind: str,
        windows: PoolingWindows,
        shape: tuple[int, ...],
        operands: Sequence[tuple[Step, tuple[int, ...]]],
    ) -> None:
        self.builder = NestBuilder()
        self.kind = kind
        self.buffers = [
            self.builder.buffer(f"%{number}", step.dtype, step.shape, strides, number, origin=step)
            for number, (step, strides) in enumerate(operands)
        ]
        lengths = shape[1:-1]
        counts = windows.counts(lengths)
        self.axes = [_Axis(*numbers) for numbers in zip(lengths, counts, *windows, strict=True)]
        self.channels = shape[-1]
        dtype = self.buffers[-1].dtype
        self.dtype = float32 if dtype.size == 2 else dtype  # of what is computed
        adjacent = all(b.strides[-1] in (0, b.dtype.size) for b in self.buffers)
        self.lanes = lanes_of(self.dtype) if adjacent and self.channels > 1 else 1
        vectors = -(-self.channels // self.lanes)
        self.count = _vectors_at_once(vectors) if self.lanes > 1 else 1
        self.padded_channels = -(-vectors // self.count) * self.count * self.lanes

    def chunk(self, images: int) -> int:
        """Channels of an iteration of the parallel loop, if it has all windows of an image."""
        least = self.count * self.lanes
        tiles = self.padded_channels // least
        wanted = min(tiles, -(-MIN_POOLING_TASKS // images))
        return least * max(size for size in range(1, tiles // wanted + 1) if tiles % size == 0)

    # Loops

    def span(self, axis: _Axis, number: Affine) -> _Span:
        """The taps of a window inside the image."""
        start = number * axis.step - axis.padding
        begin = affine(0)
        if axis.padding:  # max(0, -start)
            begin = affine(self.builder.multiple(-axis.padding, 0, start, by=1)) * -1
        ends = [affine(axis.size)]
        if axis.overruns:
            ends.append(affine(axis.length) - start)
        return _Span(start, begin, tuple(ends))

    @contextmanager
    def windows(self, axes: Sequence[_Axis], spans: list[_Span], at: Point) -> Iterator[_At]:
        """Loops over the windows along the other axes."""
        with ExitStack() as stack:
            for axis in axes:
                number = affine(stack.enter_context(self.builder.loop(0, axis.windows)))
                spans = [*spans, self.span(axis, number)]
                at = (*at, number)
            yield _At(at[0], spans, at)

    @contextmanager
    def vectors(self, first: Affine, channels: int) -> Iterator[Affine]:
        """A loop over channels, as many at a time as are computed at once."""
        end = first + channels
        with self.builder.loop(first, end, step=self.count * self.lanes) as channel:
            yield affine(channel)

    def taps(
        self,
        at: _At,
        start: Sequence[Value],
        visit: Callable[[Point, Sequence[Value]], Sequence[Value]],
    ) -> Sequence[Value]:
        """Loops over the taps of a window: `visit` is given the index of an element without its
        channel, and returns the new values of what the loops carry, which begin as `start`.
        """

        def level(outer: Sequence[Value], spans: Sequence[_Span], index: Point) -> Sequence[Value]:
            if not spans:
                return visit(index, outer)
            span, *inner = spans
            carried = [Carried(value.dtype, value) for value in outer]
            with self.builder.loop(span.begin, *span.ends, carried=carried) as tap:
                updates = level(carried, inner, (*index, span.start + tap))
                for each, update in zip(carried, updates, strict=True):
                    each.update = update
            return carried

        return level(start, at.spans, (at.image,))

    # Values: one for each vector of channels that is computed at once

    def constant(self, value: float) -> list[Value]:
        constant = Constant(self.dtype, value)
        if self.lanes == 1:
            return [constant]
        return [Repeated(self.dtype, constant, self.lanes)] * self.count

    def load(self, buffer: Buffer, index: Point) -> list[Value]:
        """Elements from an index on, in the dtype that is computed in."""
        *outer, channel = index
        words, builder = self.builder.words, self.builder
        if self.lanes > 1 and buffer.strides[-1] == 0:
            one = words.cast(builder.load(buffer, (*outer, affine(0))), self.dtype)
            return [builder.splat(one, self.lanes)] * self.count
        if self.lanes == 1:
            return [words.cast(builder.load(buffer, tuple(index)), self.dtype)]
        return [
            words.cast(
                builder.load_lanes(
                    buffer, (*outer, channel + number * self.lanes), self.lanes, self._limit()
                ),
                self.dtype,
            )
            for number in range(self.count)
        ]

    def store(self, values: Sequence[Value], buffer: Buffer, index: Point) -> None:
        """Stores elements from an index on."""
        *outer, channel = index
        for number, value in enumerate(values):
            there = (*outer, channel + number * self.lanes)
            self.builder.store(
                self.builder.words.cast(value, buffer.dtype), buffer, there, self._limit()
            )

    def _limit(self) -> int | None:
        return None if self.padded_channels == self.channels else self.channels

    # What is computed

    def reduced(self, images: Buffer, at: _At, channel: Affine) -> list[Value]:
        """The results of a window."""
        words = self.builder.words
        largest = self.kind == "max"
        combine = words.largest if largest else words.add

        def visit(index: Point, totals: Sequence[Value]) -> list[Value]:
            return list(map(combine, totals, self.load(images, (*index, channel))))

        found = self.taps(at, self.constant(-inf if largest else 0), visit)
        if largest:
            return list(found)
        return list(map(words.divide, found, self.constant(self._taps())))

    def _taps(self) -> int:
        return prod(axis.size for axis in self.axes)

    def spread(self, at: _At, channel: Affine) -> None:
        """Adds the cotangent of a window to that of its elements: of the largest ones or of all."""
        words = self.builder.words
        result = self.buffers[-1]
        given = self.load(self.buffers[0], (*at.result, channel))
        taps = self.constant(self._taps())
        ones, zeros = self.constant(1), self.constant(0)
        if self.kind == "mean":
            shares = list(map(words.divide, given, taps))

            def added(index: Point, _: Sequence[Value]) -> list[Value]:
                before = self.load(result, (*index, channel))
                self.store(list(map(words.add, before, shares)), result, (*index, channel))
                return []

            self.taps(at, [], added)
            return
        images = self.buffers[1]
        largest = self.reduced(images, at, channel)

        def hits(index: Point) -> list[Value]:
            found = self.load(images, (*index, channel))
            return list(map(words.select, map(words.equal, found, largest), ones, zeros))

        counts = self.taps(at, zeros, lambda index, sums: list(map(words.add, sums, hits(index))))
        # If the largest element is -inf, so is all of the window, padding included.
        lowest = map(words.equal, largest, self.constant(-inf))
        counts = list(map(words.select, lowest, taps, counts))
        shares = list(map(words.divide, given, counts))

        def share(index: Point, _: Sequence[Value]) -> list[Value]:
            terms = map(words.multiply, hits(index), shares)
            before = self.load(result, (*index, channel))
            self.store(list(map(words.add, before, terms)), result, (*index, channel))
            return []

        self.taps(at, [], share)

    def clear(
        self, image: Affine, begin: Affine, ends: Sequence[Affine], first: Affine, chunk: int
    ) -> None:
        """Sets some channels of the result to zero in a range of the first axis."""
        result = self.buffers[-1]
        with ExitStack() as stack:
            index = [image, affine(stack.enter_context(self.builder.loop(begin, *ends)))]
            for axis in self.axes[1:]:
                index.append(affine(stack.enter_context(self.builder.loop(0, axis.length))))
            channel = stack.enter_context(self.vectors(first, chunk))
            self.store(self.constant(0), result, (*index, channel))


def _vectors_at_once(vectors: int) -> int:
    """How many vectors of channels are computed at once: few loops, and few that are empty."""
    most = min(vectors, POOLING_VECTORS)
    return min(range(1, most + 1), key=lambda count: (-(-vectors // count) * (count + 1), -count))
