"""Products of matrices and tensors: values, layouts, dtypes, derivatives, vmap, errors."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import ml_dtypes
import mlx.core
import numpy as np
import pytest
from tests.ops.rule_checks import check_derivatives, numbers

import ingot.core as mx
from ingot.ops.products import contraction

Shape = tuple[int, ...]

# Every pair of kinds of operands: vector, matrix, stack; stacks that broadcast.
SHAPES: list[tuple[Shape, Shape]] = [
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((2, 3), (3, 4)),
    ((4, 2, 3), (3, 5)),
    ((2, 3), (4, 3, 5)),
    ((2, 3), (4, 3, 1)),
    ((3,), (4, 3, 2)),
    ((4, 2, 3), (3,)),
    ((4, 2, 3), (4, 3, 2)),
    ((1, 2, 3), (4, 3, 2)),
    ((5, 1, 2, 3), (4, 3, 2)),
]
EMPTY: list[tuple[Shape, Shape]] = [
    ((2, 0), (0, 3)),
    ((0, 3), (3, 2)),
    ((2, 3), (3, 0)),
    ((0, 2, 3), (3, 4)),
    ((0, 2, 3), (0, 3, 4)),
    ((0,), (0,)),
]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def double(x: np.ndarray) -> mx.array:
    return mx.array(x, dtype=mx.float64)


@pytest.mark.parametrize(("shape_a", "shape_b"), SHAPES + EMPTY)
def test_matmul_equals_numpy(shape_a: Shape, shape_b: Shape) -> None:
    a, b = normal(*shape_a), normal(*shape_b, seed=1)
    product = mx.matmul(double(a), double(b))
    assert product.shape == np.matmul(a, b).shape
    np.testing.assert_allclose(product._data, np.matmul(a, b), rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal((double(a) @ double(b))._data, product._data)


LAYOUTS: dict[str, Any] = {
    "in order": lambda x: x,
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "rows of a wider matrix": lambda x: np.pad(x, ((0, 0), (1, 2)))[:, 1:-2],
    "every other row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "every other column": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "backward rows": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "backward columns": lambda x: np.ascontiguousarray(x[:, ::-1])[:, ::-1],
    "one row repeated": lambda x: np.broadcast_to(x[:1], x.shape),
    "one column repeated": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "one number repeated": lambda x: np.broadcast_to(x[0, 0], x.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, ml_dtypes.bfloat16])
def test_evaluate_takes_any_strides(layout: str, dtype: Any) -> None:
    a = LAYOUTS[layout](normal(6, 7).astype(dtype))
    before = a.copy()
    wide = np.complex128 if dtype is np.complex64 else np.float64
    for left, right in ((a, normal(7, 5).astype(dtype)), (normal(5, 6).astype(dtype), a)):
        product = contraction.Matmul().evaluate(left, right)
        assert product.dtype == dtype
        exact = left.astype(wide) @ right.astype(wide)
        tolerance = float(ml_dtypes.finfo(np.zeros((), dtype).real.dtype).eps) * 8
        np.testing.assert_allclose(product.astype(wide), exact, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(a, before)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_blas_gets_strides_that_it_takes(layout: str) -> None:
    matrix = LAYOUTS[layout](normal(6, 7))
    given = contraction._for_blas(matrix)
    row, column = given.strides
    assert (column == 8 and row >= 7 * 8) or (row == 8 and column >= 6 * 8)
    if layout in ("in order", "transposed", "rows of a wider matrix", "every other row"):
        assert given is matrix


def test_repeated_matrices_are_not_copied() -> None:
    repeated = np.broadcast_to(normal(1, 4, 4)[:, ::-1], (1000, 4, 4))
    assert contraction._for_blas(repeated).shape == (1, 4, 4)
    product = contraction.Matmul().evaluate(repeated, repeated)
    assert product.shape == (1000, 4, 4)
    np.testing.assert_allclose(product[7], repeated[0] @ repeated[0], rtol=1e-13)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_products_are_rounded_once(dtype: str) -> None:
    # 4096 + 1 is no float16 and 256 + 1 no bfloat16: sums in the narrow dtype would stay there.
    ones = mx.ones((1, 8192), getattr(mx, dtype))
    assert (ones @ ones.T).item() == 8192
    a = mx.array(normal(20, 300)).astype(getattr(mx, dtype))
    exact = (a.astype(mx.float32) @ a.T.astype(mx.float32)).astype(getattr(mx, dtype))
    assert mx.array_equal(a @ a.T, exact).item()


def test_a_matrix_and_a_stack_become_one_product() -> None:
    matrix, stack, vectors = mx.ones((3, 4)), mx.ones((100, 5, 3)), mx.ones((100, 4))
    for product, shape in (
        (stack @ matrix, (500, 4)),
        (matrix @ vectors[..., None], (100, 3)),
        (matrix @ mx.ones((100, 4, 2)), (200, 3)),
        (mx.vmap(lambda x: x @ matrix)(stack), (500, 4)),
        (mx.vmap(lambda x: matrix @ x)(vectors), (100, 3)),
    ):
        node = product._node
        while not isinstance(node.op, contraction.Matmul):
            (node,) = node.inputs
        assert node.shape == shape


DTYPES = "bool_ uint8 int32 int64 float16 bfloat16 float32 float64 complex64".split()
PRODUCTS: dict[str, Any] = {
    "matmul": lambda m, a, b: m.matmul(a, b),
    "addmm": lambda m, a, b: m.addmm(m.ones((2, 2), m.float16), a, b, 2.0, 0.5),
    "tensordot": lambda m, a, b: m.tensordot(a, b, 1),
    "inner": lambda m, a, b: m.inner(a, a),
    "outer": lambda m, a, b: m.outer(a, b),
    "vecdot": lambda m, a, b: m.vecdot(a, a),
    "kron": lambda m, a, b: m.kron(a, b),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_dtypes_are_those_of_mlx(name: str) -> None:
    for first in DTYPES:
        for second in DTYPES:
            found = []
            for module in (mx, mlx.core):
                a = module.ones((2, 3)).astype(getattr(module, first))
                b = module.ones((3, 2)).astype(getattr(module, second))
                try:
                    found.append(str(PRODUCTS[name](module, a, b).dtype).rpartition(".")[2])
                except ValueError:
                    found.append("ValueError")
            assert found[0] == found[1], (first, second)


def fixed(*shape: int) -> mx.array:
    """A factor that is not differentiated by."""
    return double(normal(*shape, seed=5))


FUNCTIONS: dict[str, tuple[Any, Shape]] = {
    "vector @ vector": (lambda x: fixed(3) @ x, (3,)),
    "matrix @ matrix": (lambda x: fixed(2, 3) @ x, (3, 2)),
    "matrix @ itself": (lambda x: x @ x, (2, 2)),
    "matrix @ itself transposed": (lambda x: x @ x.T, (2, 3)),
    "stack @ matrix": (lambda x: x @ fixed(3, 4), (2, 2, 3)),
    "matrix @ stack": (lambda x: fixed(4, 3) @ x, (2, 3, 2)),
    "broadcast stack @ stack": (lambda x: x @ fixed(2, 3, 2), (1, 2, 3)),
    "stack @ broadcast stack": (lambda x: fixed(2, 2, 2) @ x, (3, 1, 2, 2)),
    "addmm": (lambda x: mx.addmm(x, x, fixed(3, 3), 0.5, 2.0), (2, 3)),
    "addmm of a row": (lambda x: mx.addmm(x, fixed(2, 3), fixed(3, 2)), (2,)),
    "tensordot": (lambda x: mx.tensordot(x, fixed(4, 2), [[1], [0]]), (2, 4, 2)),
    "inner": (lambda x: mx.inner(x, fixed(4, 3)), (2, 3)),
    "outer": (lambda x: mx.outer(x, x), (3,)),
    "vecdot": (lambda x: mx.vecdot(x, x * fixed(2, 2)), (2, 2)),
    "kron": (lambda x: mx.kron(x, fixed(2, 2)), (2, 3)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name: str) -> None:
    function, shape = FUNCTIONS[name]
    check_derivatives(function, normal(*shape))


def test_complex_derivatives_are_those_of_mlx() -> None:
    a = (normal(2, 3) + 1j * normal(2, 3, seed=1)).astype(np.complex64)
    b = (normal(3, 2, seed=2) + 1j * normal(3, 2, seed=3)).astype(np.complex64)
    g = (normal(2, 2, seed=4) + 1j * normal(2, 2, seed=5)).astype(np.complex64)
    for function in ("matmul", "vecdot"):
        second = b if function == "matmul" else np.ascontiguousarray(b.T)
        cotangent = g if function == "matmul" else g[0]
        results = [
            module.vjp(
                getattr(module, function),
                [module.array(a), module.array(second)],
                [module.array(cotangent)],
            )
            for module in (mx, mlx.core)
        ]
        for ours, theirs in zip(*results, strict=True):
            for x, y in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(numbers(x), numbers(y), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("shape_a", "shape_b"), SHAPES)
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0), (-1, 1)])
def test_vmap_equals_a_loop(
    shape_a: Shape, shape_b: Shape, axes: tuple[int | None, int | None]
) -> None:
    a = normal(*shape_a) if axes[0] is None else normal(4, *shape_a)
    b = normal(*shape_b, seed=1) if axes[1] is None else normal(4, *shape_b, seed=1)
    looped = [
        np.matmul(a if axes[0] is None else a[i], b if axes[1] is None else b[i]) for i in range(4)
    ]
    moved = [
        x if axis is None else np.moveaxis(x, 0, axis) for x, axis in zip((a, b), axes, strict=True)
    ]
    mapped = mx.vmap(mx.matmul, in_axes=axes)(*map(double, moved))
    np.testing.assert_allclose(mapped._data, np.stack(looped), rtol=1e-12, atol=1e-12)


def test_zero_factors_of_addmm_leave_nan_out() -> None:
    one, nan = mx.ones((2, 2)), mx.full((2, 2), float("nan"))
    assert mx.addmm(nan, one, one, 1.0, 0.0).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert mx.addmm(one, nan, one, 0.0, 3.0).tolist() == [[3.0, 3.0], [3.0, 3.0]]


HALVES = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}


@pytest.mark.parametrize("compiles", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("rows", [(3,), (70,), (2, 40)], ids=str)
@pytest.mark.parametrize("name", HALVES)
def test_addmm_of_half_types_rounds_once(name: str, rows: Shape, compiles: bool) -> None:
    half = HALVES[name]
    a, b, c = (
        normal(*shape, seed=seed).astype(half)
        for seed, shape in enumerate(((*rows, 33), (33, 50), (50,)))
    )
    function = mx.compile(mx.addmm) if compiles else mx.addmm
    found = function(*(mx.array(x) for x in (c, a, b)))
    assert found.dtype is getattr(mx, name)
    wide = a.astype(float) @ b.astype(float) + c.astype(float)
    away = np.abs(np.array(found.astype(mx.float32)) - wide)
    half_unit = np.spacing(np.abs(wide).astype(half)).astype(float) / 2
    assert (away <= half_unit * 1.01 + 1e-4 * half_unit.max()).all()


@pytest.mark.parametrize("name", HALVES)
def test_derivatives_of_addmm_of_half_types(name: str) -> None:
    dtype = getattr(mx, name)
    a, b, c, by = (
        mx.array(normal(*shape, seed=seed)).astype(dtype)
        for seed, shape in enumerate(((2, 6, 5), (5, 4), (4,), (2, 6, 4)))
    )
    _, found = mx.vjp(mx.addmm, [c, a, b], [by])
    wide = [np.array(x.astype(mx.float32)).astype(float) for x in (a, b, by)]
    rows = [x.reshape(-1, x.shape[-1]) for x in wide]
    wanted = [rows[2].sum(0), wide[2] @ wide[1].T, rows[0].T @ rows[2]]
    unit = float(ml_dtypes.finfo(HALVES[name]).eps)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype is dtype
        np.testing.assert_allclose(
            np.array(one.astype(mx.float32)), other, rtol=unit, atol=unit * np.abs(other).max()
        )
    (_,), (tangent,) = mx.jvp(mx.addmm, [c, a, b], [c, a, b])
    assert tangent.dtype is dtype
    product = wide[0] @ wide[1]
    added = 2 * product + np.array(c.astype(mx.float32))
    np.testing.assert_allclose(np.array(tangent.astype(mx.float32)), added, rtol=0.02, atol=0.05)
    each = mx.stack([mx.addmm(c, a[n], b) for n in range(2)])
    assert mx.array_equal(mx.vmap(mx.addmm, (None, 0, None))(c, a, b), each)


TENSORDOTS: list[tuple[Shape, Shape, Any]] = [
    ((2, 3, 4), (3, 4, 5), 2),
    ((2, 3), (4, 5), 0),
    ((2, 3), (2, 3), 2),
    ((2, 3, 4), (4, 3, 2), ([0, 2], [2, 0])),
    ((2, 3, 4), (4, 3, 2), [[-1], [0]]),
    ((), (2, 3), 0),
    ((2, 0), (0, 3), 1),
]


@pytest.mark.parametrize(("shape_a", "shape_b", "axes"), TENSORDOTS)
def test_tensordot_equals_numpy(shape_a: Shape, shape_b: Shape, axes: Any) -> None:
    a, b = normal(*shape_a), normal(*shape_b, seed=1)
    expected = np.tensordot(a, b, axes)
    result = mx.tensordot(double(a), double(b), axes)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result._data, expected, rtol=1e-13, atol=1e-13)


def test_kron_outer_inner_equal_numpy() -> None:
    a, b = normal(2, 1, 3), normal(4, 3, seed=1)
    for name in ("kron", "outer", "inner"):
        result = getattr(mx, name)(double(a), double(b))
        np.testing.assert_allclose(result._data, getattr(np, name)(a, b), rtol=1e-13)


def z(*shape: int, dtype: Any = None) -> mx.array:
    return mx.zeros(shape, dtype or mx.float32)


ERRORS: list[tuple[Any, type[Exception], str]] = [
    (
        lambda: z(2, 3) @ z(2, 3),
        ValueError,
        r"\[matmul\] cannot multiply \(2, 3\) by \(2, 3\): the last axis of the first must be as "
        r"long as the second to last axis of the second\.",
    ),
    (
        lambda: z(2, 3) @ z(4),
        ValueError,
        r"\[matmul\] cannot multiply \(2, 3\) by \(4\): .* the first axis of the second\.",
    ),
    (lambda: z() @ z(3), ValueError, r"\[matmul\] takes arrays with at least one axis"),
    (
        lambda: z(2, 2, 3) @ z(3, 3, 4),
        ValueError,
        r"\[matmul\] shapes \(2\) and \(3\) cannot be broadcast together\.",
    ),
    (
        lambda: z(2, 2, dtype=mx.int32) @ z(2, 2, dtype=mx.bool_),
        ValueError,
        r"\[matmul\] takes floating-point or complex numbers, got int32 and bool: convert with "
        r"astype\(mx\.float32\) first\.",
    ),
    (lambda: mx.matmul(2, z(2)), TypeError, r"\[matmul\] a must be an array, got int"),
    (lambda: z(2) @ 3, TypeError, r"\[matmul\] takes arrays"),
    (
        lambda: mx.addmm(z(3, 2), z(2), z(2)),
        ValueError,
        r"\[addmm\] c of shape \(3, 2\) does not broadcast to the shape \(\) of the product\.",
    ),
    (lambda: mx.addmm(z(3, 3), z(2, 2), z(2, 2)), ValueError, r"\[addmm\] shapes"),
    (
        lambda: mx.addmm(1.0, z(2, 2), z(2, 2)),
        TypeError,
        r"\[addmm\] c must be an array, got float",
    ),
    (lambda: mx.addmm(z(2), z(2), z(2), None), TypeError, r"\[addmm\] alpha must be a number"),
    (lambda: mx.addmm(z(2), z(2), z(2), 1, 1j), TypeError, r"\[addmm\] beta must be a number"),
    (lambda: mx.addmm(z(2), z(2), z(2), "2"), TypeError, r"\[addmm\] alpha must be a number"),
    (
        lambda: mx.addmm(z(2), z(2), z(2), z(2)),
        TypeError,
        r"\[addmm\] alpha must be a number, got array",
    ),
    (lambda: mx.tensordot(z(2, 3), z(4, 3), 1), ValueError, r"\[tensordot\] cannot sum over"),
    (lambda: mx.tensordot(z(2), z(2), 2), ValueError, r"cannot sum over 2 axes of arrays with 1"),
    (lambda: mx.tensordot(z(2), z(2), -1), ValueError, r"cannot sum over -1 axes"),
    (lambda: mx.tensordot(z(2), z(2), [[0, 1], [0]]), ValueError, r"sequences of equal length"),
    (
        lambda: mx.tensordot(z(2), z(2), [0, 0]),
        TypeError,
        r"an int or a sequence of sequences of ints",
    ),
    (
        lambda: mx.tensordot(z(2), z(2), 1.5),
        TypeError,
        r"an int or a sequence of sequences of ints",
    ),
    (lambda: mx.tensordot(z(2), z(2), [[5], [0]]), IndexError, r"\[tensordot\] axis 5 is out"),
    (lambda: mx.tensordot(z(2, 2), z(2, 2), [[0, 0], [1, 1]]), ValueError, r"an axis twice"),
    (lambda: mx.inner(z(2, 3), z(2, 4)), ValueError, r"\[inner\] the last axes of shapes"),
    (lambda: mx.vecdot(z(), z()), ValueError, r"\[vecdot\] takes arrays with at least one axis"),
    (lambda: mx.vecdot(z(2, 3), z(2, 3), axis=2), IndexError, r"\[vecdot\] axis 2 is out of"),
    (lambda: mx.vecdot(z(2, 3), z(3)), ValueError, r"the same length along axis 1\."),
    (lambda: mx.kron(z(0), z(2)), ValueError, r"\[kron\] takes arrays with elements"),
    (lambda: mx.kron([1], z(2)), TypeError, r"\[kron\] a must be an array, got list"),
]


@pytest.mark.parametrize(("call", "kind", "sentence"), ERRORS)
def test_errors(call: Any, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        call()


BLAS_THREADS = """
import threadpoolctl
import ingot.core as mx

