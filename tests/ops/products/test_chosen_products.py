"""Products of chosen matrices, masked blocks and segments, and Hadamard transforms against MLX."""

from __future__ import annotations

from typing import Any

import mlx.core
import numpy as np
import pytest
import scipy.linalg

import ingot.core as mx
from ingot.ops.products import gathered_products

MODULES = (mx, mlx.core)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def compare(function: Any, *arrays: np.ndarray, gradients: bool = True) -> None:
    """A function of a module and arrays has MLX's value and, by the arrays, its gradients."""
    results = []
    for module in MODULES:
        inputs = [module.array(x) for x in arrays]
        value = function(module, *inputs)
        results.append([value])
        if gradients:
            ramp = module.arange(value.size).reshape(value.shape) / value.size

            def bound(*inputs: Any, module: Any = module) -> Any:
                return function(module, *inputs)

            results[-1] += module.vjp(bound, inputs, [ramp])[1]
    for one, other in zip(*results, strict=True):
        assert one.dtype.name == str(other.dtype).removeprefix("mlx.core.")
        np.testing.assert_allclose(np.array(one), np.array(other), rtol=2e-5, atol=2e-5)


INDICES: list[tuple[Any, Any]] = [
    ([0, 1, 4], [1, 2, 3]),
    ([0, 0, 4, 4, 0], [3, 2, 3, 0, 1]),
    ([[0], [1]], [1, 2, 3]),
    (None, [1, 2, 3, 0, 1]),
    ([1, 2, 2, 0], None),
    ([3], [1]),
    ([0, 0, 0, 1, 0], [2, 2, 2, 2, 1]),  # the same pair several times
]


