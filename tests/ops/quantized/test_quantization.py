"""Quantised matrices against MLX: codes, scales and biases bit by bit, products up to rounding."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import mlx.core
import numpy as np
import pytest

import ingot.core as mx
from ingot.ops.quantized import formats

MODULES = (mx, mlx.core)
AFFINE = [("affine", group, bits) for group in (32, 64, 128) for bits in (1, 2, 3, 4, 5, 6, 8)]
FLOATS = [("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)]
SCHEMES = AFFINE + FLOATS
# Between half types, MLX rounds each product and each sum; here, the result is rounded once.
TOLERANCES = {"float32": 1e-6, "float16": 4e-3, "bfloat16": 3e-2}


def weights(rows: int = 24, columns: int = 256) -> np.ndarray:
    """Numbers with rows that are all the same, of one sign, tiny, large and on steps."""
    w = np.random.default_rng(3).normal(size=(rows, columns)).astype(np.float32)
    w[0] = 0
    w[1] = 3
    w[2] = -3
    w[3] = abs(w[3])
    w[4] = -abs(w[4])
    w[5] *= 1e-9
    w[6] *= 1e3
    w[7] = np.round(w[7] * 4) / 2
    w[8, ::2] = 0
    w[9] = 2.0 ** np.arange(columns).clip(0, 12)
    return w


def as_numpy(x: Any) -> np.ndarray:
    module = mx if isinstance(x, mx.array) else mlx.core
    return np.array(x.astype(module.float32)) if x.dtype == module.bfloat16 else np.array(x)


def quantized(module: Any, w: np.ndarray, scheme: tuple[str, int, int], dtype: str) -> Any:
    mode, group_size, bits = scheme
    return module.quantize(module.array(w).astype(getattr(module, dtype)), group_size, bits, mode)


def options(scheme: tuple[str, int, int]) -> dict[str, Any]:
    return dict(zip(("mode", "group_size", "bits"), scheme, strict=True))


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_codes_are_those_of_mlx(scheme: tuple[str, int, int], dtype: str) -> None:
    ours, theirs = (quantized(module, weights(), scheme, dtype) for module in MODULES)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype.name == str(other.dtype).removeprefix("mlx.core.")
        np.testing.assert_array_equal(as_numpy(one), as_numpy(other))
    ours, theirs = (
        module.dequantize(*parts, **options(scheme))
        for module, parts in zip(MODULES, (ours, theirs), strict=True)
    )
    assert ours.dtype.name == str(theirs.dtype).removeprefix("mlx.core.")
    found, expected = as_numpy(ours), as_numpy(theirs)
    size = abs(weights()).max(1, keepdims=True)  # what is near 0 is a difference of larger numbers
    assert np.all(abs(found - expected) <= TOLERANCES[dtype] * size)


@pytest.mark.parametrize("scheme", [("affine", 64, 4), ("affine", 32, 3), *FLOATS], ids=str)
def test_compiled_codes_are_the_same(scheme: tuple[str, int, int]) -> None:
    mode, group_size, bits = scheme
    w = mx.array(weights())
    parts = mx.quantize(w, group_size, bits, mode)
    for one, other in zip(
        mx.compile(lambda w: mx.quantize(w, group_size, bits, mode))(w), parts, strict=True
    ):
        np.testing.assert_array_equal(np.array(one), np.array(other))
    back = mx.compile(lambda *parts: mx.dequantize(*parts, **options(scheme), dtype=mx.float32))
    np.testing.assert_allclose(
        np.array(back(*parts)),
        np.array(mx.dequantize(*parts, **options(scheme), dtype=mx.float32)),
        rtol=1e-6,
        atol=1e-6 * 3000,
    )


@pytest.mark.parametrize("scale", [0.1, 1.0, 20.0])
def test_global_scale(scale: float) -> None:
    results = []
    for module in MODULES:
        whole = module.array(scale)
        parts = module.quantize(module.array(weights()[10:]), mode="nvfp4", global_scale=whole)
        numbers = module.dequantize(*parts, mode="nvfp4", global_scale=whole, dtype=module.float32)
        results.append([*map(as_numpy, parts), as_numpy(numbers)])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_every_small_float() -> None:
    codes = np.arange(256, dtype=np.uint8)
    expected = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    for dtype in (mx.float32, mx.float16, mx.bfloat16):
        found = as_numpy(mx.from_fp8(mx.array(codes), dtype)).astype(np.float32)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found[:127]), np.signbit(expected[:127]))
    finite = expected[np.isfinite(expected)]
    again = mx.from_fp8(mx.to_fp8(mx.array(finite)), mx.float32)
    np.testing.assert_array_equal(np.array(again), finite)
    small = np.array(formats.decode_fp4(mx.arange(16, dtype=mx.uint32)))
    np.testing.assert_array_equal(small[:8], [0, 0.5, 1, 1.5, 2, 3, 4, 6])
    np.testing.assert_array_equal(small[8:], -small[:8])


def test_floats_of_8_bits_round_as_mlx() -> None:
    random = np.random.default_rng(4)
    x = random.normal(size=50_000) * np.exp(random.uniform(-12, 8, 50_000))
    between = np.arange(0, 449, 0.25)  # among them all ties above 4
    edges = [np.nan, np.inf, -np.inf, 0.0, -0.0, 447, 448, 464, 1e9, 2.0**-6, 2.0**-10, -1e-20]
    ties = (2 * np.arange(30) + 1) * 2.0**-10
    numbers = np.concatenate([x, between, edges, ties, np.nextafter(2.0 ** np.arange(-8, 9), 0)])
    ours, theirs = (module.to_fp8(module.array(numbers.astype(np.float32))) for module in MODULES)
    np.testing.assert_array_equal(np.array(ours), np.array(theirs))
    compiled = mx.compile(mx.to_fp8)(mx.array(numbers.astype(np.float32)))
    np.testing.assert_array_equal(np.array(compiled), np.array(theirs))


@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("scheme", [("affine", 32, 5), ("affine", 64, 4), *FLOATS], ids=str)
def test_products_equal_mlx(scheme: tuple[str, int, int], transpose: bool) -> None:
    w = weights()[10:]
    random = np.random.default_rng(5)
    x = random.normal(size=(2, 3, w.shape[1] if transpose else w.shape[0])).astype(np.float32)
    results = []
    for module in MODULES:
        parts = quantized(module, w, scheme, "float32")
        biases = list(parts[2:])

        def product(x: Any, *biases: Any, module: Any = module, parts: Any = parts) -> Any:
            return module.quantized_matmul(
                x, *parts[:2], *biases, transpose=transpose, **options(scheme)
            )

        inputs = [module.array(x), *biases]
        value = product(*inputs)
        ramp = module.array(random.permutation(value.size).reshape(value.shape) / value.size)
        random = np.random.default_rng(5)
        random.normal(size=x.shape)
        _, pulled = module.vjp(product, inputs, [ramp.astype(value.dtype)])
        results.append([value, *pulled])
    del results[0][2:], results[1][2:]
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other), rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize(
    "scheme", [("affine", 64, 4), ("affine", 32, 3), ("mxfp8", 32, 8)], ids=str
)
def test_one_row_and_a_large_matrix(scheme: tuple[str, int, int]) -> None:
    """The matrix is unpacked in the loop that sums: no memory for its numbers."""
    random = np.random.default_rng(7)
    w = random.normal(size=(2048, 2048)).astype(np.float32)
    x = mx.array(random.normal(size=(1, 1, 2048)).astype(np.float32))
    parts = quantized(mx, w, scheme, "float32")
    mx.eval(parts, x)

    def product(x: mx.array, *parts: mx.array) -> mx.array:
        return mx.quantized_matmul(x, *parts, **options(scheme))

    compiled = mx.compile(product)
    mx.eval(compiled(x, *parts))
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    found = compiled(x, *parts)
    mx.eval(found)
    assert mx.get_peak_memory() - before < 1e6
    numbers = np.array(mx.dequantize(*parts, **options(scheme), dtype=mx.float32))
    np.testing.assert_allclose(np.array(found), np.array(x) @ numbers.T, rtol=1e-4, atol=1e-3)
    _, pulled = mx.vjp(lambda x: product(x, *parts), [x], [found])
    expected = np.array(found) @ numbers
    np.testing.assert_allclose(np.array(pulled[0]), expected, rtol=1e-3, atol=0.2)


def test_gradient_by_scales_and_biases_equals_mlx() -> None:
    results = []
    for module in MODULES:
        codes, *parts = quantized(module, weights()[10:], ("affine", 64, 4), "float32")
        x = module.array(weights()[12:15])

        def loss(scales: Any, biases: Any, module: Any = module, x: Any = x, w: Any = codes) -> Any:
            return (
                module.quantized_matmul(x, w, scales, biases, group_size=64, bits=4).square().sum()
            )

        results.append(module.grad(loss, argnums=(0, 1))(*parts))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other), rtol=2e-4, atol=2e-2)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_dtype_of_products(dtype: str) -> None:
    for other in ("float32", "float16"):
        dtypes = []
        for module in MODULES:
            parts = quantized(module, weights(), ("affine", 64, 4), other)
            x = module.ones((2, 256)).astype(getattr(module, dtype))
            dtypes.append(str(module.quantized_matmul(x, *parts).dtype).split(".")[-1])
        assert dtypes[0] == dtypes[1]


def test_products_of_stacks_under_vmap() -> None:
    parts = mx.quantize(mx.array(weights()), 64, 4)
    x = mx.array(weights()[:6].reshape(2, 3, 256))
    found = mx.vmap(lambda x: mx.quantized_matmul(x, *parts, group_size=64, bits=4))(x)
    expected = x @ mx.dequantize(*parts, group_size=64, bits=4).T
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-4, atol=1e-3)
    stacked = [mx.stack([part, part]) for part in parts]
    found = mx.quantized_matmul(x, *stacked, group_size=64, bits=4)
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-4, atol=1e-3)


GATHERED = [("affine", 32, bits) for bits in (2, 3, 4, 5, 6, 8)]
GATHERED += [("affine", 64, 4), ("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)]


@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("scheme", GATHERED, ids=str)
def test_gathered_products_equal_mlx(scheme: tuple[str, int, int], transpose: bool) -> None:
    w = weights(24, 64).reshape(4, 6, 64)
    x = np.random.default_rng(6).normal(size=(5, 3, 64 if transpose else 6)).astype(np.float32)
    # Fewer products than matrices, whose codes are gathered, and more.
    for left, right in (([0, 4, 2], [1, 1, 3]), (None, [0, 1, 2, 3, 3]), ([[0], [1]], [3, 2, 0])):
        results = []
        for module in MODULES:
            parts = quantized(module, w, scheme, "float32")
            chosen = [None if index is None else module.array(index) for index in (left, right)]
            results.append(
                module.gather_qmm(
                    module.array(x),
                    *parts,
                    lhs_indices=chosen[0],
                    rhs_indices=chosen[1],
                    transpose=transpose,
                    **options(scheme),
                )
            )
        np.testing.assert_allclose(*map(np.array, results), rtol=2e-5, atol=2e-2)


def test_gathered_products_of_few_and_of_many_have_the_same_derivatives() -> None:
    parts = mx.quantize(mx.array(weights(24, 64).reshape(4, 6, 64)), 32, 4)
    x = mx.random.normal((5, 3, 64), key=mx.random.key(0))

    def loss(x: mx.array, scales: mx.array, biases: mx.array, count: int) -> mx.array:
        left, right = mx.array([0, 4, 2, 0, 0])[:count], mx.array([1, 1, 3, 0, 0])[:count]
        found = mx.gather_qmm(x, parts[0], scales, biases, left, right, True, 32, 4)
        return mx.sum(found[:3] ** 2)

    for argument in (0, 1, 2):
        few, many = (
            mx.grad(loss, argnums=argument)(x, parts[1], parts[2], count) for count in (3, 5)
        )
        scale = np.abs(np.array(many)).max()
        np.testing.assert_allclose(np.array(few) / scale, np.array(many) / scale, atol=1e-5)


# MLX computes these on the GPU only.


@pytest.mark.parametrize("mode", ["nvfp4", "mxfp8"])
def test_products_of_two_quantized_matrices(mode: str) -> None:
    x, w = mx.array(weights()[10:13]), mx.array(weights()[13:])
    rounded = [
        mx.dequantize(*mx.quantize(a, mode=mode), mode=mode, dtype=mx.float32) for a in (x, w)
    ]
    expected = np.array(rounded[0]) @ np.array(rounded[1]).T
    parts = mx.quantize(w, mode=mode)
    for found in (mx.qqmm(x, w, mode=mode), mx.qqmm(x, *parts, mode=mode)):
        np.testing.assert_allclose(np.array(found), expected, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(
        np.array(mx.qqmm(x[0], w, mode=mode)), expected[0], rtol=1e-5, atol=1e-4
    )
    gradient = mx.grad(lambda x: mx.qqmm(x, w, mode=mode).sum())(x)
    expected = np.tile(np.array(rounded[1]).sum(0), (3, 1))
    np.testing.assert_allclose(np.array(gradient), expected, rtol=1e-5, atol=1e-4)
    index = mx.array([1, 0, 1])
    stacks = [mx.stack([a, -a]) for a in (x, w)]
    found = mx.gather_qqmm(*stacks, rhs_indices=index, lhs_indices=mx.array([0, 0, 1]), mode=mode)
    product = np.array(rounded[0]) @ np.array(rounded[1]).T
    np.testing.assert_allclose(
        np.array(found), np.stack([-product, product, product]), rtol=1e-5, atol=1e-4
    )


CODES = mx.quantize(mx.ones((2, 64)), 32, 4)
ERRORS: list[tuple[Any, str]] = [
    (lambda: mx.quantize(mx.ones((2, 64)), 48, 4), "32, 64 or 128 elements, got 48"),
    (lambda: mx.quantize(mx.ones((2, 64)), 32, 7), "1, 2, 3, 4, 5, 6 or 8 bits, got 7"),
    (lambda: mx.quantize(mx.ones((2, 64)), mode="int4"), "affine, mxfp4, mxfp8, nvfp4, got 'int4'"),
    (lambda: mx.quantize(mx.ones((2, 64)), 64, mode="mxfp4"), "32 elements, got 64"),
    (lambda: mx.quantize(mx.ones(64)), "at least two axes"),
    (lambda: mx.quantize(mx.ones((2, 60))), "does not divide into groups of 64"),
    (lambda: mx.quantize(mx.ones((2, 64), mx.int32)), "floating-point numbers, got int32"),
    (
        lambda: mx.quantize(mx.ones((2, 64)), 32, 4, global_scale=mx.array(1.0)),
        "mode nvfp4 only, got affine",
    ),
    (lambda: mx.dequantize(*CODES, 64, 4), "do not go with scales of shape"),
    (lambda: mx.dequantize(*CODES[:2], None, 32, 4), "mode affine needs biases"),
    (lambda: mx.dequantize(CODES[1], *CODES[1:], 32, 4), "codes are uint32, got float32"),
    (lambda: mx.dequantize(*CODES, mode="mxfp4"), "mode mxfp4 has no biases"),
    (lambda: mx.dequantize(*CODES, 32, 4, dtype=mx.int32), "not int32"),
    (
        lambda: mx.quantized_matmul(mx.ones((2, 32)), *CODES, group_size=32, bits=4),
        r"cannot multiply \(2, 32\) by the quantised matrix of shape \(64, 2\)",
    ),
    (lambda: mx.qqmm(mx.ones((2, 64)), mx.ones((2, 64)), mode="affine"), "nvfp4 and mxfp8"),
    (lambda: mx.to_fp8(mx.array([1])), "floating-point numbers, got int32"),
    (lambda: mx.from_fp8(mx.array([1])), "dtype uint8, got int32"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=range(len(ERRORS)))
def test_errors_say_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
