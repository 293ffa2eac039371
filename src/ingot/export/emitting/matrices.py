"""Ops of linear algebra, compositions that are one node, and unrolled loops."""

from __future__ import annotations

import math
from typing import Any

from ingot._native import array
from ingot.export.building.matrices import QUANTIZATION_MODES
from ingot.export.emitting.emitter import Emit, Emitter, Value
from ingot.export.format import Spec
from ingot.graph.dtype import float32, int32, uint32
from ingot.graph.op import Op
from ingot.graph.roles import Composite
from ingot.graph.shape import size_of
from ingot.ops.attention.rules import Attention, AttentionCotangents, composed_attention
from ingot.ops.elementwise.comparison import where
from ingot.ops.fft.fourier import FourierTransform
from ingot.ops.linalg import decompositions, eigenvalues, linear_systems, singular_values
from ingot.ops.products.contraction import Matmul, WideMatmul
from ingot.ops.products.gathered_products import GatheredProducts
from ingot.ops.quantized.rows import QuantizedMatmul
from ingot.ops.random.bits import RandomBits
from ingot.ops.reduce.extremes import max as max_of
from ingot.ops.reduce.pooling import Pool, PoolCotangent, composed_pool
from ingot.ops.reduce.scan import Recurrence
from ingot.ops.shape.joining import stack
from ingot.ops.shape.movement import expand_dims
from ingot.ops.shape.movement import matrix_transpose as transposed
from ingot.ops.shape.slicing import element
from ingot.transforms.control.scan_op import ScanLoop

__all__ = ["MATRICES"]

_WORD = 4  # bytes of random bits
_SUM = 2  # of scatters


def _specs(op: Any, *inputs: Value) -> list[Spec]:
    return [Spec(tuple(shape), dtype) for shape, dtype in op.infer(*inputs)]


def _matmul(emitter: Emitter, op: Matmul, x: Value, y: Value) -> Value:
    shape, dtype = op.infer(x, y)  # type: ignore[arg-type]
    batched = emitter.batch_of(x) if y.ndim == 2 else None
    if batched is None:
        return emitter.primitive("Matmul", [x, y], (), shape, dtype)
    # The rows of a stack of matrices: without shapes, the stack could not be restored from them.
    outer = batched.shape[:-2]
    state = ((-2, -1),)
    repeated = emitter.primitive("BroadcastAxes", [y, batched], state, (*outer, *y.shape), y.dtype)
    stack = (*batched.shape[:-1], y.shape[-1])
    product = emitter.primitive("Matmul", [batched, repeated], (), stack, dtype)
    rows = emitter.reshape(product, shape)
    emitter.keep_batch(rows, product)
    return rows


def _wide_matmul(emitter: Emitter, op: WideMatmul, x: Value, y: Value) -> Value:
    return _matmul(emitter, Matmul(), *(emitter.cast(each, float32) for each in (x, y)))


def _gathered(
    emitter: Emitter,
    op: GatheredProducts,
    x: Value,
    y: Value,
    left: Value,
    right: Value,
    position: Value,
) -> Value:
    matrix = (x.shape[-2], y.shape[-1])
    shape = (*left.shape, *matrix)
    chosen = [emitter.cast(index, uint32) for index in (left, right)]
    products = emitter.primitive("GatherMM", [x, y, *chosen], (False, False), shape, x.dtype)
    zeros = emitter.broadcast(emitter.number(0, x.dtype), (op.count, *matrix))
    updates = emitter.reshape(products, (*position.shape, 1, *matrix))
    target = emitter.cast(position, int32)
    return emitter.primitive(
        "Scatter", [zeros, target, updates], (_SUM, (0,)), zeros.shape, x.dtype
    )


def _quantized(emitter: Emitter, op: QuantizedMatmul, x: Value, *parts: Value) -> Value:
    shape, dtype = op.infer(x, *parts)  # type: ignore[arg-type]
    state = (op.group_size, op.bits, QUANTIZATION_MODES.index(op.mode), True)
    found = emitter.primitive("QuantizedMatmul", [x, *parts], state, shape, x.dtype)
    return emitter.cast(found, dtype)