@pytest.mark.parametrize("is_copied", [True, False])
@pytest.mark.parametrize(("left", "right"), INDICES, ids=str)
def test_gather_mm_equals_mlx(
    left: Any, right: Any, is_copied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_copied:  # as for large matrices
        monkeypatch.setattr(gathered_products, "_fits_copies", lambda *_: False)

    def product(module: Any, a: Any, b: Any) -> Any:
        chosen = [None if index is None else module.array(index) for index in (left, right)]
        return module.gather_mm(a, b, *chosen)

    compare(product, normal(5, 2, 3), normal(4, 3, 6, seed=1))


def test_gather_mm_of_vectors_and_few_matrices() -> None:
    index = np.array([2, 0])
    for a, b in ((normal(3), normal(4, 3, 6)), (normal(4, 2, 3), normal(3))):
        # MLX chooses from the stack, of which the vector is none
        side = "rhs_indices" if a.ndim == 1 else "lhs_indices"
        found = mx.gather_mm(mx.array(a), mx.array(b), **{side: mx.array(index)})
        stack = (a, b[index]) if a.ndim == 1 else (a[index], b)
        np.testing.assert_allclose(np.array(found), np.matmul(*stack), rtol=1e-5)
    plain = mx.gather_mm(mx.array(normal(4, 2, 3)), mx.array(normal(4, 3, 2)))
    np.testing.assert_allclose(np.array(plain), normal(4, 2, 3) @ normal(4, 3, 2), rtol=1e-5)


def test_gather_mm_by_indices_from_the_end_and_by_none() -> None:
    a, b = normal(5, 2, 3), normal(4, 3, 6, seed=1)
    for left, right in (([-1, 0, -5], [3, -4, -1]), ([], [])):
        chosen = [mx.array(index, mx.int32) for index in (left, right)]
        found = np.array(mx.gather_mm(mx.array(a), mx.array(b), *chosen))
        expected = np.matmul(a[np.array(left, int)], b[np.array(right, int)])
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(IndexError, match="index -6 is out of range for 5 matrices"):
        mx.eval(mx.gather_mm(mx.array(a), mx.array(b), mx.array([0, -6])[:, None]))


def test_derivatives_and_batches_by_indices_from_the_end() -> None:
    a, b = mx.array(normal(5, 8, 9)), mx.array(normal(4, 9, 8, seed=1))
    given = ([-1, 4, 0, -5, 1], [-1, 3, 3, -2, -4])
    counted = ([4, 4, 0, 0, 1], [3, 3, 3, 2, 0])

    def gradients(left: Any, right: Any, stack: Any = a) -> list[mx.array]:
        def total(a: mx.array, b: mx.array) -> mx.array:
            found = mx.gather_mm(a, b, mx.array(left), mx.array(right))
            return (found * mx.arange(found.size).reshape(found.shape)).sum()

        return list(mx.grad(total, (0, 1))(stack, b))

    stacks = mx.stack([a, 2 * a])
    batch = mx.vmap(lambda stack: gradients(*given, stack))(stacks)
    for number, wanted in enumerate(gradients(*counted)):
        np.testing.assert_allclose(np.array(gradients(*given)[number]), np.array(wanted), rtol=1e-5)
        np.testing.assert_allclose(np.array(batch[number][0]), np.array(wanted), rtol=1e-5)


@pytest.mark.parametrize("wrong", [5, -6])
def test_an_index_out_of_range_selects_from_no_neighbour(wrong: int) -> None:
    a, b = mx.array(normal(2, 5, 8, 9)), mx.array(normal(4, 9, 8, seed=1))

    def product(stack: mx.array, index: mx.array) -> mx.array:
        return mx.gather_mm(stack, b, index, mx.array([0, 1]))

    for function in (mx.vmap(product, (0, None)), mx.compile(mx.vmap(product, (0, None)))):
        with pytest.raises(IndexError, match=f"index {wrong} is out of range"):
            mx.eval(function(a, mx.array([0, wrong])))
        found = function(a, mx.array([4, -5]))
        for example in range(2):
            wanted = np.array(product(a[example], mx.array([4, 0])))
            np.testing.assert_allclose(np.array(found[example]), wanted, rtol=1e-5)


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_gather_mm_of_empty_matrices(shape: tuple[int, int, int]) -> None:
    rows, common, columns = shape
    found = mx.gather_mm(mx.ones((5, rows, common)), mx.ones((4, common, columns)), mx.array([3]))
    assert found.shape == (4, rows, columns)
    assert not np.array(found).any()


def test_gather_mm_needs_little_memory() -> None:
    # 2000 rows for 8 experts: a copy of a matrix for each row would have 2 GB.
    rows, experts = mx.array(normal(2000, 1, 512)), mx.array(normal(8, 512, 512, seed=1))
    index = mx.array(np.random.default_rng(2).integers(0, 8, 2000))
    mx.eval(rows, experts, index)
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    product = mx.gather_mm(rows, experts, rhs_indices=index)
    mx.eval(product)
    assert mx.get_peak_memory() - before < 100e6
    expected = np.array(rows)[5] @ np.array(experts)[index[5].item()]
    np.testing.assert_allclose(np.array(product)[5], expected, rtol=1e-3, atol=1e-3)


MASKS = [(True, False, False), (True, True, True), (False, True, True), (False, True, False)]


@pytest.mark.parametrize("kind", ["bool", "float32"])
@pytest.mark.parametrize("given", MASKS, ids=str)
@pytest.mark.parametrize("size", [32, 64])
def test_block_masked_mm_equals_mlx(size: int, given: Any, kind: str) -> None:
    a, b = normal(70, 100), normal(100, 40, seed=1)
    shapes = [(-(-m // size), -(-n // size)) for m, n in ((70, 40), (70, 100), (100, 40))]
    masks = [
        (np.random.default_rng(place).uniform(size=shape) > 0.4).astype(kind) if has else None
        for place, (has, shape) in enumerate(zip(given, shapes, strict=True))
    ]

    def product(module: Any, a: Any, b: Any) -> Any:
        chosen = [None if mask is None else module.array(mask) for mask in masks]
        return module.block_masked_mm(a, b, size, *chosen)

    compare(product, a, b)


def test_block_masked_mm_of_stacks_equals_mlx() -> None:
    masks = [abs(normal(*shape, seed=7)) for shape in ((2, 3, 2), (1, 3, 4), (2, 4, 2))]

    def product(module: Any, a: Any, b: Any) -> Any:
        return module.block_masked_mm(a, b, 32, *map(module.array, masks))

    compare(product, normal(1, 70, 100), normal(2, 100, 40, seed=1))


def test_gradient_by_the_mask_of_the_product() -> None:
    a, b = normal(64, 32), normal(32, 96, seed=1)
    found = mx.grad(lambda m: mx.block_masked_mm(mx.array(a), mx.array(b), 32, m).sum())(
        mx.ones((2, 3))
    )
    expected = (a @ b).reshape(2, 32, 3, 32).sum((1, 3))
    np.testing.assert_allclose(np.array(found), expected, rtol=1e-4, atol=1e-3)


def test_segmented_mm_equals_mlx() -> None:
    for segments in ([[0, 4], [4, 10]], [[0, 4], [2, 2], [3, 9]], [[[0, 4], [2, 3]]], [1, 5]):

        def product(module: Any, a: Any, b: Any, segments: Any = segments) -> Any:
            return module.segmented_mm(a, b, module.array(segments))

        compare(product, normal(4, 10), normal(10, 3, seed=1), gradients=False)


@pytest.mark.parametrize("length", [1, 2, 4, 64, 128, 512, 8192, 12, 24, 20, 160, 28, 56, 28 * 64])
def test_hadamard_transform_equals_mlx(length: int) -> None:
    compare(lambda module, x: module.hadamard_transform(x), normal(2, 3, length), gradients=False)
    ours, theirs = (m.hadamard_transform(m.array(normal(length)), 2.0) for m in MODULES)
    np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=1e-4, atol=1e-3)


def test_hadamard_transform_equals_scipy() -> None:
    found = mx.hadamard_transform(mx.array(normal(256)), scale=1.0)
    expected = scipy.linalg.hadamard(256) @ normal(256)
    np.testing.assert_allclose(np.array(found), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "bool"])
def test_hadamard_transform_of_other_dtypes(dtype: str) -> None:
    dtypes = []
    results = []
    for module in MODULES:
        kind = module.bool_ if dtype == "bool" else getattr(module, dtype)
        found = module.hadamard_transform(module.array(normal(3, 32) * 9).astype(kind))
        dtypes.append(str(found.dtype).split(".")[-1])
        results.append(np.array(found.astype(module.float32)))
    assert dtypes[0] == dtypes[1]
    np.testing.assert_allclose(*results, rtol=2e-2, atol=0.1)


def test_hadamard_transform_and_its_gradient() -> None:
    x = mx.array(normal(3, 24))
    _, (pulled,) = mx.vjp(mx.hadamard_transform, [x], [mx.hadamard_transform(x)])
    np.testing.assert_allclose(np.array(pulled), np.array(x), rtol=1e-5, atol=1e-5)


ERRORS: list[tuple[type[Exception], Any, str]] = [
    (ValueError, lambda: mx.hadamard_transform(mx.ones(3)), "got 3"),
    (ValueError, lambda: mx.hadamard_transform(mx.ones((2, 0))), "with elements"),
    (
        ValueError,
        lambda: mx.gather_mm(mx.ones((2, 3)), mx.ones((4, 2, 3)), None, mx.array([0])),
        r"cannot multiply matrices of \(2, 3\) by those of \(4, 2, 3\)",
    ),
    (
        ValueError,
        lambda: mx.gather_mm(mx.ones((2, 3)), mx.ones((4, 3, 3)), None, mx.array([0.0])),
        "indices must be integers, got float32",
    ),
    (
        IndexError,
        lambda: mx.eval(mx.gather_mm(mx.ones((2, 3)), mx.ones((4, 3, 3)), None, mx.array([4]))),
        "index 4 is out of range for 4 matrices",
    ),
    (
        IndexError,
        lambda: mx.eval(
            mx.gather_mm(mx.ones((2, 3)), mx.ones((4, 3, 3)), None, mx.array([2**32], mx.int64))
        ),
        "index 4294967296 is out of range for 4 matrices",
    ),
    (
        ValueError,
        lambda: mx.block_masked_mm(mx.ones((64, 64)), mx.ones((64, 64)), 16),
        "32 or 64 long, got 16",
    ),
    (
        ValueError,
        lambda: mx.block_masked_mm(mx.ones((64, 64)), mx.ones((64, 64)), 32, mx.ones((3, 2))),
        r"\(..., 2, 2\), got shape \(3, 2\)",
    ),
    (
        ValueError,
        lambda: mx.segmented_mm(mx.ones((2, 3)), mx.ones((3, 2)), mx.array([0, 1, 2])),
        r"shape \(..., 2\), got \(3\)",
    ),
    (
        ValueError,
        lambda: mx.segmented_mm(mx.ones((2, 3)), mx.ones((2, 2)), mx.array([0, 1])),
        r"cannot multiply \(2, 3\) by \(2, 2\)",
    ),
]


@pytest.mark.parametrize(("kind", "call", "message"), ERRORS, ids=range(len(ERRORS)))
def test_errors_say_what_is_wrong(kind: Any, call: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