def found():
    pools = threadpoolctl.threadpool_info()
    return {pool["num_threads"] for pool in pools if pool["user_api"] == "blas"}

mx.eval(mx.ones((2, 2)) @ mx.ones((2, 2)))
assert found() == {1}, found()
mx.eval(mx.erf(mx.zeros((3,))), mx.erfinv(mx.zeros((3,))))
assert found() == {1}, found()
mx.set_num_threads(2)
assert found() == {2}, found()
"""


def test_blas_follows_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_NUM_THREADS", "1")
    done = subprocess.run(
        [sys.executable, "-c", BLAS_THREADS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("stack", [(), (2,)])
def test_cotangents_of_transposed_matrices(dtype: type, stack: tuple[int, ...]) -> None:
    """They are the same as those of copies, and lie in memory row by row, ready for an update."""
    random = np.random.default_rng(2)

    def numbers(*shape: int) -> mx.array:
        parts = random.normal(size=(2, *stack, *shape))
        return mx.array(
            (parts[0] + 1j * parts[1] if dtype is np.complex64 else parts[0]).astype(dtype)
        )

    a, b, cotangent = numbers(5, 3), numbers(4, 5), numbers(3, 4)

    def product(a: mx.array, b: mx.array) -> mx.array:
        return a.swapaxes(-1, -2) @ b.swapaxes(-1, -2)

    def of_copies(a: mx.array, b: mx.array) -> mx.array:
        return mx.contiguous(a.swapaxes(-1, -2)) @ mx.contiguous(b.swapaxes(-1, -2))

    _, found = mx.vjp(product, [a, b], [cotangent])
    _, expected = mx.vjp(of_copies, [a, b], [cotangent])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other), rtol=1e-5, atol=1e-5)
        assert np.array(one, copy=False).flags.c_contiguous


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("count", "length"), [(5000, 8), (40_000, 3), (700, 100), (1, 70_000)])
def test_stacks_of_rows_times_columns(count: int, length: int, dtype: type) -> None:
    """Results without rows and columns of their own."""
    generator = np.random.default_rng(count)
    rows = generator.standard_normal((count, 1, length)).astype(dtype)
    columns = generator.standard_normal((count, length, 1)).astype(dtype)
    expected = rows.astype(float) @ columns.astype(float)
    bound = np.abs(rows.astype(float)) @ np.abs(columns.astype(float)) * np.finfo(dtype).eps * 4
    product = mx.compile(lambda a, b: a @ b)
    for found in (mx.array(rows) @ mx.array(columns), product(mx.array(rows), mx.array(columns))):
        assert (np.abs(np.array(found) - expected) <= bound).all()
