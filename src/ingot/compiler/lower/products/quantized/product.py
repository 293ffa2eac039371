"""Products with quantised matrices: codes are unpacked and scaled in registers.

Input: a `QuantizedProduct` with few rows and the strides of its operands (`panels.py` handles
many rows). Output: two kernels. The first permutes the rows to the order in which codes are
unpacked (`codes.py`), as float32. The second multiplies: an iteration takes a few rows of the
matrix, reads each word once, unpacks its codes and accumulates their products with all rows
(`tile.py`). So the cost is that of reading the matrix. The order of summation does not
depend on the number of threads: lanes along a row of the matrix, which are then added by halving.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from operator import index

from ingot.compiler.forms.affine import Affine, Extent, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Constant, Value
from ingot.compiler.forms.nests import Kernel
from ingot.compiler.forms.size import Number, is_symbolic, largest, smallest
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Lowered, kernel_of
from ingot.compiler.lower.products.numbers import Numbers, code_key
from ingot.compiler.lower.products.operands import merged
from ingot.compiler.lower.products.quantized.bytes import (
    FLOAT_DIGITS,
    Bytes,
    BytesTile,
    has_pairs,
    in_blocks,
    quantise_row,
)
from ingot.compiler.lower.products.quantized.codes import Codes, Scheme
from ingot.compiler.lower.products.quantized.columns import ByColumns, Span, vectors_by_columns
from ingot.compiler.lower.products.quantized.panels import lower_quantized_panels
from ingot.compiler.lower.products.quantized.tile import QuantizedTile, are_finite
from ingot.compiler.lower.products.register_tile import lanes_of
from ingot.graph.dtype import float32
from ingot.graph.numerics.activations import activations
from ingot.graph.roles import QuantizedProduct
from ingot.graph.shape import contiguous, size_of
from ingot.runtime.processor import processor_features, vector_registers
from ingot.tuning import (
    BYTES_TILE_ROWS,
    MAX_FACTORED_ROWS,
    MAX_QUANTIZED_ROWS,
    MIN_THREAD_WORK,
    QUANTIZED_ROWS_BYTES,
    QUANTIZED_TILE_ROWS,
)
from ingot.tuning_products import (
    MAX_DIGITS_BITS,
    MAX_INT8_LENGTH,
    MAX_ROWS_BY_COLUMNS,
    MAX_TRANSPOSED_LANES,
    MIN_DIGITS_LENGTH,
    MIN_LONG_INT8_ROWS_BY_COLUMNS,
    MIN_ORDERED_BLOCKS,
    MIN_PAIRED_DIGITS_LENGTH,
    MIN_QUANTIZED_THREAD_WORK,
    MIN_ROW_DIGITS_LENGTH,
    MIN_ROWS_BY_COLUMNS,
)

__all__ = ["lower_quantized"]

Strides = dict[Step, tuple[int, ...]]


def lower_quantized(step: Step, strides_of: Strides) -> Lowered | None:
    """The kernels of a product with a quantised matrix; None if they do not support its layout."""
    assert isinstance(step.op, QuantizedProduct)
    x, *matrix = step.inputs
    known = (x.shape[-1], *matrix[0].shape, *(s for part in matrix for s in strides_of[part]))
    if not all(type(number) is int for number in known) or 0 in (*known[:3], *step.shape):
        return None
    if any(strides_of[part][-1] != part.dtype.size for part in matrix):
        return None
    scheme = Scheme(step.op.mode, step.op.group_size, step.op.bits)
    if _digits(step, scheme, strides_of) or size_of(step.shape[:-1]) <= MAX_QUANTIZED_ROWS:
        return _Lowering(step, scheme, strides_of).lowered()
    return lower_quantized_panels(step, scheme, strides_of)


def _digits(step: Step, scheme: Scheme, strides_of: Strides) -> int:
    """How many bytes of an element of a row are multiplied by codes: one if rows are to be
    quantised to int8, three for a few long rows, 0 if elements are multiplied as float32 or are not
    adjacent.
    """
    x = step.inputs[0]
    if in_blocks(scheme) is None or strides_of[x][-1] != x.dtype.size:
        return 0
    if activations() == "int8":
        return 1
    rows = size_of(step.shape[:-1])
    if _is_by_columns(x, rows, FLOAT_DIGITS):
        is_paying = scheme.bits <= MAX_DIGITS_BITS and rows <= MAX_QUANTIZED_ROWS
    else:
        is_long = x.shape[-1] >= _shortest_in_digits(scheme.bits, rows)
        is_paying = is_long and rows <= MAX_FACTORED_ROWS
    if not is_paying:
        return 0
    is_one_axis = len(merged(x.shape[:-1], strides_of[x][:-1])[0]) <= 1
    return FLOAT_DIGITS if is_one_axis else 0


def _shortest_in_digits(bits: int, rows: Number) -> float:
    """The length from which on a few rows are multiplied in digits."""
    if bits > MAX_DIGITS_BITS:
        return inf
    if has_pairs(bits):
        return MIN_PAIRED_DIGITS_LENGTH
    if "avx512_vnni" not in processor_features():
        return inf
    return MIN_ROW_DIGITS_LENGTH if rows == 1 else MIN_DIGITS_LENGTH


def _is_by_columns(x: Step, rows: Number, digits: int) -> bool:
    """Whether rows of bytes are multiplied with a lane for each column."""
    is_long_int8 = digits == 1 and x.shape[-1] > MAX_INT8_LENGTH
    fewest = MIN_LONG_INT8_ROWS_BY_COLUMNS if is_long_int8 else MIN_ROWS_BY_COLUMNS
    return bool(rows >= fewest) and "avx512_vnni" in processor_features()


class _Lowering:
    def __init__(self, step: Step, scheme: Scheme, strides_of: Strides) -> None:
        self.step = step
        self.strides_of = strides_of
        rows = size_of(step.shape[:-1])
        # few rows are a condition on shapes, because each number of them has its own code
        self.rows = index(rows) if rows <= MAX_FACTORED_ROWS else rows
        in_bytes = in_blocks(scheme)
        self.digits = _digits(step, scheme, strides_of)
        self.is_bytes = self.digits > 0
        self.given_scheme = scheme
        self.scheme = scheme = in_bytes if in_bytes and self.is_bytes else scheme
        self.factored = self.is_bytes or bool(self.rows <= MAX_FACTORED_ROWS)
        if not self.factored:
            self.scheme = scheme = scheme._replace(is_shifted=True)
        self.codes = Codes(scheme, lanes_of(float32))
        self.by_columns = self.is_bytes and _is_by_columns(step.inputs[0], self.rows, self.digits)
        if self.is_bytes and self._has_many_products and not self.by_columns:
            self.codes = self.codes.transposed()
        self.columns, words = step.inputs[1].shape
        self.units = words // scheme.unit_words
        self.chunks = -(-self.units // self.codes.lanes)
        self.has_sums = not self.is_bytes and self.factored and scheme.mode == "affine"
        self.height = self._height()
        self.blocks = -(-self.rows // self.height)
        # rows are padded to whole blocks
        self.bytes = None
        if self.is_bytes:
            self.bytes = Bytes(self.codes, self.chunks, self.digits, self.by_columns)
        bundles = self.codes.vectors + self.has_sums
        self.shape = (self.chunks, bundles, self.codes.lanes)  # of a permuted row

    def _height(self) -> int:
        """How many rows to multiply by codes while they are in registers: blocks of equal height,
        as few as possible. The number of blocks, and that of their rows which exist, are symbols,
        so that a few kernels serve all numbers of rows.
        """
        if self._is_one_block:
            return index(self.rows)
        is_low = self.is_bytes and not self.by_columns
        limit = BYTES_TILE_ROWS if is_low else QUANTIZED_TILE_ROWS
        if is_symbolic(self.rows):
            return limit
        blocks = -(-self.rows // limit)
        return -(-self.rows // blocks)

    @property
    def _has_many_products(self) -> bool:
        """Whether a word of codes is multiplied more than once per shift. Else reading it is the
        limit, if a processor permutes whole vectors of 512 bits: see `Codes.transposed`.
        """
        is_narrow = self.codes.lanes <= MAX_TRANSPOSED_LANES
        return is_narrow or self.digits > 1 or not self._is_one_block or self.rows != 1

    @property
    def _is_one_block(self) -> bool:
        """Whether the number of rows is a compile-time constant."""
        return bool(self.rows <= MAX_FACTORED_ROWS)

    def lowered(self) -> Lowered:
        """Both kernels, and the scratch memory for the permuted rows."""
        x, *matrix = self.step.inputs
        operands = [None, *matrix, self.step, *([x] if self.digits == FLOAT_DIGITS else [])]
        kernels = [
            self._kernel(*self._ordering(), [x, None]),
            self._kernel(*self._product(), operands),
        ]
        return Lowered(kernels, self.blocks * self.height * self._row_bytes)

    def _kernel(
        self, builder: NestBuilder, numbers: Numbers, operands: Sequence[Step | None]
    ) -> Kernel:
        parts = (self.scheme, self.columns, self.units, self.height, self._is_one_block)
        key = code_key(builder, numbers, "quantized", *parts, self.factored, self.digits)
        return kernel_of(builder.nest, operands, key)

    @property
    def _row_bytes(self) -> int:
        """The size of a permuted row."""
        return size_of(self.shape) * float32.size if self.bytes is None else self.bytes.nbytes

    def _blocks(self, numbers: Numbers) -> Extent:
        """The number of blocks of rows, in a kernel."""
        return 1 if self._is_one_block else numbers("blocks", self.blocks)

    def _rows(self, numbers: Numbers) -> Extent:
        """The number of rows, in a kernel."""
        return index(self.rows) if self._is_one_block else numbers("rows", self.rows)

    def _scratch(self, builder: NestBuilder, numbers: Numbers, argument: int) -> tuple[Buffer, ...]:
        """Declares the permuted rows: as float32, or as bytes and their factors."""
        padded = affine(self._blocks(numbers)) * self.height
        if self.bytes is not None:
            return self.bytes.buffers(builder, padded, argument)
        strides = contiguous((1, *self.shape), float32.size)
        return (builder.buffer("ordered", float32, (padded, *self.shape), strides, argument),)

    # The permuted rows

    def _source(self, builder: NestBuilder, numbers: Numbers) -> Buffer:
        """Declares the rows as they are given; axes of adjacent rows are merged."""
        source = self.step.inputs[0]
        strides, size = self.strides_of[source], source.dtype.size
        lengths, distances = merged(source.shape[:-1], strides[:-1])
        shape = [numbers(f"x.{axis}", length) for axis, length in enumerate(lengths)]
        if len(shape) == 1:
            shape = [self._rows(numbers)]
        apart = [
            numbers.stride(f"x.{axis}.stride", stride, 0) for axis, stride in enumerate(distances)
        ]
        last = strides[-1]
        return builder.buffer(
            "x",
            source.dtype,
            [*shape, source.shape[-1]],
            [*apart, numbers.stride("x.stride", last, size)],
            0,
            origin=source,
        )

    def _ordering(self) -> tuple[NestBuilder, Numbers]:
        """The kernel that permutes rows to the order of codes and divides them by the powers of two
        by which bundles of codes are scaled. The sums of each lane follow. Rows past the last one
        are copies of it.
        """
        builder, numbers = NestBuilder(), Numbers()
        x = self._source(builder, numbers)
        targets = self._scratch(builder, numbers, 1)
        blocks, last = self._blocks(numbers), affine(self._rows(numbers)) - 1
        vectors, lanes = self.codes.vectors, self.codes.lanes
        lengths = (blocks, self.height, self.chunks)
        with builder.parallel(lengths) as (block, number, chunk):
            row = affine(block) * self.height + number
            at = row if self._is_one_block else affine(builder.multiple(0, row, last, by=1))
            row_chunk, above = (row, affine(chunk)), [at][: len(x.shape) - 1]
            if len(x.shape) > 2:
                above = [affine(each) for each in builder.split(at, x.shape[:-1])]
            if self.bytes is not None:
                quantise_row(builder, (x, tuple(above)), self.units, self.bytes, targets, row_chunk)
            else:
                self._permute(builder, (x, tuple(above)), targets[0], row_chunk)
        builder.nest.parallel[-1].grain = max(1, MIN_THREAD_WORK // (vectors * lanes))
        return builder, numbers

    def _permute(
        self,
        builder: NestBuilder,
        source: tuple[Buffer, tuple[Affine, ...]],
        ordered: Buffer,
        row_chunk: tuple[Affine, Affine],
    ) -> None:
        """Permutes a chunk of a row."""
        k, vectors, lanes = builder.words, self.codes.vectors, self.codes.lanes
        (x, above), first = source, row_chunk[1] * lanes
        with builder.loop(0, lanes, affine(self.units) - first) as lane:
            total: Value | None = None
            for vector in range(vectors):
                at = (first + lane) * vectors + vector
                value = k.cast(builder.load(x, (*above, at)), float32)
                total = value if total is None else k.add(total, value)
                if self.scheme.exponent(vector):
                    scale = Constant(float32, 0.5 ** self.scheme.exponent(vector))
                    value = k.multiply(value, scale)
                builder.store(value, ordered, (*row_chunk, affine(vector), affine(lane)))
            if self.has_sums and total is not None:
                builder.store(total, ordered, (*row_chunk, affine(vectors), affine(lane)))

    # The product

    def _product(self) -> tuple[NestBuilder, Numbers]:
        if self.by_columns:
            return self._product_by_columns()
        builder, numbers = NestBuilder(), Numbers()
        ordered = self._scratch(builder, numbers, 0)
        matrix, blocks = self._matrix(builder), self._blocks(numbers)
        result = self._result(builder, numbers)
        plain = self._plain_rows(builder, numbers, self.height)
        height = self.height
        width = self._width(height, 16 if vector_registers() >= 32 else 8)
        # as many blocks as stay in the cache while all columns are computed from them
        together = max(1, QUANTIZED_ROWS_BYTES // (height * self._row_bytes))
        is_all = self._is_one_block or (
            not self.is_bytes and together * height >= MAX_QUANTIZED_ROWS
        )
        parts = 1 if is_all else numbers("parts", -(-self.blocks // together))
        with builder.parallel((parts, -(-self.columns // width))) as (part, block):
            first = affine(block) * width
            columns = [first + number for number in range(width)]
            if self.columns % width:
                columns = _clamped(builder, first, width, affine(self.columns - 1))
            tile = self._tile(builder, ordered, matrix, columns)
            if self._is_one_block:
                self._store(builder, result, tile, affine(0), plain)
            else:
                begin = affine(part) * together
                with builder.loop(begin, begin + together, blocks) as number:
                    self._store(builder, result, tile, affine(number) * height)
        self._set_grain(builder, width, None if is_all else together)
        return builder, numbers

    def _set_grain(self, builder: NestBuilder, width: int, together: int | None) -> None:
        rows = self.rows if together is None else smallest((self.rows, together * self.height))
        work = width * self.units * self.scheme.unit_codes * rows
        builder.nest.parallel[-1].grain = largest((1, MIN_QUANTIZED_THREAD_WORK // work))

    def _matrix(self, builder: NestBuilder) -> list[Buffer]:
        """Declares the quantised matrix."""
        named = zip(("codes", "scales", "biases"), self.step.inputs[1:], strict=False)
        return [
            builder.buffer(name, part.dtype, part.shape, self.strides_of[part], number, origin=part)
            for number, (name, part) in enumerate(named, start=1)
        ]

    def _result(self, builder: NestBuilder, numbers: Numbers) -> Buffer:
        """Declares the result."""
        dtype, argument = self.step.dtype, len(self.step.inputs)
        shape = (self._rows(numbers), self.columns)
        strides = (self.columns * dtype.size, dtype.size)
        return builder.buffer("y", dtype, shape, strides, argument, origin=self.step)

    def _product_by_columns(self) -> tuple[NestBuilder, Numbers]:
        """The product with a lane for each column."""
        assert self.bytes is not None
        builder, numbers, height = NestBuilder(), Numbers(), self.height
        padded = affine(self._blocks(numbers)) * height
        rows = self.bytes.blocks(builder, padded, 0)
        matrix, result = self._matrix(builder), self._result(builder, numbers)
        plain = self._plain_rows(builder, numbers, self._rows(numbers))
        vectors = vectors_by_columns(height, self.digits)
        together = max(1, QUANTIZED_ROWS_BYTES // (height * self._row_bytes))
        together = min(together, MAX_ROWS_BY_COLUMNS // height)
        if self._is_one_block:
            together = 1
        parts = 1 if self._is_one_block else numbers("parts", -(-self.blocks // together))
        tile = ByColumns(builder, self.bytes, self.units, matrix, vectors)
        with builder.parallel((parts, -(-self.columns // tile.width))) as (part, block):
            first = affine(block) * tile.width
            span = Span(affine(part) * together, together, self._blocks(numbers), height)
            sums = tile.multiply(rows, span, first)
            self._store_by_columns(builder, tile, (sums, plain, result), span, first)
        self._set_grain(builder, tile.width, together)
        return builder, numbers

    def _store_by_columns(
        self,
        builder: NestBuilder,
        tile: ByColumns,
        buffers: tuple[Buffer, Buffer | None, Buffer],
        span: Span,
        first: Affine,
    ) -> None:
        """Stores sums of a tile; those that are not finite are computed again, as float32 products
        one after the other.
        """
        sums, plain, result = buffers
        codes = Codes(self.given_scheme._replace(is_shifted=True), 1)
        units = self.step.inputs[0].shape[-1] // codes.vectors
        last_row, last_column = affine(result.shape[0]) - 1, affine(self.columns - 1)
        with builder.loop(span.begin, span.begin + span.blocks, span.end) as block:
            top = affine(block) * span.height

            def recompute(number: Affine, kept: Affine) -> None:
                assert plain is not None
                row = affine(builder.multiple(0, top + number, last_row, by=1))
                with builder.loop(0, tile.width) as across:
                    column = affine(builder.multiple(0, first + across, last_column, by=1))
                    one = QuantizedTile(builder, codes, units, plain, tile.matrix, [column])
                    ((value,),) = one.direct([row])
                    builder.store(value, sums, (kept, affine(across)))

            if plain is not None:
                tile.when_not_finite(sums, span, block, recompute)
            rows = [top + number for number in range(span.height)]
            if not self._is_one_block:  # rows past the last one are copies of it
                rows = _clamped(builder, top, span.height, last_row)
            kept = (affine(block) - span.begin) * span.height
            tile.store(sums, kept, (result, rows), first)

    def _width(self, height: int, sums: int) -> int:
        """How many columns to compute together, given the number of rows and of registers for sums.
        Bytes have two sums for each column, of integers and of floats; a single row of them is
        limited by memory bandwidth, which one stream uses best unless it is short.
        """
        if self.is_bytes:
            is_long = height == 1 and self.units >= MIN_ORDERED_BLOCKS
            return 1 if is_long or has_pairs(self.scheme.bits) else min(2, self.columns)
        if self.factored:
            sums //= 2
        return max(1, min(4, sums // height, self.columns))

    def _tile(
        self,
        builder: NestBuilder,
        rows: tuple[Buffer, ...],
        matrix: list[Buffer],
        columns: list[Affine],
    ) -> QuantizedTile:
        if self.bytes is not None:
            return BytesTile(builder, self.units, self.bytes, rows, matrix, columns)
        return QuantizedTile(builder, self.codes, self.units, rows[0], matrix, columns)

    def _store(
        self,
        builder: NestBuilder,
        result: Buffer,
        tile: QuantizedTile,
        top: Affine,
        plain: Buffer | None = None,
    ) -> None:
        """Computes and stores the columns of a tile in a block of rows; `plain` are the rows that
        `tile` has in digits.
        """
        width, height = len(tile.columns), self.height
        rows = [top + number for number in range(height)]
        sums = tile.factored(rows) if self.factored else tile.direct(rows)
        # through memory: kept in registers, sums that wait to be stored are spilled in the loop
        kept = builder.stack("sums", float32, (width, height))
        _keep(builder, sums, kept)
        if self.has_sums:
            with builder.when(are_finite(builder, sums), 0, 1):
                _keep(builder, tile.direct(rows), kept)
        if plain is not None:
            with builder.when(are_finite(builder, sums), 0, 1):
                self._keep_plain(builder, tile, plain, kept)
        # Rows past the last one are copies of it, and columns are clamped: they store what it does.
        if not self._is_one_block:
            rows = _clamped(builder, top, height, affine(result.shape[0]) - 1)
        for across, column in enumerate(tile.columns):
            for down, row in enumerate(rows):
                value = builder.load(kept, (affine(across), affine(down)))
                builder.store(builder.words.cast(value, result.dtype), result, (row, column))

    def _plain_rows(self, builder: NestBuilder, numbers: Numbers, rows: Extent) -> Buffer | None:
        """Declares rows that are multiplied in digits as they are given, a unit of a word after the
        other: their products are recomputed if they are not finite. None if there are no digits.
        """
        source = self.step.inputs[0]
        if self.digits != FLOAT_DIGITS:
            return None
        codes = self.given_scheme.unit_codes
        _, distances = merged(source.shape[:-1], self.strides_of[source][:-1])
        row = numbers.stride("x.0.stride", distances[0], 0) if distances else 0
        argument = len(self.step.inputs) + 1
        shape, size = (rows, source.shape[-1] // codes, codes, 1), source.dtype.size
        strides = (row, codes * size, size, size)
        return builder.buffer("x", source.dtype, shape, strides, argument, origin=source)

    def _keep_plain(
        self, builder: NestBuilder, tile: QuantizedTile, plain: Buffer, kept: Buffer
    ) -> None:
        """Keeps the sums of float32 products, one after the other: they are seldom needed."""
        codes, first = Codes(self.given_scheme._replace(is_shifted=True), 1), tile.columns[0]
        width, height = kept.shape
        with builder.loop(0, width) as across, builder.loop(0, height) as down:
            column = first + across
            if self.columns % len(tile.columns):
                column = affine(builder.multiple(first, column, affine(self.columns - 1), by=1))
            units = self.step.inputs[0].shape[-1] // codes.vectors
            matrix = [tile.packed, *tile.parts]
            one = QuantizedTile(builder, codes, units, plain, matrix, [column])
            ((value,),) = one.direct([affine(down)])
            builder.store(value, kept, (affine(across), affine(down)))


def _keep(builder: NestBuilder, sums: list[list[Value]], kept: Buffer) -> None:
    for number, column in enumerate(sums):
        for position, value in enumerate(column):
            builder.store(value, kept, (affine(number), affine(position)))


def _clamped(builder: NestBuilder, first: Affine, count: int, last: Affine) -> list[Affine]:
    """`count` indices from `first` on, which is at most `last`, clamped to that."""
    more = [builder.multiple(first, first + number, last, by=1) for number in range(1, count)]
    return [first, *map(affine, more)]
