"""The loop nest: what one kernel does, as data.

Between a fused group and LLVM text stands this form: loops, loads and stores at affine indices, and
the words of the kernel vocabulary (`graph/kernel.py`) as values. Nothing in it knows LLVM. Builders
make nests (`nest/build.py`), `nest/text.py` prints them, `nest/verify.py` proves that they stay
inside their buffers, `nest/interpret.py` runs them in NumPy, and `llvm/nests.py` turns them into
code.

A value is computed where it stands in a body, once for each iteration, and may be used by what
follows it there and in loops below. Lengths and strides may be `Symbol`s, which the kernel is given
when it is called. Plain classes with slots take less time to define than dataclasses.
"""

from __future__ import annotations

from typing import Any

from ingot._native import Dtype
from ingot.compiler.forms.affine import Affine, Extent, Index, Symbol
from ingot.compiler.forms.size import Number

__all__ = [
    "Apart",
    "Apply",
    "Body",
    "Buffer",
    "Bundle",
    "Carried",
    "Checked",
    "Chosen",
    "Constant",
    "CopyBlock",
    "Indices",
    "Joined",
    "Lanes",
    "Load",
    "Loop",
    "Mask",
    "Multiple",
    "Nest",
    "Parallel",
    "Position",
    "Prefetch",
    "Repeated",
    "Splat",
    "Split",
    "Statement",
    "Store",
    "Value",
    "When",
]


