"""Split-k: products with small results and long sums, which threads share.

A product of two or three tiles leaves most threads idle, however long its sums are. So k is split
into chunks, whose number depends on lengths alone, so that results do not depend on the number of
threads. Each chunk is a product of its own, in a stack of them in scratch memory; a last kernel
adds them in order and computes the epilogue.
"""

from __future__ import annotations

from operator import index
from typing import NamedTuple

from ingot.compiler.forms.affine import Affine, affine
from ingot.compiler.forms.nest.data import Carried, Constant
from ingot.compiler.forms.nests import Kernel
from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.size import Number
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.products.builder import ProductBuilder
from ingot.compiler.lower.products.operands import Matrices, Product
from ingot.compiler.lower.products.register_tile import TileShape
from ingot.graph.shape import contiguous
from ingot.tuning import SCRATCH_ALIGNMENT
from ingot.tuning_products import MAX_SPLIT_RESULTS, MIN_SPLIT_LENGTH

__all__ = ["Chunks", "add_chunks", "split"]

Strides = dict[Step, tuple[int, ...]]


class Chunks(NamedTuple):
    """A product as several products along chunks of k, whose results are in scratch memory."""

    products: tuple[Product, ...]  # the stack of whole chunks, and the remainder
    results: Matrices  # (chunks, rows, columns)

    @property
    def nbytes(self) -> Number:
        """The size of the results in scratch memory."""
        return -(-self.results.nbytes // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT


def split(product: Product) -> Chunks | None:
    """The chunks of a product; None if its result is large enough for all threads, or k short.
    Programs for unknown shapes decide likewise, so that they give the same bits; one that splits k
    is for one k.
    """
    if product.stack or product.k < 2 * MIN_SPLIT_LENGTH:
        return None
    if product.m * product.n > MAX_SPLIT_RESULTS:
        return None
    is_transposed = product.has_transposed_operands
    if is_transposed:  # where results are in scratch memory makes no difference
        product = product.transposed()
    whole, rest = divmod(index(product.k), MIN_SPLIT_LENGTH)
    shape = (whole + bool(rest), product.m, product.n)
    strides = contiguous(shape, product.dtype.size)
    results = Matrices(None, product.dtype, shape[:1], product.m, product.n, strides)
    products = [_part(product, results, whole)]
    if rest:
        products.append(_part(product, results, 0, whole, rest))
    return Chunks(tuple(products), results.transposed() if is_transposed else results)


def _part(
    product: Product, results: Matrices, count: int, first: int = 0, length: int = MIN_SPLIT_LENGTH
) -> Product:
    """The product along `count` chunks from number `first` on, as a stack; or, if `count` is 0,
    along a single one.
    """
    stack = (count,) if count else ()

    def along_k(source: Matrices) -> Matrices:
        stride = MIN_SPLIT_LENGTH * source.column_stride
        strides = (*[stride] * len(stack), *source.strides)
        offset = source.offset + first * stride
        return source._replace(stack=stack, columns=length, strides=strides, offset=offset)

    chunk = results.strides[0]
    strides = (*[chunk] * len(stack), *results.strides[1:])
    result = results._replace(stack=stack, strides=strides, offset=first * chunk)
    right = along_k(product.right.transposed()).transposed()
    return Product(along_k(product.left), right, result, product.dtype)


def add_chunks(chunks: Chunks, product: Product, group: Group, strides_of: Strides) -> Kernel:
    """The kernel that adds the results of chunks and computes the epilogue."""
    builder = ProductBuilder("chunks", product, TileShape(1, 1, 1), group, strides_of)
    source = chunks.results.buffer(builder, "c", builder.argument(None), builder.numbers)
    zero = Constant(product.dtype, 0)

    def body(_stack: list[Affine], row: Affine, _panel: Affine, column: Affine) -> None:
        total = Carried(product.dtype, zero)
        with builder.loop(0, affine(source.shape[0]), carried=[total]) as chunk:
            found = builder.load(source, (affine(chunk), row, column))
            total.update = builder.words.add(total, found)
        builder.element(builder.point([], row, column), total)

    builder.tiles(body)
    return builder.kernel()