def _transform(emitter: Emitter, op: FourierTransform, x: Value) -> Value:
    shape, dtype = op.infer(x)  # type: ignore[arg-type]
    inverse = op.kind.startswith("i")
    state = (op.axes, inverse, op.kind.endswith("rfftn"), False)
    found = emitter.primitive("FFT", [x], state, shape, dtype)
    lengths = [op.length, *(x.shape[axis] for axis in op.axes[:-1])]
    count = size_of(lengths)
    scale = {"backward": 1.0, "forward": count if inverse else 1 / count, "ortho": 0.0}[op.norm]
    if op.norm == "ortho":
        scale = math.sqrt(count) if inverse else 1 / math.sqrt(count)
    if scale == 1:
        return found
    factor = emitter.filled(scale, found)
    return emitter.primitive("Multiply", [found, factor], (), shape, dtype)


def _random_bits(emitter: Emitter, op: RandomBits, keys: Value) -> Value:
    shape, dtype = op.infer(keys)  # type: ignore[arg-type]
    return emitter.primitive("RandomBits", [keys], (shape, _WORD), shape, dtype)


def _cholesky(emitter: Emitter, op: Any, x: Value) -> Value:
    return emitter.primitive("Cholesky", [x], (op.upper,), x.shape, x.dtype)


def _qr(emitter: Emitter, op: Any, x: Value) -> list[Value]:
    return emitter.several("QRF", [x], (), _specs(op, x))


def _svd(emitter: Emitter, op: Any, x: Value) -> list[Value]:
    """MLX has both matrices of vectors square."""
    whole = type(op)(full=True)
    found = emitter.several("SVD", [x], (True,), _specs(whole, x))
    wanted = _specs(op, x)
    return [
        value
        if tuple(value.shape) == spec.shape
        else emitter.primitive(
            "Slice",
            [value],
            ((0,) * value.ndim, spec.shape, (1,) * value.ndim),
            spec.shape,
            value.dtype,
        )
        for value, spec in zip(found, wanted, strict=True)
    ]


def _singular_values(emitter: Emitter, op: Any, x: Value) -> Value:
    shape, dtype = op.infer(x)
    return emitter.primitive("SVD", [x], (False,), shape, dtype)


def _pseudo_inverse(emitter: Emitter, op: Any, x: Value) -> Value:
    """MLX composes it of the decomposition too."""

    def composed(x: array) -> array:
        left, values, right = singular_values.svd(x)
        count = values.shape[-1]
        largest = max_of(values, axis=-1, keepdims=True)
        kept = values > op.negligible(x) * largest
        inverted = where(kept, 1 / where(kept, values, 1), 0)
        return transposed(right[..., :count, :]) @ (
            expand_dims(inverted, -1) * transposed(left[..., :count])
        )

    return emitter.composed(composed, x)[0]


def _inverse(emitter: Emitter, op: Any, x: Value) -> Value:
    state = (op.triangle != "all", op.triangle != "lower")
    return emitter.primitive("Inverse", [x], state, x.shape, x.dtype)


def _solve(emitter: Emitter, op: Any, a: Value, b: Value) -> Value:
    inverse = _inverse(emitter, op, a)
    return emitter.primitive("Matmul", [inverse, b], (), b.shape, b.dtype)


def _eigh(emitter: Emitter, op: Any, x: Value) -> list[Value]:
    return emitter.several("Eigh", [x], ("L" if op.lower else "U", True), _specs(op, x))


def _eigvalsh(emitter: Emitter, op: Any, x: Value) -> Value:
    shape, dtype = op.infer(x)
    return emitter.primitive("Eigh", [x], ("L" if op.lower else "U", False), shape, dtype)


def _eig(emitter: Emitter, op: Any, x: Value) -> list[Value]:
    return emitter.several("Eig", [x], (True,), _specs(op, x))


