"""An interpreter of loop nests in NumPy: the reference for machine code in tests.

Every access is checked: an index outside its buffer, even a negative one, raises IndexError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ingot._native import Dtype
from ingot.compiler.forms.affine import Affine, Extent, Symbol, Variable, affine
from ingot.compiler.forms.nest.data import (
    Apart,
    Apply,
    Body,
    Buffer,
    Bundle,
    Checked,
    Constant,
    CopyBlock,
    Indices,
    Joined,
    Lanes,
    Load,
    Loop,
    Mask,
    Multiple,
    Nest,
    Position,
    Prefetch,
    Repeated,
    Splat,
    Split,
    Store,
    Value,
    When,
)
from ingot.compiler.forms.nest.words import RANKS, rank_offset
from ingot.graph.dtype import bfloat16, bool_, float16
from ingot.graph.libraries import scipy_special
from ingot.graph.numerics.casts import converted

__all__ = ["interpret"]


def interpret(
    nest: Nest,
    arrays: Sequence[np.ndarray],
    symbols: Mapping[Symbol, int] | None = None,
    iterations: range | None = None,
    stack: float = 0,
) -> None:
    """Runs a nest on arrays, one for each buffer that is not on the stack, in order and of its
    shape. `iterations` selects some of all iterations of the parallel loops, which are numbered as
    one range. Floating-point stack buffers, which are uninitialised in machine code, are filled
    with `stack`.
    """
    run = _Run(stack)
    for symbol, number in (symbols or {}).items():
        run.numbers[symbol] = number
    remaining = iter(arrays)
    for buffer in nest.buffers:
        if buffer.argument is not None:
            run.memory[buffer] = next(remaining)
    with np.errstate(all="ignore"):
        first = 0  # the number of the region's first iteration
        for region in nest.parallel:
            lengths = tuple(map(run.number, region.lengths))
            total = prod(lengths)
            for number in _overlap(range(first, first + total), iterations):
                at = map(int, np.unravel_index(number - first, lengths)) if lengths else ()
                run.numbers.update(zip(region.indices, at, strict=True))
                run.clear_stack(nest)
                run.body(region.body)
            first += total


class _Run:
    def __init__(self, stack: float) -> None:
        self.stack = stack
        self.numbers: dict[Variable, int] = {}
        self.memory: dict[Buffer, np.ndarray] = {}
        self.values: dict[Value, Any] = {}

    def clear_stack(self, nest: Nest) -> None:
        for buffer in nest.buffers:
            if buffer.argument is None:
                shape = tuple(map(self.number, buffer.shape))
                dtype = buffer.dtype.numpy
                fill = 0 if dtype.kind in "iub" else self.stack
                self.memory[buffer] = np.full(shape, fill, dtype)

    def number(self, x: Extent) -> int:
        found = x if type(x) is Affine else affine(x)
        total = found.constant
        for variable, factor in found.terms.items():
            total += self.numbers[variable] * factor
        return total

    def body(self, body: Body) -> None:
        for statement in body:
            _EXECUTE[type(statement)](self, statement)

    def apply(self, statement: Apply) -> None:
        self.values[statement] = self.applied(statement)

    def load(self, statement: Load) -> None:
        self.values[statement] = _computed(self.loaded(statement), statement.dtype)

    def multiple(self, statement: Multiple) -> None:
        base, end = self.number(statement.base), min(map(self.number, statement.ends))
        self.numbers[statement.index] = end - (end - base) % statement.by

    def bundle(self, statement: Bundle) -> None:
        self.values[statement] = _computed(self.memory[statement.buffer], statement.dtype)

    def when(self, statement: When) -> None:
        low, high = self.number(statement.low), self.number(statement.high)
        if low <= self.value(statement.value) < high:
            self.body(statement.body)

    def loaded(self, load: Load) -> Any:
        memory = self.memory[load.buffer]
        if load.lanes == 1 and load.limit is None:
            return memory[self.index(load.buffer, load.index, memory)]
        at = self.position(load.index)
        found = np.zeros(load.lanes, memory.dtype)
        count = self.lanes_below(load.limit, at[-1], load.lanes)
        found[:count] = _adjacent(load.buffer, at, count, memory)
        return found if load.lanes > 1 else found[0]

    def store(self, store: Store) -> None:
        memory = self.memory[store.buffer]
        value, lanes = self.value(store.value), store.value.lanes
        if lanes == 1 and store.limit is None:
            memory[self.index(store.buffer, store.index, memory)] = value
            return
        at = self.position(store.index)
        count = self.lanes_below(store.limit, at[-1], lanes)
        _adjacent(store.buffer, at, count, memory)[:] = np.atleast_1d(value)[:count]

    def lanes_below(self, limit: Affine | None, first: int, lanes: int) -> int:
        """How many of the lanes from index `first` on are below the limit."""
        return lanes if limit is None else min(max(self.number(limit) - first, 0), lanes)

    def splat(self, splat: Splat) -> None:
        value = np.atleast_1d(self.value(splat.value))
        found = np.repeat(value, splat.lanes // len(value))
        self.values[splat] = found if splat.lanes > 1 else found[0]

    def lanes(self, lanes: Lanes) -> None:
        some = np.concatenate([self.value(each) for each in lanes.values])[[*lanes.picks]]
        self.values[lanes] = some if lanes.lanes > 1 else some[0]

    def apart(self, apart: Apart) -> None:
        one, other = (self.memory[buffer] for buffer in apart.buffers)
        if one.ctypes.data != other.ctypes.data:
            self.body(apart.body)

    def mask(self, mask: Mask) -> None:
        inside = self.numbers[mask.index] < min(map(self.number, mask.ends))
        if inside:
            self.body(mask.body)
        for chosen in mask.results:
            self.values[chosen] = self.value(chosen.value if inside else chosen.other)

    def split(self, split: Split) -> None:
        number = self.number(split.number)
        for index, length in zip(reversed(split.indices), reversed(split.lengths), strict=True):
            number, self.numbers[index] = divmod(number, self.number(length))

    def loop(self, loop: Loop) -> None:
        for carried in loop.carried:
            self.values[carried] = self.value(carried.start)
        end = min(map(self.number, loop.ends))
        for at in range(self.number(loop.begin), end, loop.step):
            self.numbers[loop.index] = at
            self.body(loop.body)
            updates = [self.value(c.update) for c in loop.carried if c.update is not None]
            self.values.update(zip(loop.carried, updates, strict=True))

    def prefetch(self, statement: Prefetch) -> None:
        """Does nothing: a prefetch only affects timing."""

    def copy_block(self, block: CopyBlock) -> None:
        source, target = self.memory[block.source], self.memory[block.target]
        first = self.index(block.source, block.source_index, source)
        *above, row, column = self.index(block.target, block.index, target)
        down, right = block.axes
        side, last, at = block.side, list(first), list[Any](first)
        for axis in block.axes:
            last[axis] += side - 1
            at[axis] = slice(first[axis], first[axis] + side)
        _require_inside(block.source, last, source)
        _require_inside(block.target, (*above, row + side - 1, column + side - 1), target)
        found = source[tuple(at)] if down < right else source[tuple(at)].T
        into: tuple[Any, ...] = (*above, slice(row, row + side), slice(column, column + side))
        target[into] = found

    def join(self, value: Joined) -> None:
        found = 0
        for part, length in zip(value.parts, value.lengths, strict=True):
            found = found * self.number(length) + int(self.value(part))
        self.values[value] = np.int64(found)

    def index(self, buffer: Buffer, index: Indices, memory: np.ndarray) -> tuple[int, ...]:
        found = self.position(index)
        _require_inside(buffer, found, memory)
        return found

    def position(self, index: Indices) -> tuple[int, ...]:
        """An index, which may be outside if no lane there is accessed."""
        return tuple(
            self.number(at) if isinstance(at, Affine) else int(self.value(at)) for at in index
        )

    def value(self, value: Value) -> Any:
        if isinstance(value, Constant):
            return _constant(value)
        if isinstance(value, Repeated):
            return np.full(value.lanes, _constant(value.value))
        if isinstance(value, Position):
            number = self.number(value.position) % (1 << (8 * value.dtype.size))
            return np.array(number, np.uint64).astype(value.dtype.numpy)[()]
        if isinstance(value, Checked):
            found = self.value(value.value)
            if not 0 <= found < self.number(value.bound):
                raise IndexError(f"{found} was to be in 0..{self.number(value.bound)}")
            return found
        return self.values[value]

    def applied(self, value: Apply) -> Any:
        operands = [self.value(operand) for operand in value.operands]
        dtype = value.operands[0].dtype
        if value.word == "cast":
            return _cast(operands[0], dtype, value.dtype)
        if value.word in ("taken_for", "represented"):
            return operands[0]
        if value.word == "rounded":
            return _computed(operands[0].astype(dtype.numpy), dtype)
        if value.word == "rotate_left":
            bits, count = 8 * dtype.size, value.parameter
            x = int(operands[0])
            return dtype.numpy.type((x << count | x >> (bits - count)) & ((1 << bits) - 1))
        if value.word == "rank":
            return _rank(operands[0], dtype, value.parameter)[()]
        if value.word == "from_rank":
            return _from_rank(operands[0], *value.parameter)
        if value.word == "lookup":
            return np.array(value.parameter, np.float32)[np.asarray(operands[0]) & 15]
        if value.word in _WHOLE and dtype.numpy != _kind(dtype):
            operands = [_computed(operands[0].astype(dtype.numpy), dtype)]
        function = _BOOL_WORDS.get(value.word) if dtype is bool_ else None
        found = (function or _WORDS[value.word])(*operands)
        kind = _kind(value.dtype)
        return found if found.dtype == kind else np.asarray(found).astype(kind)[()]


def _rank(x: Any, dtype: Dtype, order: str) -> np.ndarray:
    kind = RANKS[dtype].numpy.type
    bits = np.asarray(x).astype(dtype.numpy).view(kind)
    top = kind(1 << (8 * dtype.size - 1))
    return np.where(bits & top, ~bits, bits | top) + kind(rank_offset(dtype, order))


def _from_rank(x: Any, dtype: Dtype, order: str) -> Any:
    kind = RANKS[dtype].numpy.type
    bits = np.asarray(x) - kind(rank_offset(dtype, order))
    top = kind(1 << (8 * dtype.size - 1))
    return _computed(np.where(bits & top, bits ^ top, ~bits).view(dtype.numpy), dtype)[()]


_EXECUTE: dict[type, Callable[[_Run, Any], None]] = {
    Apart: _Run.apart,
    Apply: _Run.apply,
    Bundle: _Run.bundle,
    CopyBlock: _Run.copy_block,
    Joined: _Run.join,
    Lanes: _Run.lanes,
    Load: _Run.load,
    Loop: _Run.loop,
    Mask: _Run.mask,
    Multiple: _Run.multiple,
    Prefetch: _Run.prefetch,
    Splat: _Run.splat,
    Split: _Run.split,
    Store: _Run.store,
    When: _Run.when,
}


def _overlap(numbers: range, chosen: range | None) -> range:
    if chosen is None:
        return numbers
    return range(max(numbers.start, chosen.start), min(numbers.stop, chosen.stop))


def _require_inside(buffer: Buffer, index: Sequence[int], memory: np.ndarray) -> None:
    for at, length in zip(index, memory.shape, strict=True):
        if not 0 <= at < length:
            raise IndexError(
                f"{buffer.name} has shape {memory.shape}, and no element {tuple(index)}"
            )


def _adjacent(buffer: Buffer, first: tuple[int, ...], count: int, memory: np.ndarray) -> np.ndarray:
    """The elements from one on along the last axis; none may begin anywhere."""
    *above, begin = first
    if not count:
        return np.empty(0, memory.dtype)
    for at in (begin, begin + count - 1):
        _require_inside(buffer, (*above, at), memory)
    chosen: tuple[Any, ...] = (*above, slice(begin, begin + count))
    found: np.ndarray = memory[chosen]
    return found


def _kind(dtype: Dtype) -> np.dtype:
    """The dtype in which elements of a dtype are computed."""
    return np.dtype(np.float32) if dtype is float16 or dtype is bfloat16 else dtype.numpy


def _computed(x: Any, dtype: Dtype) -> Any:
    """A copy of elements in the dtype in which they are computed."""
    return x.astype(_kind(dtype))


def _constant(value: Constant) -> Any:
    return np.array(value.value).astype(_kind(value.dtype))[()]


def _cast(x: Any, source: Dtype, dtype: Dtype) -> Any:
    if source is float16 or source is bfloat16:
        x = np.float32(x).astype(source.numpy)
    return converted(np.asarray(x), dtype.numpy).astype(_kind(dtype))[()]


def _floor_divide(a: Any, b: Any) -> Any:
    return a // b if b != 0 else a * 0


def _remainder(a: Any, b: Any) -> Any:
    if np.issubdtype(np.asarray(a).dtype, np.integer):
        return a % b if b != 0 else a
    return np.remainder(a, b)


def _power(a: Any, b: Any) -> Any:
    if np.issubdtype(np.asarray(a).dtype, np.integer):
        return np.where(b >= 0, np.power(a, np.maximum(b, 0)), 0)[()]
    return np.power(a, b)


def _bits_of(x: Any) -> int:
    return 8 * int(np.asarray(x).dtype.itemsize)


def _left_shift(a: Any, b: Any) -> Any:
    inside = (b >= 0) & (b < _bits_of(a))
    return np.where(inside, np.left_shift(a, np.where(inside, b, 0)), a * 0)


def _right_shift(a: Any, b: Any) -> Any:
    inside = (b >= 0) & (b < _bits_of(a))
    signs = np.right_shift(a, _bits_of(a) - 1) if np.asarray(a).dtype.kind == "i" else a * 0
    return np.where(inside, np.right_shift(a, np.where(inside, b, 0)), signs)


def _fused_multiply_add(a: Any, b: Any, c: Any) -> Any:
    """Exact up to a single rounding for float32; for float64, as exact as longdouble."""
    wide = np.longdouble
    return wide(a) * wide(b) + wide(c)


def _dot_bfloat16(total: Any, a: Any, b: Any) -> Any:
    """Adds the products of both bfloat16 halves of each uint32 to a sum."""
    for high in (False, True):
        left, right = (
            (x & np.uint32(0xFFFF0000) if high else x << np.uint32(16)).view(np.float32)
            for x in (np.asarray(a), np.asarray(b))
        )
        total = (left.astype(np.float64) * right + total).astype(np.float32)
    return total


def _dot_bytes(total: Any, a: Any, b: Any) -> Any:
    """Adds the products of the four bytes of each uint32, unsigned by signed, to a sum."""
    left = np.asarray(a).reshape(-1, 1).view(np.uint8).astype(np.int32)
    right = np.asarray(b).reshape(-1, 1).view(np.int8).astype(np.int32)
    return total + (left * right).sum(-1, dtype=np.int32).reshape(np.shape(total))


def _dot_pairs(total: Any, a: Any, b: Any) -> Any:
    """Adds the products of two bytes, unsigned by signed, to each half of each uint32."""
    left = np.asarray(a).reshape(-1, 1).view(np.uint8).astype(np.int16)
    right = np.asarray(b).reshape(-1, 1).view(np.int8).astype(np.int16)
    sums = (left * right).reshape(-1, 2, 2).sum(-1, dtype=np.int16)
    sums += np.asarray(total).reshape(-1, 1).view(np.int16)
    return sums.view(np.uint32).reshape(np.shape(total))


def _add_pairs(total: Any, pairs: Any) -> Any:
    """Adds both halves of each uint32, as int16, to a sum."""
    halves = np.asarray(pairs).reshape(-1, 1).view(np.int16)
    return total + halves.sum(-1, dtype=np.int32).reshape(np.shape(total))


def _largest(a: Any, b: Any) -> Any:
    # of two zeros, the sum is -0 only if both are
    return np.where(np.equal(a, b) & np.equal(a, 0), np.add(a, b), np.maximum(a, b))


def _smallest(a: Any, b: Any) -> Any:
    return np.where(np.equal(a, b) & np.equal(a, 0), -np.add(-a, -b), np.minimum(a, b))


class _Words(dict[str, Callable[..., Any]]):
    """The NumPy functions of words. Words that are missing have the same name in NumPy or SciPy."""

    def __missing__(self, word: str) -> Callable[..., Any]:
        found: Callable[..., Any] | None = getattr(np, word, None)
        return found or getattr(scipy_special(), word)


_WORDS = _Words(
    {
        "bitwise_invert": np.invert,
        "fused_multiply_add": _fused_multiply_add,
        "floor_divide": _floor_divide,
        "remainder": _remainder,
        "power": _power,
        "left_shift": _left_shift,
        "right_shift": _right_shift,
        "largest": _largest,
        "smallest": _smallest,
        "round": np.rint,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "c_log": np.log,
        "select": np.where,
        "dot_bfloat16": _dot_bfloat16,
        "dot_bytes": _dot_bytes,
        "dot_pairs": _dot_pairs,
        "add_pairs": _add_pairs,
        "bits": lambda x: np.float32(x).view(np.uint32),
        "from_bits": lambda x: np.uint32(x).view(np.float32),
        "complex": lambda real, imag: np.complex64(complex(real, imag)),
    }
)
_WHOLE = ("ceil", "floor", "round")  # words that see half-precision operands rounded
_BOOL_WORDS: dict[str, Callable[..., Any]] = {
    "add": np.logical_or,
    "maximum": np.logical_or,
    "largest": np.logical_or,
    "multiply": np.logical_and,
    "minimum": np.logical_and,
    "smallest": np.logical_and,
    "subtract": np.logical_xor,
}