class Buffer:
    """Memory that a kernel reads or writes, as it sees it: elements along axes, of which the one at
    index 0 is `offset` bytes behind the address that the kernel is given.

    `argument` is the number of that address among the kernel's arguments; None for memory on the
    stack, which belongs to one iteration of the parallel loop. Several buffers may be in the memory
    of one argument. `origin` is whose memory it is, for printing the nest.
    """

    __slots__ = ("argument", "dtype", "name", "offset", "origin", "shape", "strides")

    def __init__(
        self,
        name: str,
        dtype: Dtype,
        shape: tuple[Extent, ...],
        strides: tuple[Extent, ...],
        argument: int | None,
        offset: Extent = 0,
        origin: Any = None,
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.strides = strides  # in bytes
        self.argument = argument
        self.offset = offset
        self.origin = origin

    def packed(self) -> bool:
        """Whether strides and lengths are numbers and elements follow each other row by row."""
        distance = self.dtype.size
        for length, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if stride != distance or not isinstance(length, int):
                return False
            distance *= length
        return True


# Values


class Value:
    """An element of a dtype, or a bundle of `lanes` adjacent elements. `origin` is what it is
    to the program.
    """

    __slots__ = ("dtype", "origin")

    lanes = 1

    def __init__(self, dtype: Dtype) -> None:
        self.dtype = dtype
        self.origin: Any = None


class Constant(Value):
    """A number."""

    __slots__ = ("value",)

    def __init__(self, dtype: Dtype, value: Any) -> None:
        self.dtype = dtype
        self.origin = None
        self.value = value


class Position(Value):
    """An affine expression as an element, modulo the width of its dtype."""

    __slots__ = ("position",)

    def __init__(self, dtype: Dtype, position: Affine) -> None:
        self.dtype = dtype
        self.origin = None
        self.position = position


class Apply(Value):
    """A function of the kernel vocabulary, applied to elements or lane by lane to bundles.

    `parameter` is what else the word is given: a dtype, a number of bits.
    """

    __slots__ = ("lanes", "operands", "parameter", "word")

    def __init__(
        self,
        dtype: Dtype,
        word: str,
        operands: tuple[Value, ...],
        parameter: Any = None,
    ) -> None:
        self.dtype = dtype
        self.origin = None
        self.word = word
        self.operands = operands
        self.parameter = parameter
        self.lanes = operands[0].lanes


class Checked(Value):
    """An int64 that is known to be in 0..bound, because an earlier step checked it."""

    __slots__ = ("bound", "value")

    def __init__(self, dtype: Dtype, value: Value, bound: Extent) -> None:
        self.dtype = dtype
        self.origin = None
        self.value = value
        self.bound = bound


class Joined(Value):
    """Indices along axes of some lengths as one number, an int64: the last one counts singly."""

    __slots__ = ("lengths", "parts")

    def __init__(
        self, dtype: Dtype, parts: tuple[Checked, ...], lengths: tuple[Extent, ...]
    ) -> None:
        self.dtype = dtype
        self.origin = None
        self.parts = parts
        self.lengths = lengths


# along each axis: an affine expression, or a value that is checked or inside a `When`
Indices = tuple[Affine | Value, ...]


class Load(Value):
    """The element of a buffer at an index; or a bundle of `lanes` elements, which are adjacent
    along the last axis. Where there is a `limit`, lanes whose index along that axis is not below it
    are not read, and are 0. What is `ahead` bytes behind them is fetched into the cache, if that is
    not 0; it may be outside of the buffer.
    """

    __slots__ = ("ahead", "buffer", "index", "lanes", "limit")

    def __init__(
        self,
        dtype: Dtype,
        buffer: Buffer,
        index: Indices,
        lanes: int = 1,
        limit: Affine | None = None,
        ahead: int = 0,
    ) -> None:
        self.ahead = ahead
        self.dtype = dtype
        self.origin = None
        self.buffer = buffer
        self.index = index
        self.lanes = lanes
        self.limit = limit


class Carried(Value):
    """A value that a loop hands from one iteration to the next; after the loop, its last one.
    `update` is in terms of itself.
    """

    __slots__ = ("lanes", "start", "update")

    def __init__(self, dtype: Dtype, start: Value, origin: Any = None) -> None:
        self.dtype = dtype
        self.origin = origin
        self.start = start
        self.lanes = start.lanes
        self.update: Value | None = None


class Bundle(Value):
    """All elements of a buffer on the stack that has one axis, as a bundle."""

    __slots__ = ("buffer", "lanes")

    def __init__(self, dtype: Dtype, buffer: Buffer) -> None:
        self.dtype = dtype
        self.origin = None
        self.buffer = buffer
        (length,) = buffer.shape
        assert isinstance(length, int)
        self.lanes = length


class Repeated(Value):
    """A constant in all lanes of a bundle."""

    __slots__ = ("lanes", "value")

    def __init__(self, dtype: Dtype, value: Constant, lanes: int) -> None:
        self.dtype = dtype
        self.origin = None
        self.value = value
        self.lanes = lanes


class Splat(Value):
    """An element in all lanes of a bundle; or each lane of a smaller bundle in as many adjacent
    lanes as there are for it.
    """

    __slots__ = ("lanes", "value")

    def __init__(self, dtype: Dtype, value: Value, lanes: int) -> None:
        self.dtype = dtype
        self.origin = None
        self.value = value
        self.lanes = lanes


class Lanes(Value):
    """Some lanes of a bundle, every `stride`-th from `first` on; one lane is an element."""

    __slots__ = ("first", "lanes", "stride", "value")

    def __init__(self, dtype: Dtype, value: Value, first: int, lanes: int, stride: int = 1) -> None:
        self.dtype = dtype
        self.origin = None
        self.value = value
        self.first = first
        self.lanes = lanes
        self.stride = stride


# Statements


class Store:
    """Puts a value into a buffer; a bundle along the last axis, as `Load` reads it."""

    __slots__ = ("buffer", "index", "limit", "value")

    def __init__(
        self, buffer: Buffer, index: Indices, value: Value, limit: Affine | None = None
    ) -> None:
        self.buffer = buffer
        self.index = index
        self.value = value
        self.limit = limit


class Prefetch:
    """Says that the cache line with an element will be read soon. It changes nothing, so the index
    may lead past the end of the buffer.
    """

    __slots__ = ("buffer", "index")

    def __init__(self, buffer: Buffer, index: tuple[Affine, ...]) -> None:
        self.buffer = buffer
        self.index = index


class CopyBlock:
    """Copies a square of `side` x `side` elements as they are: target[r + i, c + j] =
    source[r + i, c + j]. Unless it is one element, the source's elements are next to each other
    along the axis of r, and are transposed in registers.

    `index` and `source_index` are of the square's first element; r and c are the axes `axes` of the
    source, and the last two axes of the target.
    """

    __slots__ = ("axes", "index", "side", "source", "source_index", "target")

    def __init__(
        self,
        target: Buffer,
        index: Indices,
        source: Buffer,
        source_index: Indices,
        axes: tuple[int, int],
        side: int,
    ) -> None:
        self.target = target
        self.index = index
        self.source = source
        self.source_index = source_index
        self.axes = axes
        self.side = side


class Multiple:
    """Names `base` plus the largest multiple of `by` that does not lead past the least of `ends`,
    none of which is below `base`: where a loop in steps of `by` leaves off.
    """

    __slots__ = ("base", "by", "ends", "index")

    def __init__(self, index: Index, base: Affine, ends: tuple[Affine, ...], by: int) -> None:
        self.index = index
        self.base = base
        self.ends = ends
        self.by = by


class Split:
    """Names the indices along axes of some lengths that a number is, the opposite of `Joined`."""

    __slots__ = ("indices", "lengths", "number")

    def __init__(
        self, indices: tuple[Index, ...], number: Affine, lengths: tuple[Extent, ...]
    ) -> None:
        self.indices = indices
        self.number = number
        self.lengths = lengths


class Apart:
    """What is done unless two buffers begin at the same address, which makes them the same."""

    __slots__ = ("body", "buffers")

    def __init__(self, buffers: tuple[Buffer, Buffer]) -> None:
        self.buffers = buffers
        self.body: Body = []


class Chosen(Value):
    """What a `Mask` computes, and a constant where it does not."""

    __slots__ = ("other", "value")

    def __init__(self, dtype: Dtype, value: Value, other: Constant) -> None:
        self.dtype = dtype
        self.origin = None
        self.value = value
        self.other = other


class Mask:
    """What is computed where an index is below the least of `ends`; elsewhere, `results` have other
    values.
    """

    __slots__ = ("body", "ends", "index", "results")

    def __init__(self, index: Index, ends: tuple[Affine, ...]) -> None:
        self.index = index
        self.ends = ends
        self.body: Body = []
        self.results: list[Chosen] = []


class When:
    """What is done where low <= value < high, of an int64; inside, it is known to be there."""

    __slots__ = ("body", "high", "low", "value")

    def __init__(self, value: Value, low: Affine, high: Affine) -> None:
        self.value = value
        self.low = low
        self.high = high
        self.body: Body = []


class Loop:
    """Iterations begin, begin + step ... below the least of `ends`, in order.

    The kind is "for", "vector", "masked", "lanes" or "unroll". A vector loop is innermost, and its
    iterations may be taken several at a time: they depend on each other only by carried values
    whose updates may be reordered. `lanes` is how many, 0 to leave that to the code generator. Of a
    masked one the iterations that fill no vector are taken as one, too. A loop over lanes
    is a vector loop that fills bundles, so that it is written out once it is vectorised. An
    unrolled loop has constant bounds and is written out. Of other loops the body is written
    `copies` times, 0 to leave that to the code generator.
    """

    __slots__ = ("begin", "body", "carried", "copies", "ends", "index", "kind", "lanes", "step")

    def __init__(
        self,
        index: Index,
        begin: Affine,
        ends: tuple[Affine, ...],
        step: int = 1,
        kind: str = "for",
        lanes: int = 0,
        carried: list[Carried] | None = None,
        copies: int = 0,
    ) -> None:
        self.copies = copies
        self.index = index
        self.begin = begin
        self.ends = ends
        self.step = step
        self.kind = kind
        self.lanes = lanes
        self.carried = carried or []
        self.body: Body = []


class Parallel:
    """Iterations that threads may take in any order: all combinations of indices below `lengths`,
    of which the last index moves first. The kind is "for" or "vector".

    `work` is the number of elements that one iteration computes, `grain` how many iterations are
    worth a thread, which whoever makes the code finds out.
    """

    __slots__ = ("body", "grain", "indices", "kind", "lanes", "lengths", "work")

    def __init__(
        self,
        indices: tuple[Index, ...],
        lengths: tuple[Extent, ...],
        work: Extent = 1,
        kind: str = "for",
        lanes: int = 0,
    ) -> None:
        self.indices = indices
        self.lengths = lengths
        self.work = work
        self.grain: Number = 0
        self.kind = kind
        self.lanes = lanes
        self.body: Body = []


Computed = Apply | Load | Joined | Bundle | Splat | Lanes  # values that stand in a body
Statement = Computed | Store | Loop | When | Mask | Apart | Multiple | Split | CopyBlock | Prefetch
Body = list[Statement]


class Nest:
    """A kernel. Its parallel loops, mostly one, are taken one after the other as one range.

    `independent` says that no iteration of any loop touches elements of another; `elementwise` that
    it holds even where a written buffer is where one that is read is. `strategy` is an explanation.
    """

    __slots__ = ("buffers", "elementwise", "independent", "parallel", "strategy", "symbols")

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.symbols: list[Symbol] = []
        self.parallel: list[Parallel] = []
        self.independent = self.elementwise = False
        self.strategy = ""

    @property
    def arguments(self) -> int:
        """How many addresses the kernel is given."""
        return 1 + max((b.argument for b in self.buffers if b.argument is not None), default=-1)
