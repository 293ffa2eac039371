"""Primitives of linear algebra: products, convolutions, decompositions, transforms, random bits."""

from __future__ import annotations

from typing import Any

from ingot._native import array
from ingot.export.building.elementwise import Build, chosen
from ingot.export.format import Primitive
from ingot.graph.op import apply
from ingot.graph.shape import normalize_axis
from ingot.ops.elementwise.casting import astype
from ingot.ops.fft.fourier import FourierTransform, Kind
from ingot.ops.linalg.decompositions import cholesky, qr
from ingot.ops.linalg.eigenvalues import eig, eigh, eigvals, eigvalsh
from ingot.ops.linalg.linear_systems import inv, tri_inv
from ingot.ops.linalg.singular_values import svd
from ingot.ops.products.contraction import addmm, matmul
from ingot.ops.products.convolution import conv_general
from ingot.ops.products.gathered_products import gather_mm
from ingot.ops.products.hadamard import hadamard_transform
from ingot.ops.products.masked_products import block_masked_mm
from ingot.ops.quantized.products import gather_qmm, quantized_matmul
from ingot.ops.quantized.quantization import dequantize, quantize
from ingot.ops.random.bits import RandomBits

__all__ = ["MATRICES", "QUANTIZATION_MODES"]

QUANTIZATION_MODES = ("affine", "mxfp4", "mxfp8", "nvfp4")
_WORD = 4  # bytes of random bits
_KINDS: dict[tuple[bool, bool], Kind] = {
    (False, False): "fftn",
    (True, False): "ifftn",
    (False, True): "rfftn",
    (True, True): "irfftn",
}


def _matmul(primitive: Primitive, x: array, y: array) -> array:
    return matmul(x, y)


def _addmm(primitive: Primitive, x: array, y: array, added: array) -> array:
    alpha, beta = primitive.state
    return addmm(added, x, y, alpha, beta)


def _masked(primitive: Primitive, x: array, y: array, *masks: array) -> array:
    """The masks are those of the result, of both operands, or of all three."""
    if not 1 <= len(masks) <= 3:
        raise ValueError(f"there are {len(masks)} masks of blocks, not 1 to 3")
    result = None if len(masks) == 2 else masks[0]
    left, right = masks[-2:] if len(masks) > 1 else (None, None)
    return block_masked_mm(x, y, primitive.state[0], result, left, right)


def _gather_mm(primitive: Primitive, x: array, y: array, left: array, right: array) -> array:
    return gather_mm(x, y, left, right)


def _mode(primitive: Primitive) -> dict[str, Any]:
    group_size, bits, mode = primitive.state[:3]
    name = chosen(primitive, QUANTIZATION_MODES, mode)
    return {"group_size": group_size, "bits": bits, "mode": name}


def _quantized(primitive: Primitive, x: array, w: array, scales: array, *biases: array) -> array:
    bias = _only(biases)
    return quantized_matmul(x, w, scales, bias, transpose=primitive.state[3], **_mode(primitive))


def _gather_qmm(primitive: Primitive, x: array, w: array, scales: array, *rest: array) -> array:
    *biases, left, right = rest
    bias = _only(tuple(biases))
    options = _mode(primitive)
    return gather_qmm(x, w, scales, bias, left, right, primitive.state[3], **options)


def _only(biases: tuple[array, ...]) -> array | None:
    if len(biases) > 1:
        raise ValueError(f"there are {len(biases)} arrays of biases")
    return biases[0] if biases else None


def _quantize(primitive: Primitive, x: array, *parts: array) -> Any:
    if primitive.state[3]:
        scales, *biases = parts
        bias = _only(tuple(biases))
        dtype = primitive.specs[0].dtype
        return dequantize(x, scales, bias, dtype=dtype, **_mode(primitive))
    return quantize(x, **_mode(primitive))


def _convolution(primitive: Primitive, x: array, filters: array) -> array:
    strides, before, after, steps, spreads, groups, flip = primitive.state
    return conv_general(x, filters, strides, (before, after), steps, spreads, groups, flip)


def _hadamard(primitive: Primitive, x: array) -> array:
    return hadamard_transform(x, primitive.state[0])


def _transform(primitive: Primitive, x: array) -> array:
    axes, inverse, is_real, unknown = primitive.state
    if unknown or not axes:
        raise ValueError("a Fourier transform has options that are not known")
    slots = tuple(normalize_axis("fft", axis, x.ndim) for axis in axes)
    length = x.shape[slots[-1]]
    if inverse and is_real:
        recorded = primitive.specs[0].shape
        length = recorded[slots[-1]] if len(recorded) == x.ndim else 2 * (length - 1)
    kind = _KINDS[inverse, is_real]
    return apply(FourierTransform(kind, slots, length, "backward"), x)


def _cholesky(primitive: Primitive, x: array) -> array:
    return cholesky(x, primitive.state[0])


def _qr(primitive: Primitive, x: array) -> tuple[array, array]:
    return qr(x)


def _svd(primitive: Primitive, x: array) -> Any:
    return svd(x, primitive.state[0])


def _inverse(primitive: Primitive, x: array) -> array:
    is_triangular, upper = primitive.state
    return tri_inv(x, upper) if is_triangular else inv(x)


def _eigh(primitive: Primitive, x: array) -> Any:
    triangle, vectors = primitive.state
    return eigh(x, triangle) if vectors else eigvalsh(x, triangle)


def _eig(primitive: Primitive, x: array) -> Any:
    return eig(x) if primitive.state[0] else eigvals(x)


def _random_bits(primitive: Primitive, keys: array) -> array:
    shape, width = primitive.state
    batch = keys.shape[:-1]
    if width != _WORD:
        raise ValueError(f"random numbers of {width} bytes are not supported, only of {_WORD}")
    if keys.ndim == 0 or keys.shape[-1] != 2 or shape[: len(batch)] != batch:
        raise ValueError(f"keys of shape {keys.shape} do not fit random bits of shape {shape}")
    return apply(RandomBits(shape[len(batch) :]), astype(keys, primitive.specs[0].dtype))


MATRICES: dict[str, Build] = {
    "AddMM": _addmm,
    "BlockMaskedMM": _masked,
    "Cholesky": _cholesky,
    "Convolution": _convolution,
    "Eig": _eig,
    "Eigh": _eigh,
    "FFT": _transform,
    "GatherMM": _gather_mm,
    "GatherQMM": _gather_qmm,
    "Hadamard": _hadamard,
    "Inverse": _inverse,
    "Matmul": _matmul,
    "QRF": _qr,
    "Quantize": _quantize,
    "QuantizedMatmul": _quantized,
    "RandomBits": _random_bits,
    "SVD": _svd,
}
