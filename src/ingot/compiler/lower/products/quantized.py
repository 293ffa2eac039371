"""Products with quantised matrices: codes are unpacked and scaled in registers.

Input: a `QuantizedProduct` with few rows and the strides of its operands (`quantized_panels.py`
handles many rows). Output: two kernels. The first permutes the rows to the order in which codes are
unpacked (`codes.py`), as float32. The second multiplies: an iteration takes a few rows of the
matrix, reads each word once, unpacks its codes and accumulates their products with all rows
(`quantized_tile.py`). So the cost is that of reading the matrix. The order of summation does not
depend on the number of threads: lanes along a row of the matrix, which are then added by halving.
"""

from __future__ import annotations

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Constant, Nest, Value
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Lowered, kernel_of
from ingot.compiler.lower.products.codes import Codes, Scheme
from ingot.compiler.lower.products.quantized_bytes import (
    Bytes,
    BytesTile,
    has_bytes,
    quantise_rows,
)
from ingot.compiler.lower.products.quantized_panels import lower_quantized_panels
from ingot.compiler.lower.products.quantized_tile import QuantizedTile
from ingot.compiler.lower.products.register_tile import lanes_of
from ingot.graph.dtype import float32, int64
from ingot.graph.numerics.activations import ACTIVATION_BLOCK, activations
from ingot.graph.roles import QuantizedProduct
from ingot.graph.shape import contiguous, size_of
from ingot.runtime.processor import vector_registers
from ingot.tuning import (
    BYTES_TILE_ROWS,
    MAX_BYTES_ROWS,
    MAX_FACTORED_ROWS,
    MAX_QUANTIZED_ROWS,
    QUANTIZED_ROWS_BYTES,
    QUANTIZED_TILE_ROWS,
)

__all__ = ["lower_quantized"]

Strides = dict[Step, tuple[int, ...]]


def lower_quantized(step: Step, strides_of: Strides) -> Lowered | None:
    """The kernels of a product with a quantised matrix; None if they do not support its layout."""
    assert isinstance(step.op, QuantizedProduct)
    lengths = (*step.inputs[0].shape, *step.inputs[1].shape)
    known = (*lengths, *(s for source in step.inputs for s in strides_of[source]))
    if not all(type(number) is int for number in known) or 0 in lengths:
        return None
    if any(strides_of[part][-1] != part.dtype.size for part in step.inputs[1:]):
        return None
    if size_of(step.shape[:-1]) > MAX_QUANTIZED_ROWS:
        scheme = Scheme(step.op.mode, step.op.group_size, step.op.bits)
        return lower_quantized_panels(step, scheme, strides_of)
    return _Lowering(step, step.op, strides_of).lowered()


