"""Products with quantised matrices: codes are unpacked and scaled in registers.

Comes in: a `QuantizedProduct` with few rows and the strides of its operands. Goes out: two kernels.
The first brings the rows into the order in which codes come out of words (`codes.py`), as float32.
The second multiplies: one iteration takes some rows of the matrix, reads each word once, makes
numbers of its codes and adds their products with all rows, each to a sum of its own. So a matrix
costs what reading it costs. The sum of an element of the result is the same for any number of
threads: lanes along a row of the matrix, then these in halves.
"""

from __future__ import annotations

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Carried, Constant, Nest, Repeated, Value
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Lowered, kernel_of
from ingot.compiler.lower.products.codes import Codes, Scheme, Unpacker, factor_of
from ingot.compiler.lower.products.register_tile import lanes_of
from ingot.graph.dtype import float32
from ingot.graph.roles import QuantizedProduct
from ingot.graph.shape import size_of
from ingot.runtime.processor import vector_registers
from ingot.tuning import MAX_QUANTIZED_ROWS, QUANTIZED_ROWS_BYTES, QUANTIZED_TILE_ROWS

__all__ = ["lower_quantized"]

Strides = dict[Step, tuple[int, ...]]
Sums = list[list[Carried]]


def lower_quantized(step: Step, strides_of: Strides) -> Lowered | None:
    """The kernels of a product with a matrix of codes; None if they cannot read it."""
    assert isinstance(step.op, QuantizedProduct)
    lengths = (*step.inputs[0].shape, *step.inputs[1].shape)
    known = (*lengths, *(s for source in step.inputs for s in strides_of[source]))
    if not all(type(number) is int for number in known) or 0 in lengths:
        return None
    if size_of(step.shape[:-1]) > MAX_QUANTIZED_ROWS:
        return None
    if any(strides_of[part][-1] != part.dtype.size for part in step.inputs[1:]):
        return None
    return _Lowering(step, step.op, strides_of).lowered()


