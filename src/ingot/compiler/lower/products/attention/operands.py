"""Common parts of the nests of attention: lengths, operands, blocks, scratch memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ingot._native import Dtype
from ingot.compiler.forms.affine import Affine, Extent, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Constant, CopyBlock, Repeated, Value
from ingot.compiler.forms.size import is_symbolic
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Kernel, Lowered, kernel_of
from ingot.compiler.lower.products.register_tile import lanes_of
from ingot.graph.dtype import float16, float32
from ingot.graph.shape import contiguous
from ingot.runtime.processor import vector_registers
from ingot.tuning import ATTENTION_KEY_BLOCK

__all__ = [
    "Blocks",
    "KernelBuilder",
    "Lengths",
    "Memory",
    "Scratch",
    "Strides",
    "blocks_for",
    "lowest",
]

ALIGNMENT = 64
MAX_FEATURES = 4096  # of which a block fits on the stack

Strides = dict[Step, tuple[int, ...]]
Fill = Callable[[Index, Affine, int | None], Value]  # (lane, first feature, limit) -> bundle


class Lengths(NamedTuple):
    """The lengths of attention."""

    batch: int
    heads: int  # of queries
    shared: int  # heads of keys and values
    queries: int
    keys: int
    depth: int  # of queries and keys
    width: int  # of values

    @property
    def sharing(self) -> int:
        """The number of query heads per head of keys."""
        return self.heads // self.shared

    @property
    def ahead(self) -> int:
        """How far beyond its own position a query attends in causal order."""
        return self.keys - self.queries

    @staticmethod
    def of(q: Step, k: Step, v: Step) -> Lengths | None:
        """The lengths of operands; None if some are unknown, or there is nothing to compute."""
        batch, heads, queries, depth = q.shape
        shared, keys, width = k.shape[1], k.shape[2], v.shape[3]
        found = Lengths(batch, heads, shared, queries, keys, depth, width)
        if any(is_symbolic(length) for length in found):
            return None
        return found if min(found) > 0 and max(depth, width) <= MAX_FEATURES else None


class Memory(NamedTuple):
    """A buffer in the memory of a value, or at an offset of scratch memory."""

    name: str
    dtype: Dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    step: Step | None
    offset: int = 0

    @staticmethod
    def of(name: str, step: Step, strides: tuple[int, ...]) -> Memory:
        """The elements of a value."""
        return Memory(name, step.dtype, step.shape, strides, step)


class Blocks(NamedTuple):
    """The numbers of queries and keys in a block. Queries are in `vectors` bundles of `lanes`,
    which are the columns of a register tile; its `rows` are keys or features.
    """

    dtype: Dtype  # of sums
    lanes: int
    vectors: int
    rows: int
    keys: int

    @property
    def queries(self) -> int:
        """Queries of a block."""
        return self.lanes * self.vectors

    def padded(self, features: int) -> int:
        """A number of features, rounded up to whole bundles."""
        return -(-features // self.lanes) * self.lanes


def blocks_for(lengths: Lengths, dtype: Dtype) -> Blocks:
    """The blocks for operands of a dtype; half precision is computed in float32."""
    wide = dtype if dtype.size > float16.size else float32
    lanes = lanes_of(wide)
    needed = -(-lengths.queries // lanes)
    # Two bundles keep a tile of eight rows in registers; three, if more of the last block is used.
    wasted = {vectors: -needed % vectors for vectors in (2, 3)}
    many = vector_registers() >= 32
    vectors = 3 if many and wasted[3] < wasted[2] else 2
    vectors = min(vectors, needed)
    rows = 8 if many else 4
    keys = min(ATTENTION_KEY_BLOCK, -(-lengths.keys // rows) * rows)
    return Blocks(wide, lanes, vectors, rows, keys)


def lowest(dtype: Dtype) -> float:
    """The lowest finite number: the score of a masked key."""
    return float(np.finfo(dtype.numpy).min)


class Scratch:
    """Kernels that run one after the other, and the memory that they share."""

    def __init__(self) -> None:
        self.kernels: list[Kernel] = []
        self.nbytes = 0

    def allocate(self, name: str, dtype: Dtype, shape: Sequence[int]) -> Memory:
        """Allocates a contiguous array."""
        offset = self.nbytes
        strides = contiguous(tuple(shape), dtype.size)
        nbytes = int(np.prod(shape)) * dtype.size
        self.nbytes += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return Memory(name, dtype, tuple(shape), strides, None, offset)

    def lowered(self) -> Lowered:
        """All kernels."""
        return Lowered(self.kernels, self.nbytes)


class KernelBuilder(NestBuilder):
    """A nest under construction whose arguments are values or scratch memory, with shorthands for
    bundles.
    """

    def __init__(self, blocks: Blocks) -> None:
        super().__init__()
        self.blocks = blocks
        self._operands: list[Step | None] = []

    def view(self, memory: Memory) -> Buffer:
        """Memory as a buffer."""
        if memory.step not in self._operands:
            self._operands.append(memory.step)
        argument = self._operands.index(memory.step)
        name, dtype, shape, strides, step, offset = memory
        return self.buffer(name, dtype, shape, strides, argument, offset, origin=step)

    def kernel(self) -> Kernel:
        """The finished kernel."""
        return kernel_of(self.nest, self._operands)

    def local(self, name: str, *shape: int, dtype: Dtype | None = None) -> Buffer:
        """Memory on the stack."""
        return self.stack(name, dtype or self.blocks.dtype, shape)

    def wide(self, value: Value) -> Value:
        """A value in the dtype of sums."""
        return self.words.cast(value, self.blocks.dtype)

    def number(self, value: float) -> Constant:
        """A constant of the dtype of sums."""
        return Constant(self.blocks.dtype, value)

    def numbers(self, value: float) -> Repeated:
        """A constant in all lanes."""
        return Repeated(self.blocks.dtype, self.number(value), self.blocks.lanes)

    def lanes_at(self, buffer: Buffer, *index: Any) -> Value:
        """A bundle of a buffer."""
        return self.load_lanes(buffer, [affine(at) for at in index], self.blocks.lanes)

    def put(self, value: Value, buffer: Buffer, *index: Any) -> None:
        """Stores an element or a bundle."""
        self.store(value, buffer, [affine(at) for at in index])

    def at(self, buffer: Buffer, *index: Any) -> Value:
        """An element of a buffer."""
        return self.load(buffer, [affine(at) for at in index])

    def everywhere(self, value: Value) -> Value:
        """An element broadcast to all lanes."""
        return self.splat(value, self.blocks.lanes)

    def columns(self) -> list[int]:
        """The first column of each bundle of queries."""
        return [vector * self.blocks.lanes for vector in range(self.blocks.vectors)]

    @property
    def row_bundles(self) -> Buffer:
        """One bundle of features of each query of a block, on the way to or from queries in
        lanes.
        """
        found = next((each for each in self.nest.buffers if each.name == "row_bundles"), None)
        return found or self.local("row_bundles", self.blocks.queries, self.blocks.lanes)

    def transpose_rows(self, features: int, fill: Fill, target: Buffer, *index: Any) -> None:
        """Transposes rows of the queries of a block: `fill(lane, first, limit)` returns a bundle of
        features of a query, and `target[*index]` has features as rows and queries as columns. The
        rows of the last, incomplete bundle are undefined.
        """
        with self._bundles_of(features) as first:
            with self.loop(0, self.blocks.queries) as lane:
                self.put(fill(lane, first, self._limit(features)), self.row_bundles, lane, 0)
            for column in self.columns():
                into = tuple(affine(at) for at in (*index, first, column))
                self._transpose(target, into, self.row_bundles, (affine(column), affine(0)))

    def store_rows(
        self, features: int, count: Affine, source: Buffer, store: Callable[..., None]
    ) -> None:
        """Transposes `source`, with features as rows and queries as columns, and calls
        `store(bundle, lane, first, limit)` for each bundle of features of `count` queries.
        """
        with self._bundles_of(features) as first:
            for column in self.columns():
                into = (affine(column), affine(0))
                self._transpose(self.row_bundles, into, source, (first, affine(column)))
            with self.loop(0, count) as lane:
                store(self.lanes_at(self.row_bundles, lane, 0), lane, first, self._limit(features))

    @contextmanager
    def _bundles_of(self, features: int) -> Iterator[Affine]:
        with self.loop(0, self.blocks.padded(features) // self.blocks.lanes) as bundle:
            yield affine(bundle) * self.blocks.lanes

    def _limit(self, features: int) -> int | None:
        return None if features % self.blocks.lanes == 0 else features

    def _transpose(
        self, target: Buffer, into: tuple[Affine, ...], source: Buffer, at: tuple[Affine, ...]
    ) -> None:
        self.body.append(CopyBlock(target, into, source, at, (1, 0), self.blocks.lanes))

    def least(self, base: Extent | Index, *ends: Extent | Index) -> Affine:
        """The minimum of some numbers that are at least `base`."""
        return affine(self.multiple(affine(base), *map(affine, ends), by=1))