def _eigvals(emitter: Emitter, op: Any, x: Value) -> Value:
    shape, dtype = op.infer(x)
    return emitter.primitive("Eig", [x], (False,), shape, dtype)


def _composite(emitter: Emitter, op: Composite, *inputs: Value) -> Value:
    return emitter.composed(op.compose, *inputs)[0]


def _attention(emitter: Emitter, op: Attention, *inputs: Value) -> list[Value | None]:
    def composed(q: array, k: array, v: array, *extras: array) -> array:
        mask = extras[0] if op.has_mask else None
        sinks = extras[-1] if len(extras) > op.has_mask else None
        return composed_attention(q, k, v, op.scale, op.causal, mask, sinks)

    # The statistics are read by the cotangents only, which are composed of the other inputs.
    return [*emitter.composed(composed, *inputs), None, None]


def _attention_cotangents(
    emitter: Emitter, op: AttentionCotangents, cotangent: Value, *inputs: Value
) -> list[Value]:
    return emitter.composed(op.composed, cotangent, *inputs[3:])


def _pool(emitter: Emitter, op: Pool, x: Value) -> Value:
    return emitter.composed(lambda x: composed_pool(x, op.kind, op.windows), x)[0]


def _pool_cotangent(emitter: Emitter, op: PoolCotangent, *inputs: Value) -> Value:
    return emitter.composed(op.composed, *inputs)[0]


def _loop(emitter: Emitter, op: ScanLoop, *inputs: Value) -> list[Value]:
    """A loop of known length, unrolled: MLX's files have none."""

    def unrolled(*inputs: array) -> list[array]:
        carries, xs, others = op.split(list(inputs))
        order = range(op.length - 1, -1, -1) if op.reverse else range(op.length)
        stacked: list[list[array]] = [[] for _ in op.body.outputs[op.carries :]]
        for step in order:
            slices = [element(x, 0, step) for x in xs]
            outputs = op.body(*carries, *slices, *others)
            carries = outputs[: op.carries]
            for rows, row in zip(stacked, outputs[op.carries :], strict=True):
                rows.insert(0 if op.reverse else len(rows), row)
        return [*carries, *(stack(rows) for rows in stacked)]

    return emitter.composed(unrolled, *inputs)


def _recurrence(emitter: Emitter, op: Recurrence, factor: Value, term: Value) -> Value:
    def unrolled(factor: array, term: array) -> array:
        length = term.shape[op.axis]
        order = range(length - 1, -1, -1) if op.reverse else range(length)
        rows: dict[int, array] = {}
        last = None
        for step in order:
            row = element(term, op.axis, step)
            last = row if last is None else element(factor, op.axis, step) * last + row
            rows[step] = last
        return stack([rows[step] for step in range(length)], op.axis)

    return emitter.composed(unrolled, factor, term)[0]


MATRICES: dict[type[Op], Emit] = {
    Attention: _attention,
    AttentionCotangents: _attention_cotangents,
    Composite: _composite,
    FourierTransform: _transform,
    GatheredProducts: _gathered,
    Matmul: _matmul,
    WideMatmul: _wide_matmul,
    Pool: _pool,
    PoolCotangent: _pool_cotangent,
    QuantizedMatmul: _quantized,
    RandomBits: _random_bits,
    Recurrence: _recurrence,
    ScanLoop: _loop,
    decompositions.Cholesky: _cholesky,
    decompositions.QR: _qr,
    eigenvalues.Eigen: _eig,
    eigenvalues.Eigenvalues: _eigvals,
    eigenvalues.SymmetricEigen: _eigh,
    eigenvalues.SymmetricEigenvalues: _eigvalsh,
    linear_systems.Inverse: _inverse,
    linear_systems.Solve: _solve,
    singular_values.PseudoInverse: _pseudo_inverse,
    singular_values.SVD: _svd,
    singular_values.SingularValues: _singular_values,
}