class _Lowering:
    def __init__(self, step: Step, op: QuantizedProduct, strides_of: Strides) -> None:
        self.step = step
        self.strides_of = strides_of
        self.scheme = Scheme(op.mode, op.group_size, op.bits)
        self.codes = Codes(self.scheme, lanes_of(float32))
        self.columns, self.words = step.inputs[1].shape
        self.rows = size_of(step.shape[:-1])
        self.chunks = -(-self.words // self.codes.words)
        shape = (self.rows, self.chunks, self.codes.vectors, self.codes.lanes)
        self.shape = shape
        self.scratch_strides = (*_strides(shape),)

    def lowered(self) -> Lowered:
        """Both kernels, and the memory of the rows in their new order."""
        x, *matrix = self.step.inputs
        kernels = [
            kernel_of(self._ordering(), [x, None]),
            kernel_of(self._product(), [None, *matrix, self.step]),
        ]
        return Lowered(kernels, size_of(self.shape) * float32.size)

    def _buffer(self, builder: NestBuilder, name: str, step: Step, argument: int) -> Buffer:
        return builder.buffer(
            name, step.dtype, step.shape, self.strides_of[step], argument, origin=step
        )

    def _scratch(self, builder: NestBuilder, argument: int) -> Buffer:
        return builder.buffer("ordered", float32, self.shape, self.scratch_strides, argument)

    # The rows in the order of codes

    def _ordering(self) -> Nest:
        builder = NestBuilder()
        source = self.step.inputs[0]
        x = self._buffer(builder, "x", source, 0)
        ordered = self._scratch(builder, 1)
        vectors, lanes = self.codes.vectors, self.codes.lanes
        slow, fast = (lanes, vectors) if self.scheme.is_whole else (vectors, lanes)
        units = source.shape[-1] // fast  # along the row
        with builder.parallel((self.rows, self.chunks), vectors * lanes) as (row, chunk):
            leading = _along(builder, row, source.shape[:-1])
            first = affine(chunk) * slow
            with builder.loop(0, slow, affine(units) - first) as i, builder.loop(0, fast) as j:
                at = (first + i) * fast + j
                value = builder.words.cast(builder.load(x, (*leading, at)), float32)
                pair = (j, i) if self.scheme.is_whole else (i, j)
                target = (affine(row), affine(chunk), *map(affine, pair))
                builder.store(value, ordered, target)
        return builder.nest

    # The product

    def _product(self) -> Nest:
        builder = NestBuilder()
        ordered = self._scratch(builder, 0)
        names = ("codes", "scales", "biases")
        matrix = [
            self._buffer(builder, name, step, number)
            for number, (name, step) in enumerate(
                zip(names, self.step.inputs[1:], strict=False), start=1
            )
        ]
        result = builder.buffer(
            "y",
            self.step.dtype,
            (self.rows, self.columns),
            _strides((self.rows, self.columns), self.step.dtype.size),
            len(self.step.inputs),
            origin=self.step,
        )
        # as many rows at a time as leave registers for codes, in blocks of equal heights
        blocks = -(-self.rows // QUANTIZED_TILE_ROWS)
        height = -(-self.rows // blocks)
        sums = 16 if vector_registers() >= 32 else 8
        width = max(1, min(4, sums // height, self.columns))
        # and as many blocks as stay in the cache while all columns are computed from them
        nbytes = height * size_of(self.shape[1:]) * float32.size
        parts = -(-blocks // max(1, QUANTIZED_ROWS_BYTES // nbytes))
        blocks = -(-blocks // parts)
        work = self.chunks * self.codes.vectors * blocks
        with builder.parallel((parts, -(-self.columns // width)), work) as (part, block):
            columns = _clamped(builder, affine(block) * width, width, self.columns)
            tile = _Tile(self, builder, ordered, matrix, columns)
            first = affine(block) * width
            if blocks == 1:
                self._store(builder, result, tile, (affine(part) * height, first), height)
            else:
                with builder.loop(0, blocks) as number:
                    top = (affine(part) * blocks + number) * height
                    self._store(builder, result, tile, (top, first), height)
        return builder.nest

    def _store(
        self,
        builder: NestBuilder,
        result: Buffer,
        tile: _Tile,
        corner: tuple[Affine, Affine],
        height: int,
    ) -> None:
        """Computes the elements of some rows and columns from a corner of the result on."""
        width = len(tile.columns)
        top, first = corner
        rows = [top + number for number in range(height)]
        if self.rows > QUANTIZED_TILE_ROWS:  # the last ones may not be there
            last = affine(self.rows - 1)
            rows = [affine(builder.multiple(0, row, last, by=1)) for row in rows]
        sums = [
            [builder.words.cast(total, result.dtype) for total in column]
            for column in tile.sums(rows)
        ]
        if self.rows <= QUANTIZED_TILE_ROWS and self.columns % width == 0:
            for number, column in enumerate(sums):
                for row, value in zip(rows, column, strict=True):
                    builder.store(value, result, (row, first + number))
            return
        # those that are there
        kept = builder.stack("sums", result.dtype, (width, height))
        for number, column in enumerate(sums):
            for position, value in enumerate(column):
                builder.store(value, kept, (affine(number), affine(position)))
        with (
            builder.loop(0, width, affine(self.columns) - first) as across,
            builder.loop(0, height, affine(self.rows) - top) as down,
        ):
            value = builder.load(kept, (affine(across), affine(down)))
            builder.store(value, result, (top + down, first + across))


class _Tile:
    """Sums for some columns of the result, which are rows of the matrix."""

    def __init__(
        self,
        lowering: _Lowering,
        builder: NestBuilder,
        ordered: Buffer,
        matrix: list[Buffer],
        columns: list[Affine],
    ) -> None:
        self.builder = builder
        self.ordered = ordered
        self.packed, *self.parts = matrix
        self.columns = columns
        self.scheme = lowering.scheme
        self.words = lowering.words
        self.codes = lowering.codes
        self.unpacker = Unpacker(builder, lowering.codes)

    def sums(self, rows: list[Affine]) -> list[list[Value]]:
        """The products of some rows with each column."""
        group = self.scheme.group_words
        block = max(group, self.codes.words)  # words that one iteration takes
        if not self.scheme.is_whole:
            block = group
        blocks, rest = divmod(self.words, block)
        totals: list[list[Value]] = [[] for _ in self.columns]
        if blocks:
            carried = self._zeros(self.codes.lanes, len(rows))
            flat = [each for sums in carried for each in sums]
            with self.builder.loop(0, blocks, carried=flat, copies=1) as number:
                updated = self._block(self.unpacker, affine(number), block, rows, carried)
                for sums, updates in zip(carried, updated, strict=True):
                    for each, update in zip(sums, updates, strict=True):
                        each.update = update
            totals = [[self._total(each) for each in sums] for sums in carried]
        if rest:
            last = self._rest(blocks * block, rest, rows)
            totals = [
                [self.builder.words.add(a, b) for a, b in zip(one, other, strict=True)]
                if one
                else other
                for one, other in zip(totals, last, strict=True)
            ]
        return totals

    def _zeros(self, lanes: int, rows: int) -> Sums:
        zero = _zero(lanes)
        return [[Carried(float32, zero) for _ in range(rows)] for _ in self.columns]

    def _rest(self, first: int, rest: int, rows: list[Affine]) -> list[list[Value]]:
        """The products of the words behind the last whole block, in a bundle of fewer lanes."""
        lanes = 1 << (rest - 1).bit_length()
        unpacker = Unpacker(self.builder, self.codes._replace(lanes=lanes))
        zeros: list[list[Value]] = [[_zero(lanes)] * len(rows) for _ in self.columns]
        number = affine(first // self.codes.words)
        limit = None if lanes == rest else self.words
        sums = self._chunk(unpacker, number, affine(first), rows, zeros, limit)
        return [[self._total(each) for each in row] for row in sums]

    def _block(
        self,
        unpacker: Unpacker,
        number: Affine,
        block: int,
        rows: list[Affine],
        sums: Sums,
    ) -> list[list[Value]]:
        """Sums with the products of a block of words: a group, or a chunk of several."""
        found: list[list[Value]] = [list(each) for each in sums]
        chunks = block // unpacker.codes.words
        scales = self._scales(unpacker.codes.lanes, number * block, None)
        for chunk in range(chunks):
            at = number * chunks + chunk
            first = number * block + chunk * unpacker.codes.words
            found = self._chunk(unpacker, at, first, rows, found, None, scales)
        return found

    def _chunk(
        self,
        unpacker: Unpacker,
        number: Affine,
        first: Affine,
        rows: list[Affine],
        sums: list[list[Value]],
        limit: int | None,
        scales: list[list[Value]] | None = None,
    ) -> list[list[Value]]:
        """Sums with the products of the codes in a chunk, whose words begin at `first`."""
        k = self.builder.words
        lanes = unpacker.codes.lanes
        scales = scales or self._scales(lanes, first, limit)
        words = [unpacker.words(self.packed, column, first, limit) for column in self.columns]
        found = [list(each) for each in sums]
        for vector in range(unpacker.codes.vectors):
            factors = [
                self._ordered((row, number, affine(vector)), lanes, limit, first) for row in rows
            ]
            for column, (word, (scale, *bias)) in enumerate(zip(words, scales, strict=True)):
                value = unpacker.number(unpacker.code(word, vector))
                if bias:
                    value = k.fused_multiply_add(value, scale, bias[0])
                else:
                    value = k.multiply(value, scale)
                for row, factor in enumerate(factors):
                    found[column][row] = k.fused_multiply_add(value, factor, found[column][row])
        return found

    def _ordered(
        self, index: tuple[Affine, ...], lanes: int, limit: int | None, first: Affine
    ) -> Value:
        """A bundle of a row as the first kernel left it. Behind a limit of words there is none."""
        if lanes == 1:
            return self.builder.load(self.ordered, (*index, affine(0)))
        below = None if limit is None else affine(limit) - first
        return self.builder.load_lanes(self.ordered, (*index, affine(0)), lanes, below)

    def _scales(self, lanes: int, first: Affine, limit: int | None) -> list[list[Value]]:
        """For each column the scales, and the biases, of the groups from a word on, in lanes."""
        builder, group = self.builder, self.scheme.group_words
        count = max(1, lanes // group) if self.scheme.is_whole else 1
        # `first` is a multiple of a group
        at = Affine({v: c // group for v, c in first.terms.items()}, first.constant // group)
        below = None if limit is None else limit // group
        found = []
        for column in self.columns:
            values: list[Value] = []
            for part in self.parts:
                if count == 1:
                    value: Value = builder.load(part, (column, at))
                else:
                    value = builder.load_lanes(part, (column, at), count, below)
                value = factor_of(builder, self.scheme.mode, value)
                values.append(value if lanes == count else builder.splat(value, lanes))
            found.append(values)
        return found

    def _total(self, sums: Value) -> Value:
        """The sum of all lanes, in halves."""
        while sums.lanes > 1:
            half = sums.lanes // 2
            parts = [self.builder.some_lanes(sums, first, half) for first in (0, half)]
            sums = self.builder.words.add(*parts)
        return sums


def _zero(lanes: int) -> Value:
    zero = Constant(float32, 0.0)
    return zero if lanes == 1 else Repeated(float32, zero, lanes)


def _strides(shape: tuple[int, ...], size: int = float32.size) -> tuple[int, ...]:
    """Of elements that lie row by row."""
    found: list[int] = []
    for length in reversed(shape):
        found.insert(0, size)
        size *= length
    return tuple(found)


def _along(builder: NestBuilder, number: Index, lengths: tuple[int, ...]) -> tuple[Affine, ...]:
    """A number of rows as indices along axes."""
    if not lengths:
        return ()
    return tuple(map(affine, builder.split(number, lengths)))


def _clamped(builder: NestBuilder, first: Affine, count: int, length: int) -> list[Affine]:
    """`count` indices from `first` on, with the last of the axis instead of those behind it."""
    if length % count == 0:
        return [first + number for number in range(count)]
    return [affine(builder.multiple(0, first + n, affine(length - 1), by=1)) for n in range(count)]
