"""How a nest combines the elements of a reduction, in the order of `reduction_order.py`.

Input: a builder, the point of a row, and a function that computes the elements at a point. Output:
loops that leave the row's results as values. The lanes of that order are vector lanes: an inner
loop computes the elements of a bundle, and whole bundles are combined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import zip_longest

from ingot.compiler.forms.affine import Affine, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import (
    Apply,
    Carried,
    Chosen,
    Constant,
    Loop,
    Repeated,
    Value,
)
from ingot.compiler.forms.nest.traversal import statements
from ingot.compiler.forms.nest.words import instructions, is_function
from ingot.compiler.forms.size import Number, hint_of, is_symbolic
from ingot.compiler.lower.group import GroupBuilder, Point
from ingot.compiler.lower.reductions.accumulator import Accumulator
from ingot.compiler.lower.reductions.flattened import Flattened
from ingot.compiler.lower.reductions.packing import is_stepped, packed_block, picked
from ingot.graph.dtype import complex64
from ingot.graph.numerics.reduction_order import BLOCK, LANES, PART
from ingot.graph.roles import Gather, Map
from ingot.graph.shape import size_of
from ingot.runtime.processor import vector_bytes, vector_registers
from ingot.tuning import (
    MAX_UNROLLED_BYTES,
    MAX_UNROLLED_INSTRUCTIONS,
    MAX_UNROLLED_LOADS,
    MAX_UNROLLED_ROW,
    UNROLLED_COPIES,
)

__all__ = [
    "HALF_VECTOR",
    "Elements",
    "Rows",
    "calls_functions",
    "is_provably_zero",
    "is_written_out",
    "lane_count",
]

HALF_VECTOR = 8  # elements

# Computes what is reduced at a point, one element per reduction, given also the position along the
# inner axes.
Elements = Callable[[Point, Affine], list[Value]]


def is_written_out(builder: GroupBuilder, length: int) -> bool:
    """Whether to unroll rows completely, so that LLVM vectorises across them: if they are short; if
    they are longer but do not fill vectors, and long functions would be computed for empty lanes,
    or elements gathered; and if they are complex, because the neutral elements of empty lanes turn
    infinities into NaN. Rows of unknown length cannot be unrolled.
    """
    if is_symbolic(length):
        return False
    if length <= HALF_VECTOR:
        return True
    if any(step.dtype is complex64 for step in builder.reductions):
        return length < LANES
    if length < LANES and length % (2 * HALF_VECTOR) != 0 and _gathers_elements(builder):
        return True
    return length <= MAX_UNROLLED_ROW and length % HALF_VECTOR != 0 and calls_functions(builder) > 0


def _gathers_elements(builder: GroupBuilder) -> bool:
    """Whether each element of a row is gathered by an index of its own, which LLVM does one by one
    in masked lanes, with a branch for each. Measured on one thread, ns per element of a sum, in
    masked lanes and written out: rows of 10 elements 1.84 and 0.53, of 24 1.11 and 0.52.
    """
    elements = size_of(builder.group.domain)
    return any(
        isinstance(step.op, Gather) and size_of(index.shape) == elements
        for step in builder.group.steps
        for index in step.inputs[1:]
    )


def calls_functions(builder: GroupBuilder) -> int:
    """How many functions of many instructions each element is computed by, rather than each row."""
    scratch, elements = NestBuilder(), size_of(builder.group.domain)
    for step in builder.group.steps:
        if isinstance(step.op, Map) and size_of(step.shape) == elements:
            step.op.emit(scratch.words, *[Constant(source.dtype, 0) for source in step.inputs])
    return sum(is_function(each) for each in scratch.body if isinstance(each, Apply))


def lane_count(length: int, most: int = LANES) -> int:
    """The number of lanes that have elements, a power of two. If the length is symbolic, some lanes
    may have none, which has no effect.
    """
    if is_symbolic(length):
        return LANES if hint_of(length) > HALF_VECTOR or length > HALF_VECTOR else HALF_VECTOR
    count = 1
    while count < most and count < length:
        count *= 2
    return count


def _orderless_lanes(length: Number, accumulated: int, read: int) -> int:
    """The maximum number of lanes where the order is free, if each has some elements. They have so
    many bytes where they are combined, in registers, and where they are read.
    """
    if is_symbolic(length):
        return LANES
    registers = vector_registers() * vector_bytes()
    most = max(LANES, min(registers // (2 * accumulated), registers // (4 * read)))
    while most > LANES and length < 4 * most:
        most //= 2
    return most


def is_provably_zero(x: Number) -> bool:
    """Whether a number is 0 for all shapes."""
    return type(x) is int and x == 0


class Rows:
    """Reduces rows: all elements of the reduced axes at one point of the others."""

    def __init__(
        self,
        builder: GroupBuilder,
        accumulators: Sequence[Accumulator],
        elements: Elements,
        is_only_pass: bool = True,
    ) -> None:
        self.builder = builder
        self.accumulators = list(accumulators)
        self.elements = elements
        domain = builder.domain
        self.inner = domain.inner
        self.outer = tuple(axis for axis in domain.reduced if axis not in domain.inner)
        self.length = domain.size(self.inner)
        # where the order is free, few large blocks are best, or many short rows
        in_order = self.in_order = any(x.op.depends_on_order() for x in self.accumulators)
        rows = 1 if is_symbolic(self.length) else max(1, BLOCK * PART // max(1, self.length))
        self.block, self.in_part = (BLOCK, PART) if in_order else (BLOCK * PART, rows)
        self.is_long = self.length > self.block
        self.in_row = -(-self.length // self.block) if self.is_long else 1  # blocks in a row
        self.blocks = self.in_row * domain.size(self.outer)
        most = LANES
        if not in_order:
            accumulated, read = (
                max((x.dtype.size for x in values), default=1)
                for values in (self.accumulators, builder.reads)
            )
            most = _orderless_lanes(self.length, accumulated, read)
        self.count = lane_count(self.length, most)
        self.in_lanes = all(x.in_lanes for x in self.accumulators)
        self.is_short = self.in_lanes and is_written_out(builder, self.length)
        if self.in_lanes and not self.is_short:
            self.lanes = [
                builder.stack(f"lanes{len(builder.nest.buffers)}", x.dtype, (self.count,))
                for x in self.accumulators
            ]
        self.flat: Flattened | None = None
        if is_only_pass and self.is_long and self.in_lanes:
            self.flat = Flattened.of(builder, self.inner, self.outer, self.block, self.count)

    @property
    def parts(self) -> int:
        """The number of groups of blocks whose totals are combined at the end."""
        return -(-self.blocks // self.in_part)

    def row(self, point: Point) -> list[Value]:
        """The totals of a whole row."""
        with self._flattened(point):
            return self._row(point)

    def _row(self, point: Point) -> list[Value]:
        if self._is_one_run():
            return self._run(point)
        if self.blocks <= self.in_part:
            return self._range(point, affine(0), (affine(self.blocks),))
        totals = self._carried()
        with self.builder.loop(0, self.parts, carried=totals) as part:
            self._join(totals, self._part(point, affine(part)))
        return list(totals)

    def _flattened(self, point: Point) -> AbstractContextManager[None]:
        return nullcontext() if self.flat is None else self.flat.rows(point)

    def _is_one_run(self) -> bool:
        """Whether rows are several blocks along one axis, of known length."""
        if is_symbolic(self.length) or not self.is_long:
            return False
        return self.in_lanes and not self.outer and len(self.inner) == 1

    def _run(self, point: Point) -> list[Value]:
        """The totals of a row whose last block, which may be shorter, has code of its own: that of
        the others then needs no masks.
        """
        whole = self.length // self.block
        parts = whole // self.in_part if self.blocks > self.in_part else 0
        carried = self._carried()
        if parts:
            with self.builder.loop(0, parts, carried=carried, copies=1) as part:
                first = affine(part) * self.in_part
                self._join(carried, self._whole_blocks(point, first, self.in_part))
        done = parts * self.in_part
        if done == self.blocks:
            return list(carried)
        last = self._whole_blocks(point, affine(done), whole - done)
        if whole < self.blocks:
            last = self._added(last, self._last_block(point, whole))
        return self._combined(carried, last) if parts else last

    def _whole_blocks(self, point: Point, first: Affine, count: int) -> list[Value]:
        """The totals of some blocks, none of which is shorter than others."""
        carried = self._carried()
        in_block = self.block // self.count
        with self.builder.loop(0, count, carried=carried, copies=1) as block:
            number = first + block
            with self._packed(point, number):
                found = self._bundles(point, number * in_block, (affine(in_block),))
            added = self._added(carried, self._all_folded(found))
            for total, value in zip(carried, added, strict=True):
                total.update = value
        return list(carried)

    def _last_block(self, point: Point, number: int) -> list[Value]:
        """The results of a block that is shorter than the others: whole bundles, then the rest in
        masked lanes.
        """
        whole, rest = divmod(self.length - number * self.block, self.count)
        running: Sequence[Value] = ()
        with self._packed(point, affine(number)):
            if whole:
                first = affine(number * (self.block // self.count))
                running = self._bundles(point, first, (affine(whole),))
            rests = self._rest(point, affine(self.length - rest), [affine(rest)]) if rest else []
        return self._all_folded(running, rests)

    def _bundles(self, point: Point, first: Affine, ends: Sequence[Affine]) -> list[Carried]:
        """The lanes of whole bundles, combined. Loops of short bodies are unrolled: their overhead
        matters.
        """
        builder, carried = self.builder, self._lanes_from_start()
        with builder.loop(0, *ends, carried=carried, copies=UNROLLED_COPIES) as step:
            self._fill(point, first + step)
            self._take(carried)
        loop = builder.body[-1]
        assert isinstance(loop, Loop)
        words = [each for each in statements(loop.body) if isinstance(each, Apply)]
        # LLVM mixes the loads of copies, and prefetchers lose track of long stretches of those
        is_wide = any(self.count * x.dtype.size > MAX_UNROLLED_BYTES for x in self.accumulators)
        is_wide |= any(self.count * x.dtype.size > MAX_UNROLLED_LOADS for x in builder.reads)
        is_wide |= self.count > LANES and any(
            is_stepped(builder, operand, self.inner, self.count) for operand in builder.reads
        )
        if is_wide or sum(map(instructions, words)) > MAX_UNROLLED_INSTRUCTIONS:
            loop.copies = 1
        return carried

    def _combined(self, totals: Sequence[Value], more: Sequence[Value]) -> list[Value]:
        parts = zip(self.accumulators, totals, more, strict=True)
        return [x.combine(self.builder, total, each) for x, total, each in parts]

    def _added(self, totals: Sequence[Value], found: Sequence[Value]) -> list[Value]:
        """Totals and the results of one more block."""
        pairs = zip(self.accumulators, found, strict=True)
        return self._combined(totals, [x.widened(self.builder, each) for x, each in pairs])

    def part(self, point: Point, part: Affine) -> list[Value]:
        """The totals of a group of blocks."""
        with self._flattened(point):
            return self._part(point, part)

    def _part(self, point: Point, part: Affine) -> list[Value]:
        first = part * self.in_part
        return self._range(point, first, (first + self.in_part, affine(self.blocks)))

    def _carried(self) -> list[Carried]:
        return [Carried(x.total, x.start(x.total)) for x in self.accumulators]

    def _join(self, totals: list[Carried], more: list[Value]) -> None:
        for x, total, each in zip(self.accumulators, totals, more, strict=True):
            total.update = x.combine(self.builder, total, each)

    def _range(self, point: Point, first: Affine, ends: tuple[Affine, ...]) -> list[Value]:
        """The totals of a range of blocks."""
        if self.blocks == 1:  # the total of a single block needs no dtype of totals
            return self._block(point, affine(0))
        totals = self._carried()
        with self.builder.loop(first, *ends, carried=totals, copies=1) as number:
            found = self._block(point, affine(number))
            widened = [
                x.widened(self.builder, each)
                for x, each in zip(self.accumulators, found, strict=True)
            ]
            self._join(totals, widened)
        return list(totals)

    def _block(self, point: Point, number: Affine) -> list[Value]:
        """The results of one block."""
        builder = self.builder
        if self.outer:
            lengths = [builder.domain.lengths[axis] for axis in self.outer]
            if self.is_long:
                *above, inside = builder.split(number, [*lengths, self.in_row])
                number = affine(inside)
                moved = list(point)
                for axis, index in zip(self.outer, above, strict=True):
                    moved[axis] = affine(index)
                point = tuple(moved)
            else:
                point, number = builder.at(point, self.outer, number), affine(0)
        if self.is_short:
            return self._written_out(point)
        if not self.in_lanes:
            return self._in_order(point, number)
        with self._packed(point, number):
            return self._by_lanes(point, number)

    def _packed(self, point: Point, number: Affine) -> AbstractContextManager[None]:
        """Has a block read from copies of what lanes would read one by one."""
        if self.flat is not None:
            return self.flat.in_block(point, number)
        return packed_block(
            self.builder, self.inner, self.length, self.block, self.count, point, number
        )

    def _in_order(self, point: Point, number: Affine) -> list[Value]:
        """A block whose elements are combined sequentially."""
        builder, first = self.builder, number * self.block
        running = [Carried(x.dtype, x.start(x.dtype)) for x in self.accumulators]
        ends = (first + self.block, affine(self.length))
        with builder.loop(first, *ends, carried=running) as index:
            found = self.elements(builder.at(point, self.inner, affine(index)), affine(index))
            for x, total, each in zip(self.accumulators, running, found, strict=True):
                total.update = x.combine(builder, total, x.added(builder, each))
        return list(running)

    def _written_out(self, point: Point) -> list[Value]:
        """A short row, unrolled: each element is a lane, and missing lanes are skipped. Starting
        from zero matters only for the sign of a zero sum, so once for all lanes is enough.
        """
        builder = self.builder
        rows = [
            self.elements(builder.at(point, self.inner, affine(at)), affine(at))
            for at in range(self.length)
        ]
        found = []
        for x, *lanes in zip(self.accumulators, *rows, strict=True):
            values = [x.added(builder, each) for each in lanes]
            count = self.count
            while count > 1:
                count //= 2
                pairs = zip(values[:count], values[count:], strict=False)
                joined = [x.combine(builder, low, high) for low, high in pairs]
                values = joined + values[len(joined) : count]
            found.append(x.combine(builder, x.start(x.dtype), values[0]))
        return found

    def _by_lanes(self, point: Point, number: Affine) -> list[Value]:
        """A block by lanes: whole bundles, then the remainder of the last block."""
        whole = self.length // self.count
        in_block = self.block // self.count
        running: list[Value] = [self._repeated(x) for x in self.accumulators]
        if not is_provably_zero(whole):
            ends: tuple[Affine, ...] = (affine(in_block if self.is_long else whole),)
            if self.is_long and not is_provably_zero(self.length % self.block):
                ends = (affine(in_block), affine(whole) - number * in_block)
            running = list(self._bundles(point, number * in_block, ends))
        in_last = self.length - (self.in_row - 1) * self.block
        inside = in_last // self.count
        rest = in_last - inside * self.count
        if not is_provably_zero(rest):
            limits = [affine(rest)]
            if self.is_long:  # `rest` in the last block, and at most 0 in the others
                limits.append((number - (self.in_row - 1)) * self.count + rest)
            rests = self._rest(point, number * self.block + inside * self.count, limits)
            return self._all_folded(running, rests)
        return self._all_folded(running)

    def _repeated(self, x: Accumulator) -> Repeated:
        return Repeated(x.dtype, x.start(x.dtype), self.count)

    def _lanes_from_start(self) -> list[Carried]:
        return [Carried(x.dtype, self._repeated(x)) for x in self.accumulators]

    def _all_folded(self, bundles: Sequence[Value], rests: Sequence[Value] = ()) -> list[Value]:
        """The totals of bundles, of rests, or of both."""
        several = zip_longest(self.accumulators, bundles, rests)
        return [self._folded(x, bundle, rest) for x, bundle, rest in several]

    def _fill(self, point: Point, bundle: Affine) -> None:
        """Computes the elements of a whole bundle, numbered along the inner axes."""
        with picked(self.builder, self.inner, point, bundle * self.count, self.count):
            self._fill_lanes(point, bundle)

    def _fill_lanes(self, point: Point, bundle: Affine) -> None:
        builder, last = self.builder, self.inner[-1]
        if self.flat is not None:
            begin = bundle * self.count
            with (
                self.flat.in_bundle(point, begin),
                builder.loop(0, self.count, kind="lanes", lanes=builder.lanes(last)) as lane,
            ):
                self._put(self.flat.point(point, begin + lane), begin + lane, affine(lane))
            return
        lengths = [builder.domain.lengths[axis] for axis in self.inner]
        aligned = len(self.inner) > 1 and lengths[-1] % self.count == 0
        if aligned:  # the lanes are adjacent along the last axis
            *above, inside = builder.split(bundle, [*lengths[:-1], lengths[-1] // self.count])
            moved = list(point)
            for axis, index in zip(self.inner, above, strict=False):
                moved[axis] = affine(index)
            point = tuple(moved)
        with builder.loop(0, self.count, kind="lanes", lanes=builder.lanes(last)) as lane:
            at = bundle * self.count + lane
            if aligned:
                moved = list(point)
                moved[last] = affine(inside) * self.count + lane
                self._put(tuple(moved), at, affine(lane))
            else:
                self._put(builder.at(point, self.inner, at), at, affine(lane))

    def _rest(self, point: Point, first: Affine, limits: Sequence[Affine]) -> list[Value]:
        """Computes the remainder of the last block after its whole bundles, in as few lanes as hold
        it: those beyond it would wait for memory that nothing has read yet. Unused lanes, which are
        all lanes in other blocks, get the neutral element.
        """
        builder = self.builder
        count = self.count
        if len(limits) == 1 and not limits[0].terms:
            count = max(lane_count(limits[0].constant, count), min(HALF_VECTOR, count))
        memory = self.lanes
        if count < self.count:
            memory = [
                builder.stack(f"rest{len(builder.nest.buffers)}", x.dtype, (count,))
                for x in self.accumulators
            ]
        width, flat = builder.lanes(self.inner[-1]), self.flat
        within = nullcontext() if flat is None else flat.in_bundle(point, first)
        with within, builder.loop(0, count, kind="lanes", lanes=width) as lane:
            with builder.mask(lane, *limits) as mask:
                at = first + lane
                here = flat.point(point, at) if flat else builder.at(point, self.inner, at)
                found = self.elements(here, at)
                mask.results = [
                    Chosen(x.dtype, x.added(builder, each), x.start(x.dtype))
                    for x, each in zip(self.accumulators, found, strict=True)
                ]
            for lanes, each in zip(memory, mask.results, strict=True):
                builder.store(each, lanes, (affine(lane),))
        return [builder.bundle(each) for each in memory]

    def _put(self, point: Point, at: Affine, lane: Affine) -> None:
        found = self.elements(point, at)
        for x, lanes, each in zip(self.accumulators, self.lanes, found, strict=True):
            self.builder.store(x.added(self.builder, each), lanes, (lane,))

    def _take(self, carried: list[Carried]) -> None:
        for x, total, lanes in zip(self.accumulators, carried, self.lanes, strict=True):
            total.update = x.combine(self.builder, total, self.builder.bundle(lanes))

    def _folded(self, x: Accumulator, bundle: Value | None, rest: Value | None) -> Value:
        """The lanes of a bundle combined, upper halves with lower halves. A rest, which may have
        fewer lanes, is combined with the first of them before or, where the order is free, with as
        many when they are left.
        """
        builder = self.builder
        count = self.count if rest is None else rest.lanes
        if bundle is not None and not self.in_order:
            bundle = self._halved(x, bundle, count)
        values = [each for each in (bundle, rest) if each is not None][:1]
        if bundle is not None and (count < bundle.lanes or count == 1):
            values = [builder.some_lanes(bundle, at, count) for at in range(0, bundle.lanes, count)]
        if bundle is not None and rest is not None:
            values[0] = x.combine(builder, values[0], rest)
        while len(values) > 1:
            low, high = values[: len(values) // 2], values[len(values) // 2 :]
            values = [x.combine(builder, *pair) for pair in zip(low, high, strict=True)]
        (found,) = values
        return found if count == 1 else builder.fold_lanes(found, partial(x.combine, builder))

    def _halved(self, x: Accumulator, bundle: Value, count: int) -> Value:
        """The lanes of a bundle combined until `count` of them are left."""
        builder = self.builder
        while bundle.lanes > max(count, 2):
            half = bundle.lanes // 2
            halves = (builder.some_lanes(bundle, first, half) for first in (0, half))
            bundle = x.combine(builder, *halves)
        return bundle
