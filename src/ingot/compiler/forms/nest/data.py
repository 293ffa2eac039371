"""The loop nest: the form in which a kernel is described between a fused group and LLVM IR.

It has loops, loads and stores at affine indices, and words of the kernel vocabulary
(`graph/kernel.py`) applied to values; nothing in it is specific to LLVM. `nest/build.py` builds
nests, `nest/text.py` prints them, `nest/verify.py` proves that they stay within their buffers,
`nest/interpret.py` runs them in NumPy, and `llvm/nests.py` generates code.

Most values are statements: one is computed at its position in a body, once per iteration, and may
be used by later statements of that body and of the bodies nested in them. Lengths and strides may
be `Symbol`s, which are passed to the kernel at each call. The classes are plain ones with slots
because dataclasses take longer to define.
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
    """Memory that a kernel reads or writes, as a strided array. Element 0 is `offset` bytes after
    the address that is passed to the kernel.

    `argument` is the position of that address among the kernel's arguments; None for stack memory,
    which is private to an iteration of the parallel loop. Several buffers may share an argument.
    `origin` identifies whose memory it is when the nest is printed.
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
        """Whether all lengths are known and elements are contiguous in row-major order."""
        distance = self.dtype.size
        for length, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if stride != distance or not isinstance(length, int):
                return False
            distance *= length
        return True


# Values


class Value:
    """An element of a dtype, or a bundle of `lanes` elements: a vector. `origin` identifies the
    value of the program that it computes.
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
    """The value of an affine expression, modulo the range of its dtype."""

    __slots__ = ("position",)

    def __init__(self, dtype: Dtype, position: Affine) -> None:
        self.dtype = dtype
        self.origin = None
        self.position = position


class Apply(Value):
    """A word of the kernel vocabulary applied to elements, or lane by lane to bundles.

    `parameter` is an operand that is not a value, such as a dtype or a number of bits.
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
    """A row-major linear index (int64) from the indices along axes of these lengths."""

    __slots__ = ("lengths", "parts")

    def __init__(
        self, dtype: Dtype, parts: tuple[Checked, ...], lengths: tuple[Extent, ...]
    ) -> None:
        self.dtype = dtype
        self.origin = None
        self.parts = parts
        self.lengths = lengths


# per axis: an affine expression, or a value that is `Checked` or guarded by a `When`
Indices = tuple[Affine | Value, ...]


class Load(Value):
    """The element of a buffer at an index, or a bundle of `lanes` elements that are adjacent along
    the last axis. Lanes whose index along that axis is not below `limit` are not read, and are 0.
    Unless `ahead` is 0, the cache line `ahead` bytes further on is prefetched; it may lie outside
    of the buffer.
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
    """A loop-carried value: `start` before the first iteration, `update`, which depends on it,
    after each iteration. After the loop it has its final value.
    """

    __slots__ = ("lanes", "start", "update")

    def __init__(self, dtype: Dtype, start: Value, origin: Any = None) -> None:
        self.dtype = dtype
        self.origin = origin
        self.start = start
        self.lanes = start.lanes
        self.update: Value | None = None


class Bundle(Value):
    """All elements of a one-dimensional stack buffer, as a bundle."""

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
    """An element broadcast to all lanes, or each lane of a smaller bundle to adjacent lanes."""

    __slots__ = ("lanes", "value")

    def __init__(self, dtype: Dtype, value: Value, lanes: int) -> None:
        self.dtype = dtype
        self.origin = None
        self.value = value
        self.lanes = lanes


class Lanes(Value):
    """Some lanes of bundles: `picks` are their numbers, counted through all of the bundles, which
    are of one width. A single lane is an element.
    """

    __slots__ = ("lanes", "picks", "values")

    def __init__(self, dtype: Dtype, values: tuple[Value, ...], picks: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.origin = None
        self.values = values
        self.picks = picks
        self.lanes = len(picks)


# Statements


class Store:
    """Stores a value into a buffer; the lanes of a bundle go along the last axis, as in `Load`. If
    it is `nontemporal`, caches need not keep it: it is not read again soon.
    """

    __slots__ = ("buffer", "index", "limit", "nontemporal", "value")

    def __init__(
        self, buffer: Buffer, index: Indices, value: Value, limit: Affine | None = None
    ) -> None:
        self.buffer = buffer
        self.index = index
        self.value = value
        self.limit = limit
        self.nontemporal = False


class Prefetch:
    """Prefetches the cache line of an element, which may lie past the end of the buffer."""

    __slots__ = ("buffer", "index")

    def __init__(self, buffer: Buffer, index: tuple[Affine, ...]) -> None:
        self.buffer = buffer
        self.index = index


class CopyBlock:
    """Copies a block of `side` x `side` elements: target[r + i, c + j] = source[r + i, c + j]. If
    `side` is more than 1, the source is contiguous along the axis of r, and the block is transposed
    in registers.

    `index` and `source_index` locate the first element of the block. r and c are the axes `axes` of
    the source, and the last two axes of the target.
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
    """Defines `index` as `base` plus the largest multiple of `by` that does not exceed the least of
    `ends`, none of which is below `base`: the end of the whole steps of a loop.
    """

    __slots__ = ("base", "by", "ends", "index")

    def __init__(self, index: Index, base: Affine, ends: tuple[Affine, ...], by: int) -> None:
        self.index = index
        self.base = base
        self.ends = ends
        self.by = by