class _Lowering:
    def __init__(self, step: Step, op: QuantizedProduct, strides_of: Strides) -> None:
        self.step = step
        self.strides_of = strides_of
        self.scheme = Scheme(op.mode, op.group_size, op.bits)
        self.codes = Codes(self.scheme, lanes_of(float32))
        self.columns, words = step.inputs[1].shape
        self.units = words // self.scheme.unit_words
        self.rows = size_of(step.shape[:-1])
        self.chunks = -(-self.units // self.codes.lanes)
        self.bytes = self._bytes()
        self.factored = self.bytes is not None or self.rows <= MAX_FACTORED_ROWS
        self.has_sums = self.bytes is None and self.factored and self.scheme.mode == "affine"
        self.tile_rows = QUANTIZED_TILE_ROWS if self.bytes is None else BYTES_TILE_ROWS
        bundles = self.codes.vectors + self.has_sums
        self.shape = (self.rows, self.chunks, bundles, self.codes.lanes)

    def _bytes(self) -> Bytes | None:
        """The layout of rows quantised to int8, if that is requested and possible."""
        x = self.step.inputs[0]
        if activations() != "int8" or not has_bytes(self.scheme):
            return None
        if self.rows > MAX_BYTES_ROWS or self.strides_of[x][-1] != x.dtype.size:
            return None
        if self.codes.lanes * self.scheme.unit_codes < ACTIVATION_BLOCK:
            return None
        return Bytes(self.codes, self.rows, self.chunks)

    def lowered(self) -> Lowered:
        """Both kernels, and the scratch memory for the permuted rows."""
        x, *matrix = self.step.inputs
        kernels = [
            kernel_of(self._ordering(), [x, None]),
            kernel_of(self._product(), [None, *matrix, self.step]),
        ]
        return Lowered(kernels, self.scratch)

    @property
    def scratch(self) -> int:
        """The size of the permuted rows in bytes."""
        return size_of(self.shape) * float32.size if self.bytes is None else self.bytes.nbytes

    def _buffer(self, builder: NestBuilder, name: str, step: Step, argument: int) -> Buffer:
        return builder.buffer(
            name, step.dtype, step.shape, self.strides_of[step], argument, origin=step
        )

    def _scratch(self, builder: NestBuilder, argument: int) -> Buffer:
        strides = contiguous(self.shape, float32.size)
        return builder.buffer("ordered", float32, self.shape, strides, argument)

    # The permuted rows

    def _ordering(self) -> Nest:
        """The kernel that permutes rows to the order of codes and divides them by the powers of two
        by which bundles of codes are scaled. The sums of each lane follow.
        """
        builder = NestBuilder()
        source = self.step.inputs[0]
        x = self._buffer(builder, "x", source, 0)
        if self.bytes is not None:
            return quantise_rows(builder, x, source.shape[:-1], self.units, self.bytes)
        ordered = self._scratch(builder, 1)
        vectors, lanes = self.codes.vectors, self.codes.lanes
        k = builder.words
        with builder.parallel((self.rows, self.chunks), vectors * lanes) as (row, chunk):
            leading = _along(builder, row, source.shape[:-1])
            first = affine(chunk) * lanes
            with builder.loop(0, lanes, affine(self.units) - first) as lane:
                total: Value | None = None
                for vector in range(vectors):
                    at = (first + lane) * vectors + vector
                    value = k.cast(builder.load(x, (*leading, at)), float32)
                    target = [affine(index) for index in (row, chunk, vector, lane)]
                    total = value if total is None else k.add(total, value)
                    if self.scheme.exponent(vector):
                        scale = Constant(float32, 0.5 ** self.scheme.exponent(vector))
                        value = k.multiply(value, scale)
                    builder.store(value, ordered, target)
                if self.has_sums and total is not None:
                    target = [affine(index) for index in (row, chunk, vectors, lane)]
                    builder.store(total, ordered, target)
        return builder.nest

    # The product

    def _product(self) -> Nest:
        builder = NestBuilder()
        names = ("codes", "scales", "biases")
        rows: Buffer | tuple[Buffer, Buffer]
        rows = self._scratch(builder, 0) if self.bytes is None else self.bytes.buffers(builder, 0)
        matrix = [
            self._buffer(builder, name, step, number)
            for number, (name, step) in enumerate(
                zip(names, self.step.inputs[1:], strict=False), start=1
            )
        ]
        shape = (self.rows, self.columns)
        strides = contiguous(shape, self.step.dtype.size)
        argument = len(self.step.inputs)
        result = builder.buffer("y", self.step.dtype, shape, strides, argument, origin=self.step)
        # as many rows at a time as leave registers for codes, in blocks of equal height
        blocks = -(-self.rows // self.tile_rows)
        height = -(-self.rows // blocks)
        sums = 16 if vector_registers() >= 32 else 8
        width = self._width(height, sums)
        # as many of these blocks as stay in the cache while all columns are computed from them
        nbytes = height * (self.scratch // self.rows)
        parts = -(-blocks // max(1, QUANTIZED_ROWS_BYTES // nbytes))
        blocks = -(-blocks // parts)
        work = self.chunks * self.codes.vectors * blocks
        with builder.parallel((parts, -(-self.columns // width)), work) as (part, block):
            columns = _clamped(builder, affine(block) * width, width, self.columns)
            tile = self._tile(builder, rows, matrix, columns)
            first = affine(block) * width
            if blocks == 1:
                self._store(builder, result, tile, (affine(part) * height, first), height)
            else:
                with builder.loop(0, blocks) as number:
                    top = (affine(part) * blocks + number) * height
                    self._store(builder, result, tile, (top, first), height)
        return builder.nest

    def _width(self, height: int, sums: int) -> int:
        """How many columns to compute together, given the number of rows and of registers for sums.
        A single row of bytes is limited by memory bandwidth, which few streams use best.
        """
        if self.bytes is not None and height == 1:
            return min(2, self.columns)
        if self.factored and self.bytes is None:
            sums //= 2
        return max(1, min(4, sums // height, self.columns))

    def _tile(
        self,
        builder: NestBuilder,
        rows: Buffer | tuple[Buffer, Buffer],
        matrix: list[Buffer],
        columns: list[Affine],
    ) -> QuantizedTile:
        if isinstance(rows, tuple):
            assert self.bytes is not None
            return BytesTile(builder, self.units, self.bytes, rows, matrix, columns)
        return QuantizedTile(builder, self.codes, self.units, rows, matrix, columns)

    def _store(
        self,
        builder: NestBuilder,
        result: Buffer,
        tile: QuantizedTile,
        corner: tuple[Affine, Affine],
        height: int,
    ) -> None:
        """Computes and stores a block of the result that begins at `corner`."""
        width = len(tile.columns)
        top, first = corner
        rows = [top + number for number in range(height)]
        if self.rows > self.tile_rows:  # rows past the last one are clamped
            last = affine(self.rows - 1)
            rows = [affine(builder.multiple(0, row, last, by=1)) for row in rows]
        is_whole = self.rows <= self.tile_rows and self.columns % width == 0
        sums = tile.factored(rows) if self.factored else tile.direct(rows)
        if is_whole and not self.has_sums:
            for number, column in enumerate(sums):
                for row, value in zip(rows, column, strict=True):
                    found = builder.words.cast(value, result.dtype)
                    builder.store(found, result, (row, first + number))
            return
        kept = builder.stack("sums", float32, (width, height))
        _keep(builder, sums, kept)
        if self.has_sums:
            with builder.when(_are_finite(builder, sums), 0, 1):
                _keep(builder, tile.direct(rows), kept)
        with (  # those within the result
            builder.loop(0, width, affine(self.columns) - first) as across,
            builder.loop(0, height, affine(self.rows) - top) as down,
        ):
            value = builder.load(kept, (affine(across), affine(down)))
            found = builder.words.cast(value, result.dtype)
            builder.store(found, result, (top + down, first + across))


def _keep(builder: NestBuilder, sums: list[list[Value]], kept: Buffer) -> None:
    for number, column in enumerate(sums):
        for position, value in enumerate(column):
            builder.store(value, kept, (affine(number), affine(position)))


def _are_finite(builder: NestBuilder, sums: list[list[Value]]) -> Value:
    """1 if all sums are finite, else 0. If a row has infinities, or a sum overflows, factored sums
    are not equal to the sums of products.
    """
    k, zero = builder.words, Constant(float32, 0.0)
    found: Value = zero
    for column in sums:
        for value in column:
            found = k.fused_multiply_add(value, zero, found)
    are_finite: Value = k.cast(k.equal(found, zero), int64)
    return are_finite


def _along(builder: NestBuilder, number: Index, lengths: tuple[int, ...]) -> tuple[Affine, ...]:
    """The indices along the leading axes of the row with this number."""
    if not lengths:
        return ()
    return tuple(map(affine, builder.split(number, lengths)))


def _clamped(builder: NestBuilder, first: Affine, count: int, length: int) -> list[Affine]:
    """`count` indices from `first` on, clamped to the last of the axis."""
    if length % count == 0:
        return [first + number for number in range(count)]
    return [affine(builder.multiple(0, first + n, affine(length - 1), by=1)) for n in range(count)]
