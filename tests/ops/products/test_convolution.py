"""Convolutions against MLX and against sums written out, their derivatives, vmap and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core
import numpy as np
import pytest
from tests.support.derivative_checks import (
    Point,
    check_first_order,
    check_second_order,
    check_vmap_everywhere,
)

import ingot.core as mx
from ingot.graph.op import apply
from ingot.ops.products import correlation
from ingot.ops.products.convolution_rules import Convolution, ConvolutionByFilters

Shape = tuple[int, ...]
Case = tuple[Shape, Shape, dict[str, Any]]

GENERAL: list[Case] = [
    ((2, 8, 3), (4, 3, 3), {}),
    ((2, 8, 3), (4, 1, 3), {}),
    ((2, 8, 3), (4, 1, 3), {"stride": 3}),
    ((2, 9, 4), (6, 3, 2), {"stride": 2, "padding": 1, "kernel_dilation": 2, "groups": 2}),
    ((2, 9, 4), (4, 3, 1), {"padding": 1, "groups": 4}),
    ((2, 9, 4), (4, 3, 1), {"stride": 2, "padding": 2, "groups": 4}),
    ((2, 9, 4), (8, 3, 1), {"padding": 1, "groups": 4}),
    ((3, 7, 2), (3, 4, 2), {"padding": ([2], [5])}),
    ((3, 7, 2), (3, 2, 2), {"padding": -1}),
    ((1, 7, 1), (1, 3, 1), {"padding": ([-2], [3])}),
    ((2, 5, 2), (3, 3, 2), {"input_dilation": 2}),
    ((2, 5, 2), (3, 3, 2), {"input_dilation": 3, "padding": 4, "stride": 2}),
    ((2, 5, 2), (3, 4, 2), {"input_dilation": 2, "kernel_dilation": 2, "padding": 3}),
    ((2, 5, 2), (3, 4, 2), {"input_dilation": 6, "kernel_dilation": 4, "stride": 3, "padding": 7}),
    ((2, 5, 2), (3, 4, 2), {"input_dilation": 2, "flip": True, "padding": ([0], [2])}),
    ((2, 6, 7, 3), (4, 3, 2, 3), {}),
    ((2, 6, 7, 3), (4, 3, 2, 3), {"stride": [2, 1], "padding": [1, 2], "flip": True}),
    ((2, 6, 7, 4), (6, 3, 2, 2), {"kernel_dilation": [1, 3], "groups": 2, "padding": 1}),
    ((2, 6, 7, 4), (4, 3, 3, 1), {"padding": 1, "groups": 4}),
    ((2, 4, 3, 2), (3, 3, 3, 2), {"input_dilation": [2, 3], "padding": ([2, 1], [3, 0])}),
    ((1, 9, 9, 2), (3, 9, 9, 2), {}),
    ((2, 3, 4, 3, 2), (3, 2, 2, 2, 2), {}),
    ((2, 3, 4, 3, 2), (3, 2, 2, 3, 2), {"stride": [1, 2, 1], "padding": [1, 0, 2]}),
    ((2, 3, 4, 3, 2), (3, 2, 2, 2, 2), {"input_dilation": [1, 2, 2], "padding": 1}),
]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def case_id(case: Case) -> str:
    return f"{case[0]}-{case[1]}-{case[2]}"


def assert_equal(ours: Any, theirs: Any, tolerance: float = 2e-5) -> None:
    assert ours.shape == theirs.shape
    assert ours.dtype.name == str(theirs.dtype).removeprefix("mlx.core.")
    found = np.array(ours.astype(mx.float32))
    expected = np.array(theirs.astype(mlx.core.float32))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def value_and_cotangents(module: Any, case: Case) -> list[Any]:
    """The convolution and its cotangents for all that depends on it."""
    x, w = module.array(normal(*case[0])), module.array(normal(*case[1], seed=1))
    value = module.conv_general(x, w, **case[2])
    cotangent = module.array(normal(*value.shape, seed=2))
    _, pulled = module.vjp(lambda x, w: module.conv_general(x, w, **case[2]), [x, w], [cotangent])
    return [value, *pulled]


@pytest.mark.parametrize("case", GENERAL, ids=case_id)
def test_values_and_gradients_equal_mlx(case: Case) -> None:
    compare_with_mlx(lambda module: value_and_cotangents(module, case), case[0])


def compare_with_mlx(run: Callable[[Any], list[Any]], shape: Shape) -> None:
    """Value and cotangents equal MLX's, whose cotangent of some dilated inputs is too short."""
    ours, theirs = run(mx), run(mlx.core)
    assert ours[1].shape == shape
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if number == 1 and other.shape != shape:
            continue
        assert_equal(one, other)


