"""Products of many rows with quantised matrices: codes are unpacked into panels, once for all rows.

Input: a `QuantizedProduct` with so many rows that unpacking codes for each block of them would cost
more than multiplying. Output: a kernel that unpacks codes into panels of the right operand
(`../panels.py`), and the kernel of an ordinary float product. The unpacked matrix is never in
memory in any other form. Codes are unpacked with a stride (`codes.py`), for some columns of the
result at a time; they are collected on the stack, then transposed in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.compiler.forms.affine import Affine, Extent, affine
from ingot.compiler.forms.nest.build import NestBuilder, repeated
from ingot.compiler.forms.nest.data import Buffer, CopyBlock, Value
from ingot.compiler.forms.nests import Area, Kernel
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Lowered, kernel_of
from ingot.compiler.lower.products.builder import epilogue_of
from ingot.compiler.lower.products.matmul import Scratch, multiply_panels
from ingot.compiler.lower.products.operands import Matrices, Product, merged
from ingot.compiler.lower.products.panels import Panels
from ingot.compiler.lower.products.quantized.codes import Codes, Scheme, Unpacker
from ingot.compiler.lower.products.quantized.tile import QuantizedTile
from ingot.compiler.lower.products.register_tile import lanes_of, tile_shape
from ingot.graph.dtype import float32
from ingot.graph.shape import contiguous
from ingot.tuning import MAX_REGISTER_TILE, MAX_UNPACKED_CODES

__all__ = ["lower_quantized_panels"]

Strides = dict[Step, tuple[int, ...]]


def lower_quantized_panels(step: Step, scheme: Scheme, strides_of: Strides) -> Lowered | None:
    """The kernels of a product of many rows; None if the rows cannot be viewed as those of one
    matrix, or if the result has a single column.
    """
    x, packed = step.inputs[:2]
    left, columns = _rows_of(x, strides_of[x]), packed.shape[0]
    if left is None or columns == 1:
        return None
    scratch = Scratch()
    if left.dtype is not float32:
        left = scratch.converted(left, float32, Area.LEFT)
    unpacking = _Unpacking(step, scheme, strides_of)
    right = unpacking.matrix
    tile = tile_shape(float32, columns, left.rows)
    panels = Panels(right, tile, scratch.nbytes[None])
    scratch.take(panels.nbytes, unpacking.kernel(panels))
    strides = contiguous((left.rows, columns), step.dtype.size)
    result = Matrices(step, step.dtype, (), left.rows, columns, strides)
    product = Product(left, right, result, float32)
    return scratch.lowered(multiply_panels(product, panels, epilogue_of(step), strides_of))


def _rows_of(x: Step, strides: tuple[int, ...]) -> Matrices | None:
    """All rows as one matrix; None if they are not at a constant stride."""
    lengths, distances = merged(x.shape[:-1], strides[:-1])
    if len(lengths) != 1:
        return None
    both = (distances[0], strides[-1])
    return Matrices(x, x.dtype, (), lengths[0], x.shape[-1], both)


class _Unpacking:
    """The kernel that unpacks a quantised matrix into panels. An iteration of its parallel loop
    unpacks a few chunks of codes for all columns of a panel.
    """

    def __init__(self, step: Step, scheme: Scheme, strides_of: Strides) -> None:
        self.sources = step.inputs[1:]
        self.strides_of = strides_of
        self.scheme = scheme
        # few enough codes of a column at a time that those of all columns fit into L1
        lanes = min(lanes_of(float32), max(4, MAX_UNPACKED_CODES // scheme.unit_codes))
        self.codes = Codes(scheme, lanes)
        self.columns, words = step.inputs[1].shape
        self.units = words // scheme.unit_words
        self.chunks = max(1, scheme.group_units // lanes)  # chunks that share scales
        self.blocks = -(-self.units // (self.chunks * lanes))
        # panels are padded to whole blocks
        length = self.blocks * self.chunks * lanes * scheme.unit_codes
        strides = (float32.size, length * float32.size)
        self.matrix = Matrices(None, float32, (), length, self.columns, strides)

    def kernel(self, panels: Panels) -> Kernel:
        """The kernel."""
        builder, tile, codes = NestBuilder(), panels.tile, self.codes
        names = ("codes", "scales", "biases")
        matrix = [
            builder.buffer(name, part.dtype, part.shape, self.strides_of[part], number, origin=part)
            for number, (name, part) in enumerate(zip(names, self.sources, strict=False))
        ]
        target = self._target(builder, panels, len(matrix))
        unpacked = builder.stack("unpacked", float32, (tile.columns, codes.vectors, codes.lanes))
        work = self.chunks * codes.vectors * codes.lanes * tile.columns
        with builder.parallel((panels.count, self.blocks), work) as (panel, block):
            first = affine(panel) * tile.columns
            inside = (tile.columns, affine(self.columns) - first)
            for part in range(self.chunks):
                number = affine(block) * self.chunks + part
                with builder.loop(0, *inside) as column:
                    self._unpack(
                        builder, matrix, unpacked, (first + column, affine(column)), number
                    )
                self._transpose(builder, unpacked, target, (affine(panel), number), inside)
        return kernel_of(builder.nest, [*self.sources, None])

    def _target(self, builder: NestBuilder, panels: Panels, argument: int) -> Buffer:
        """Panels as a buffer in which rows are grouped by the position of their codes in units."""
        codes, row = self.codes, panels.tile.columns * float32.size
        chunk = codes.lanes * codes.vectors * row
        count = self.blocks * self.chunks
        shape = (panels.count, count, codes.vectors, codes.lanes, panels.tile.columns)
        strides = (panels.rows * row, chunk, row, codes.vectors * row, float32.size)
        offset = panels.offset
        return builder.buffer("panels", float32, shape, strides, argument, offset)

    def _unpack(
        self,
        builder: NestBuilder,
        matrix: list[Buffer],
        unpacked: Buffer,
        column: tuple[Affine, Affine],
        number: Affine,
    ) -> None:
        """Unpacks a chunk of a column to the stack."""
        codes, k = self.codes, builder.words
        of_matrix, of_panel = column
        limit = self.units if self.units % codes.lanes else None
        tile = QuantizedTile(builder, codes, self.units, unpacked, matrix, [of_matrix])
        unpacker = Unpacker(builder, codes)
        ((scale, *bias),) = tile.scales(codes, self._group(number), limit)
        (words,) = tile.words(unpacker, number, limit)
        for vector in range(codes.vectors):
            value = unpacker.number(unpacker.code(words, vector))
            exponent = self.scheme.exponent(vector)
            factor: Value = scale
            if exponent:
                factor = k.multiply(scale, repeated(float32, 0.5**exponent, codes.lanes))
            if bias:
                value = k.fused_multiply_add(value, factor, bias[0])
            else:
                value = k.multiply(value, factor)
            builder.store(value, unpacked, (of_panel, affine(vector), affine(0)))

    def _group(self, number: Affine) -> Affine:
        """The first unit of the block of a chunk."""
        part = number.constant % self.chunks
        return (number - part) * self.codes.lanes

    def _transpose(
        self,
        builder: NestBuilder,
        unpacked: Buffer,
        target: Buffer,
        panel_chunk: tuple[Affine, Affine],
        inside: Sequence[Extent],
    ) -> None:
        """Copies a chunk of all columns from the stack to a panel."""
        lanes = self.codes.lanes
        side = min(MAX_REGISTER_TILE, lanes)
        there = (lanes, affine(self.units) - panel_chunk[1] * lanes)  # lanes within the row
        whole_lanes = affine(builder.multiple(0, *there, by=side))
        whole_columns = affine(builder.multiple(0, *inside, by=side))

        def move(of_lanes: Sequence[Extent], of_columns: Sequence[Extent], side: int) -> None:
            with (
                builder.loop(0, self.codes.vectors) as vector,
                builder.loop(*of_columns, step=side) as column,
                builder.loop(*of_lanes, step=side) as lane,
            ):
                source = (affine(column), affine(vector), affine(lane))
                into = (*panel_chunk, affine(vector), affine(lane), affine(column))
                builder.body.append(CopyBlock(target, into, unpacked, source, (2, 0), side))

        move((0, whole_lanes), (0, whole_columns), side)
        if self.units % side:
            move((whole_lanes, *there), (0, whole_columns), 1)
        if self.columns % side:
            move((0, *there), (whole_columns, *inside), 1)