class Split:
    """Defines indices along axes of these lengths from a linear index: the inverse of `Joined`."""

    __slots__ = ("indices", "lengths", "number")

    def __init__(
        self, indices: tuple[Index, ...], number: Affine, lengths: tuple[Extent, ...]
    ) -> None:
        self.indices = indices
        self.number = number
        self.lengths = lengths


class Apart:
    """A body that runs unless two buffers have the same address, and so are the same memory."""

    __slots__ = ("body", "buffers")

    def __init__(self, buffers: tuple[Buffer, Buffer]) -> None:
        self.buffers = buffers
        self.body: Body = []


class Chosen(Value):
    """A result of a `Mask`: `value` where its body runs, the constant `other` elsewhere."""

    __slots__ = ("other", "value")

    def __init__(self, dtype: Dtype, value: Value, other: Constant) -> None:
        self.dtype = dtype
        self.origin = None
        self.value = value
        self.other = other


class Mask:
    """A body that runs where an index is below all `ends`; elsewhere, `results` are constants."""

    __slots__ = ("body", "ends", "index", "results")

    def __init__(self, index: Index, ends: tuple[Affine, ...]) -> None:
        self.index = index
        self.ends = ends
        self.body: Body = []
        self.results: list[Chosen] = []


class When:
    """A body that runs where low <= value < high, for an int64; accesses in it may rely on that."""

    __slots__ = ("body", "high", "low", "value")

    def __init__(self, value: Value, low: Affine, high: Affine) -> None:
        self.value = value
        self.low = low
        self.high = high
        self.body: Body = []


class Loop:
    """A sequential loop over begin, begin + step ... up to, but not including, the least of `ends`.

    The kind is "for", "vector", "masked", "lanes" or "unroll". A vector loop is innermost and may
    be vectorised: its iterations depend on each other only through carried values whose updates may
    be reordered. `lanes` is the vector length, 0 to leave it to the code generator. A masked loop
    is a vector loop whose remaining iterations run as one masked vector. A loop over lanes is a
    vector loop that fills bundles, so it is unrolled completely once it is vectorised. A loop of
    kind "unroll" has constant bounds and is unrolled completely. Other loops are unrolled `copies`
    times, 0 to leave that to the code generator.
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
    """A parallel loop: all combinations of indices below `lengths`, the last of which varies
    fastest, in any order and on any thread. The kind is "for" or "vector".

    `work` is the number of elements that one iteration computes, `grain` the least number of
    iterations that is worth a thread; lowering or the code generator sets it.
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


Computed = Apply | Load | Joined | Bundle | Splat | Lanes  # values that are statements
Statement = Computed | Store | Loop | When | Mask | Apart | Multiple | Split | CopyBlock | Prefetch
Body = list[Statement]


class Nest:
    """A kernel. Its parallel loops, usually one, run one after the other; threads share their
    iterations as a single range.

    `independent` says that no iteration of any loop touches an element that another one writes;
    `elementwise` that this holds even if an output shares its memory with an input. `strategy`
    describes the kernel in explanations.
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
        """The number of addresses that are passed to the kernel."""
        return 1 + max((b.argument for b in self.buffers if b.argument is not None), default=-1)