def written_out(x: np.ndarray, w: np.ndarray, strides: Shape, padding: Shape) -> np.ndarray:
    """A convolution in groups by loops over results and taps."""
    groups = x.shape[-1] // w.shape[-1]
    padded = np.pad(x, [(0, 0), *((n, n) for n in padding), (0, 0)])
    taps = w.shape[1:-1]
    lengths = [(n - k) // s + 1 for n, k, s in zip(padded.shape[1:-1], taps, strides, strict=True)]
    result = np.zeros((x.shape[0], *lengths, w.shape[0]))
    for place in np.ndindex(*lengths):
        for tap in np.ndindex(*taps):
            at = tuple(y * s + k for y, s, k in zip(place, strides, tap, strict=True))
            elements = padded[(slice(None), *at)].reshape(x.shape[0], groups, -1)
            weights = w[(slice(None), *tap)].reshape(groups, -1, w.shape[-1])
            sums = np.einsum("ngc,goc->ngo", elements, weights)
            result[(slice(None), *place)] += sums.reshape(x.shape[0], -1)
    return result


@pytest.mark.parametrize(
    ("x", "w", "strides"),
    [
        ((2, 5, 4, 3, 4), (6, 2, 2, 2, 2), (1, 2, 1)),
        ((2, 5, 4, 3, 4), (4, 2, 2, 2, 1), (1, 1, 2)),
        ((2, 5, 4, 4), (8, 3, 2, 2), (2, 1)),
    ],
)
def test_groups_in_all_dimensions(x: Shape, w: Shape, strides: Shape) -> None:
    """MLX has groups for signals and images only."""
    inputs, filters = normal(*x), normal(*w, seed=1)
    function = {4: mx.conv2d, 5: mx.conv3d}[len(x)]
    padding = (1,) * len(strides)
    found = function(mx.array(inputs), mx.array(filters), strides, padding, groups=x[-1] // w[-1])
    expected = written_out(inputs, filters, strides, padding)
    np.testing.assert_allclose(np.array(found), expected, rtol=1e-5, atol=1e-5)


FUNCTIONS: list[tuple[str, Shape, Shape, dict[str, Any]]] = [
    ("conv1d", (2, 9, 4), (6, 3, 2), {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}),
    ("conv2d", (2, 6, 7, 3), (4, 3, 2, 3), {"stride": (2, 1), "padding": (1, 0)}),
    ("conv2d", (2, 6, 7, 3), (4, 3, 2, 3), {"dilation": 2, "padding": 2}),
    ("conv3d", (1, 4, 5, 4, 2), (3, 2, 3, 2, 2), {"stride": (1, 2, 1), "padding": 1}),
    ("conv_transpose1d", (2, 4, 2), (4, 3, 2), {}),
    ("conv_transpose1d", (2, 4, 2), (4, 3, 2), {"stride": 2, "output_padding": 1}),
    ("conv_transpose1d", (2, 4, 2), (4, 3, 2), {"stride": 3, "output_padding": -1}),
    ("conv_transpose1d", (2, 4, 4), (4, 3, 2), {"stride": 2, "groups": 2}),
    (
        "conv_transpose2d",
        (2, 4, 4, 4),
        (4, 3, 3, 4),
        {"stride": (2, 3), "padding": (1, 0), "output_padding": (1, 2), "dilation": (1, 2)},
    ),
    ("conv_transpose2d", (2, 4, 4, 4), (6, 3, 2, 2), {"stride": 2, "groups": 2}),
    ("conv_transpose3d", (1, 2, 3, 2, 2), (3, 2, 3, 2, 2), {"stride": 2, "padding": 1}),
]


@pytest.mark.parametrize(("name", "x", "w", "options"), FUNCTIONS)
def test_functions_equal_mlx(name: str, x: Shape, w: Shape, options: dict[str, Any]) -> None:
    def run(module: Any) -> list[Any]:
        arrays = [module.array(normal(*x)), module.array(normal(*w, seed=1))]

        def function(*inputs: Any) -> Any:
            return getattr(module, name)(*inputs, **options)

        value = function(*arrays)
        cotangent = module.array(normal(*value.shape, seed=2))
        return [value, *module.vjp(function, arrays, [cotangent])[1]]

    compare_with_mlx(run, x)


def test_transposed_convolutions_leave_out_padding() -> None:
    """Also where padding is longer than the filters, which MLX takes from the input instead."""
    x, w = mx.array(normal(2, 4, 2)), mx.array(normal(3, 3, 2, seed=1))
    whole = np.array(mx.conv_transpose1d(x, w, 2))
    for padding in (1, 2, 3, 4):
        found = np.array(mx.conv_transpose1d(x, w, 2, padding))
        np.testing.assert_allclose(found, whole[:, padding:-padding], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "dtypes",
    [
        ("float16", "float16"),
        ("bfloat16", "float16"),
        ("bfloat16", "bfloat16"),
        ("float32", "float16"),
        ("float32", "int32"),
        ("float16", "uint8"),
        ("float64", "float32"),
        ("float32", "bool_"),
    ],
)
def test_dtypes_equal_mlx(dtypes: tuple[str, str]) -> None:
    def run(module: Any) -> Any:
        x = module.array(np.round(normal(2, 6, 3) * 4)).astype(getattr(module, dtypes[0]))
        w = module.array(np.round(normal(4, 3, 3, seed=1) * 4)).astype(getattr(module, dtypes[1]))
        with module.stream(module.cpu):
            return module.conv1d(x, w, padding=1)

    assert_equal(run(mx), run(mlx.core), 1e-2)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("sizes", [(5, 3), (5, 4), (3, 5), (1, 1), (4, 4), (6, 1), (1, 3)])
def test_convolve_equals_mlx_and_numpy(mode: str, sizes: tuple[int, int]) -> None:
    a, v = normal(sizes[0]), normal(sizes[1], seed=1)
    found = mx.convolve(mx.array(a), mx.array(v), mode)
    assert_equal(found, mlx.core.convolve(mlx.core.array(a), mlx.core.array(v), mode))
    np.testing.assert_allclose(np.array(found), np.convolve(a, v, mode), rtol=1e-5, atol=1e-5)


def test_convolve_takes_complex_filters() -> None:
    a, v = normal(5), normal(3) + 1j * normal(3, seed=1)
    found = mx.convolve(mx.array(a), mx.array(v))
    np.testing.assert_allclose(np.array(found), np.convolve(a, v), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("block", [1, 40, 1000])
@pytest.mark.parametrize("case", GENERAL[:8] + GENERAL[15:19], ids=case_id)
def test_blocks_do_not_change_values(
    case: Case, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [np.array(x) for x in value_and_cotangents(mx, case)]
    monkeypatch.setattr(correlation, "WINDOW_BLOCK", block)
    for one, other in zip(value_and_cotangents(mx, case), whole, strict=True):
        np.testing.assert_allclose(np.array(one), other, rtol=1e-5, atol=1e-5)


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "in order": lambda x: x,
    "channels first": lambda x: np.ascontiguousarray(np.moveaxis(x, -1, 1)).transpose(0, 2, 3, 1),
    "batch last": lambda x: np.ascontiguousarray(np.moveaxis(x, 0, -1)).transpose(3, 0, 1, 2),
    "backward": lambda x: np.ascontiguousarray(x[::-1, ::-1, :, ::-1])[::-1, ::-1, :, ::-1],
    "every other": lambda x: np.repeat(np.repeat(x, 2, -1), 2, 2)[:, :, ::2, ::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_evaluate_takes_any_strides(layout: str, groups: int) -> None:
    op = Convolution((1, 2), (1, 0), (1, 1), (1, 1), groups, (6, 3))
    x, w = normal(3, 6, 7, 4), normal(4, 3, 2, 4 // groups, seed=1)
    moved = LAYOUTS[layout](x)
    before = moved.copy()
    np.testing.assert_allclose(
        op.evaluate(moved, LAYOUTS[layout](w)), op.evaluate(x, w), rtol=1e-5, atol=1e-5
    )
    np.testing.assert_array_equal(moved, before)


OPS: list[tuple[Any, Shape, Shape]] = [
    (Convolution((1,), (1,), (1,), (1,), 1, (5,)), (2, 5, 2), (3, 3, 2)),
    (Convolution((2,), (1,), (1,), (1,), 2, (3,)), (2, 6, 4), (6, 2, 2)),
    (Convolution((1,), (1,), (2,), (1,), 4, (5,)), (2, 7, 4), (4, 3, 1)),
    (Convolution((1,), (3,), (1,), (2,), 1, (9,)), (2, 4, 2), (3, 3, 2)),
    (Convolution((3,), (-1,), (2,), (2,), 2, (3,)), (1, 6, 4), (2, 2, 2)),
    (Convolution((1, 2), (1, 0), (1, 1), (1, 1), 1, (4, 2)), (2, 4, 5, 2), (3, 3, 2, 2)),
    (ConvolutionByFilters((1,), (1,), (1,), (1,), 1, (3,)), (2, 5, 2), (2, 5, 3)),
    (ConvolutionByFilters((2,), (1,), (1,), (2,), 2, (2,)), (2, 4, 4), (2, 3, 6)),
    (ConvolutionByFilters((1,), (1,), (2,), (1,), 4, (3,)), (2, 7, 4), (2, 5, 4)),
]


@pytest.mark.parametrize(("op", "first", "second"), OPS, ids=lambda x: str(x)[:60])
def test_rules(op: Any, first: Shape, second: Shape) -> None:
    random = np.random.default_rng(5)
    point = Point(lambda a, b: [apply(op, a, b)], [random.normal(size=s) for s in (first, second)])
    check_first_order(point, 1e-3)
    check_second_order(point, 1e-3)
    batches = [random.normal(size=(3, *shape)) for shape in (first, second)]
    check_vmap_everywhere(lambda a, b: [apply(op, a, b)], batches)


def test_complex_cotangents_are_conjugated() -> None:
    x = mx.array(normal(1, 5, 1)).astype(mx.complex64) * (1 + 2j)
    w = mx.array(normal(1, 2, 1, seed=1) * (2 - 1j))
    op = Convolution((1,), (0,), (1,), (1,), 1, (4,))
    g = mx.array(normal(1, 4, 1, seed=2) * (1 + 1j))
    _, (by_x, by_w) = mx.vjp(lambda x, w: apply(op, x, w), [x, w], [g])
    windows = [[x[0, y + k, 0] for k in range(2)] for y in range(4)]
    expected = [sum((windows[y][k].conj() * g[0, y, 0]).item() for y in range(4)) for k in (0, 1)]
    np.testing.assert_allclose(np.array(by_w)[0, :, 0], expected, rtol=1e-5)
    np.testing.assert_allclose(
        np.array(by_x)[0, 0, 0], (w[0, 0, 0].conj() * g[0, 0, 0]).item(), rtol=1e-5
    )


@pytest.mark.parametrize("shapeless", [False, True])
def test_compiled_equals_eager(shapeless: bool) -> None:
    def loss(x: mx.array, w: mx.array) -> mx.array:
        return mx.square(mx.conv2d(mx.tanh(x), w, 2, 1)).sum()

    compiled = mx.compile(mx.value_and_grad(loss, argnums=(0, 1)), shapeless=shapeless)
    for batch, length in ((2, 6), (3, 6), (2, 9)):
        x = mx.array(normal(batch, length, 7, 3))
        w = mx.array(normal(4, 3, 3, 3, seed=1))
        found, gradients = compiled(x, w)
        expected, others = mx.value_and_grad(loss, argnums=(0, 1))(x, w)
        np.testing.assert_allclose(found.item(), expected.item(), rtol=1e-5)
        for one, other in zip(gradients, others, strict=True):
            np.testing.assert_allclose(np.array(one), np.array(other), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("x", "w", "shape"),
    [
        ((0, 4, 2), (4, 2, 2), (0, 3, 4)),
        ((1, 0, 2), (4, 2, 2), (1, 3, 4)),
        ((1, 4, 0), (4, 2, 0), (1, 7, 4)),
        ((1, 4, 2), (0, 2, 2), (1, 7, 0)),
    ],
)
def test_empty_arrays(x: Shape, w: Shape, shape: Shape) -> None:
    padding = {0: 0}.get(x[0], 2)
    found = mx.conv1d(mx.ones(x), mx.ones(w), padding=padding)
    assert found.shape == shape
    assert not np.array(found).any()
    by_x, by_w = mx.grad(lambda x, w: mx.conv1d(x, w, padding=padding).sum(), (0, 1))(
        mx.ones(x), mx.ones(w)
    )
    assert by_x.shape == x
    assert by_w.shape == w


ONES = {shape: mx.ones(shape) for shape in ((1, 4, 2), (3, 2, 2), (1, 4, 4, 2), (4, 2, 2, 2))}
X1, W1, X2, W2 = ONES.values()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mx.conv1d(X1.astype(mx.int32), W1), ValueError, r"real floating-point.*int32"),
        (lambda: mx.conv1d(X1.astype(mx.complex64), W1), ValueError, "real floating-point"),
        (lambda: mx.conv1d(mx.ones((4, 2)), W1), ValueError, r"1 to 3 axes.*\(4, 2\)"),
        (lambda: mx.conv2d(X1, W1), ValueError, r"\[conv2d\] takes inputs with 4 axes"),
        (lambda: mx.conv_general(X1, W2), ValueError, r"have 3 axes.*\(4, 2, 2, 2\)"),
        (lambda: mx.conv1d(X1, mx.ones((3, 2, 3))), ValueError, "read 3 input channels.*has 2"),
        (lambda: mx.conv1d(X1, mx.ones((3, 2, 1)), groups=2), ValueError, "into 2 groups"),
        (lambda: mx.conv1d(mx.ones((1, 4, 3)), W1, groups=2), ValueError, "into 2 groups"),
        (lambda: mx.conv1d(X1, W1, groups=0), ValueError, "into 0 groups"),
        (lambda: mx.conv1d(X1, W1, groups=-1), ValueError, "into -1 groups"),
        (lambda: mx.conv1d(X1, W1, groups=1.0), TypeError, "groups must be an int, got float: 1.0"),
        (lambda: mx.conv1d(X1, W1, stride=0), ValueError, r"stride must be positive, got \(0\)"),
        (lambda: mx.conv1d(X1, W1, dilation=-1), ValueError, "kernel dilation must be positive"),
        (lambda: mx.conv_transpose1d(X1, W1, 0), ValueError, "input dilation must be positive"),
        (lambda: mx.conv1d(X1, mx.ones((3, 5, 2))), ValueError, "axis 1 they reach over 5"),
        (lambda: mx.conv1d(X1, mx.ones((3, 0, 2))), ValueError, "do not fit"),
        (lambda: mx.conv1d([[1]], W1), TypeError, r"\[conv1d\] input must be an array, got list"),
        (lambda: mx.conv1d(X1, np.ones((3, 2, 2))), TypeError, "weight must be an array"),
        (
            lambda: mx.conv1d(X1, W1, stride=(1,)),
            TypeError,
            r"stride must be an int, got tuple: \(1,\)",
        ),
        (lambda: mx.conv2d(X2, W2, stride=(1,)), TypeError, r"an int or 2 ints, got \(1,\)"),
        (lambda: mx.conv2d(X2, W2, stride=(1, 2, 3)), TypeError, "an int or 2 ints"),
        (
            lambda: mx.conv2d(X2, W2, padding=1.0),
            TypeError,
            "padding must be an int or a sequence of ints, got float: 1.0",
        ),
        (lambda: mx.conv_general(X2, W2, [1, 1, 1]), ValueError, "one int for each of 2 axes"),
        (lambda: mx.conv_general(X2, W2, "a"), TypeError, "an int or a sequence of ints"),
        (lambda: mx.conv_general(X2, W2, flip=1), TypeError, "flip must be True or False"),
        (lambda: mx.convolve(X1, X1), ValueError, r"takes vectors, got shapes \(1, 4, 2\)"),
        (lambda: mx.convolve(mx.array([]), mx.ones(2)), ValueError, "an empty one"),
        (lambda: mx.convolve(mx.ones(2), mx.ones(2), "x"), ValueError, "got 'x'"),
        (lambda: mx.convolve(mx.array([1]), mx.ones(1)), ValueError, "real floating-point"),
        (lambda: mx.convolve(mx.ones(2), 1.0), TypeError, r"\[convolve\] v must be an array"),
    ],
)
def test_errors(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("option", "shape"),
    [
        ({"stride": [1]}, (1, 3, 3, 4)),
        ({"stride": []}, (1, 3, 3, 4)),
        ({"padding": [1]}, (1, 5, 5, 4)),
        ({"padding": (1, 2)}, (1, 5, 7, 4)),
        ({"padding": [[1, 2], [0, 1]]}, (1, 4, 6, 4)),
        ({"padding": ([1, 2], [0])}, (1, 4, 5, 4)),
    ],
)
def test_options_of_conv_general(option: dict[str, Any], shape: Shape) -> None:
    assert mx.conv_general(X2, W2, **option).shape == shape
