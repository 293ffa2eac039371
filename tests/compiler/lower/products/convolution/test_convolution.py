"""Convolutions as loop nests, against sums over taps that NumPy adds up in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.compiler.lower.products.convolution.reference import Case, convolution, gradients
from tests.support.campaigns import some
from tests.support.processes import require_passing

import ingot.core as mx

# outputs, or taps and channels, that fill an odd number of vectors of half the length
ODD_HALVES = [
    Case((2, 13, 11, 48), (48, 5, 5, 24), padding=2, groups=2),
    Case((2, 12, 11, 37), (69, 3, 3, 37), 2, 1),
    Case((2, 12, 11, 40), (24, 1, 1, 40)),
    Case((2, 12, 11, 24), (40, 3, 3, 24), padding=1),
]
# groups that share vectors
GROUPS = [
    Case((2, 15, 14, 64), (64, 3, 3, 8), padding=1, groups=8),
    Case((2, 12, 25, 42), (42, 3, 3, 6), padding=1, groups=7),  # the last one alone
    Case((2, 11, 12, 3), (12, 3, 3, 1), padding=1, groups=3),  # one channel each, one group missing
    Case((2, 11, 12, 64), (128, 3, 3, 1), padding=1, groups=64),
    Case((2, 13, 11, 48), (96, 5, 5, 12), 2, 2, groups=4),  # three vectors for two groups
    Case((2, 13, 11, 64), (16, 3, 3, 4), padding=1, groups=16),  # one output each
    Case((2, 13, 11, 44), (80, 3, 3, 11), padding=1, groups=4),  # an odd number of channels
]
# few channels: gradients of filters gather patches
PATCHES = [
    Case((3, 12, 13, 3), (40, 3, 3, 3), padding=1),
    Case((2, 15, 14, 3), (64, 7, 7, 3), 2, 3),
    Case((2, 13, 14, 5), (40, 3, 3, 5), padding=2, dilation=2),
    Case((2, 9, 11, 2), (80, 5, 5, 1), groups=2),  # windows are not contiguous
]
# much padding: taps outside of the input are left out
PADDED = [
    Case((2, 9, 8, 12), (40, 7, 7, 12), padding=6),
    Case((2, 13, 12, 24), (24, 5, 4, 24), 2, (4, 3), 2),
    Case((1, 5, 5, 5, 12), (32, 5, 5, 5, 12), padding=2),
    Case((3, 10, 9, 16), (48, 5, 5, 16), padding=(9, 2)),
    Case((2, 9, 9, 48), (96, 5, 5, 12), padding=4, groups=4),
]
SINGLE = Case((2, 8, 7, 1), (1, 1, 1, 1))  # one output, one tap and channel
CASES = [
    Case((2, 8, 8, 4), (6, 3, 3, 4), padding=1),
    Case((1, 1, 1, 1), (1, 1, 1, 1)),
    Case((2, 14, 14, 32), (64, 3, 3, 32), padding=1),
    Case((2, 33, 31, 5), (7, 3, 3, 5), padding=1),  # blocks that do not divide the rows
    Case((3, 17, 19, 20), (33, 3, 5, 20), 2, (1, 2)),
    Case((3, 17, 19, 20), (33, 3, 3, 20), padding=2, dilation=2),
    Case((3, 17, 19, 20), (40, 3, 3, 20)),  # read in place
    Case((3, 17, 19, 20), (40, 1, 1, 20)),
    Case((3, 17, 19, 20), (40, 1, 1, 20), 2),
    Case((2, 9, 9, 20), (80, 3, 3, 20), 3, 1),
    Case((2, 24, 24, 3), (16, 7, 7, 3), 2, 3),
    Case((1, 7, 7, 200), (100, 3, 3, 200), padding=1),
    Case((2, 9, 9, 5), (4, 3, 3, 5), padding=(7, 8)),  # windows outside the input
    Case((2, 12, 11, 5), (4, 3, 3, 5), padding=(-2, -1)),
    Case((3, 17, 19, 20), (40, 3, 3, 5), padding=1, groups=4),
    Case((2, 6, 7, 24), (48, 3, 3, 2), padding=1, groups=12),
    Case((2, 6, 7, 12), (24, 3, 3, 1), padding=1, groups=12),
    Case((2, 14, 14, 32), (32, 7, 7, 1), padding=3, groups=32),
    Case((2, 13, 14, 64), (64, 3, 3, 8), padding=1, groups=8),  # vectors of half the length
    Case((3, 17, 19, 60), (15, 3, 3, 4), 2, (1, 0), groups=15),  # groups that share vectors
    Case((3, 37, 60), (30, 5, 4), dilation=2, groups=15),
    Case((2, 13, 9, 37), (37, 3, 5, 1), 2, (1, 2), groups=37),
    Case((2, 13, 9, 96), (96, 3, 5, 1), 1, (1, 2), 2, 96),
    Case((2, 503, 20), (20, 5, 1), groups=20),
    Case((1, 1303, 16), (16, 5, 1), padding=2, groups=16),
    Case((1, 503, 20), (40, 7, 20), 2, 3),
    Case((3, 5, 2), (3, 5, 2)),
    Case((1, 5, 6, 7, 12), (13, 3, 2, 3, 12), padding=1),
    Case((2, 5, 7, 9, 16), (16, 3, 3, 3, 1), padding=1, groups=16),
    Case((2, 5, 6, 11), (13, 3, 3, 11), padding=2, spread=2),
    Case((2, 5, 6, 12), (18, 3, 4, 4), 3, (1, 2), 2, 3, (2, 3)),
    Case((2, 5, 6, 16), (16, 3, 3, 1), padding=1, groups=16, spread=2),
    Case((2, 13, 9, 32), (3, 3, 5, 32), 2, (1, 2)),  # few outputs
    Case((2, 13, 9, 64), (6, 3, 3, 32), 1, 1, 2, 2),
    Case((2, 19, 3), (48, 5, 3), 2, 2),
    Case((2, 5, 6, 3), (4, 1, 1, 3), spread=3),  # some results meet nothing
    *ODD_HALVES,
    *GROUPS,
    *PATCHES,
    *PADDED,
]
EPSILONS = {"float32": 2.0**-24, "float64": 2.0**-53, "bfloat16": 2.0**-9, "float16": 2.0**-12}


def normal(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def operands(case: Case, dtype: str = "float32") -> tuple[mx.array, mx.array, mx.array]:
    """An input, filters, and what has the shape of the results."""
    results = (case.x[0], *case.lengths(), case.filters[0])
    shapes = (case.x, case.filters, results)
    x, filters, cotangent = (normal(shape, seed) for seed, shape in enumerate(shapes))
    wanted = getattr(mx, dtype)
    return (
        mx.array(x).astype(wanted),
        mx.array(filters).astype(wanted),
        mx.array(cotangent).astype(wanted),
    )


def exact(x: mx.array) -> np.ndarray:
    return np.asarray(x.astype(mx.float64))


def convolved(case: Case) -> Callable[..., mx.array]:
    return lambda x, filters: mx.conv_general(x, filters, **case.options)


def only_kernels(function: Any, *arguments: Any) -> bool:
    return all(work.kind == "kernel" for work in function.explain(*arguments).work)


def require_near(found: mx.array, expected: np.ndarray, bound: np.ndarray, dtype: str) -> None:
    """The usual bound of a sum: an epsilon for each addition, times the sum of absolute values; and
    one of the result's own dtype.
    """
    computed = EPSILONS["float64" if dtype == "float64" else "float32"]
    allowed = 40 * computed * bound + 2 * EPSILONS[dtype] * np.abs(expected) + 1e-30
    difference = np.abs(exact(found) - expected)
    assert (difference <= allowed).all(), (difference / allowed).max()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_equals_sums_over_taps(case: Case) -> None:
    x, filters, _ = operands(case)
    compiled = mx.compile(convolved(case))
    found = compiled(x, filters)
    assert only_kernels(compiled, x, filters)
    expected = convolution(case, exact(x), exact(filters))
    bound = convolution(case, np.abs(exact(x)), np.abs(exact(filters)))
    require_near(found, expected, bound, "float32")


@pytest.mark.parametrize(
    "case", dict.fromkeys((*some(CASES, 3), *ODD_HALVES, *GROUPS[:2], *PATCHES)), ids=str
)
def test_gradients_equal_sums_over_taps(case: Case) -> None:
    arguments = operands(case)
    compiled = mx.compile(lambda x, w, c: mx.vjp(convolved(case), [x, w], [c])[1])
    found = compiled(*arguments)
    assert only_kernels(compiled, *arguments)
    expected = gradients(case, *map(exact, arguments))
    bounds = gradients(case, *(np.abs(exact(x)) for x in arguments))
    for gradient, wanted, bound in zip(found, expected, bounds, strict=True):
        require_near(gradient, wanted, bound, "float32")


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
@pytest.mark.parametrize(
    "case",
    [
        CASES[3],
        CASES[4],
        CASES[14],
        CASES[21],
        CASES[31],
        SINGLE,
        *GROUPS[1:3],
        GROUPS[4],
        PATCHES[2],
        CASES[7],
        PADDED[1],
    ],
    ids=str,
)
def test_other_dtypes(case: Case, dtype: str) -> None:
    def all_three(x: mx.array, w: mx.array, c: mx.array) -> Any:
        (y,), shares = mx.vjp(convolved(case), [x, w], [c])
        return y, *shares

    arguments = operands(case, dtype)
    compiled = mx.compile(all_three)
    found = compiled(*arguments)
    assert only_kernels(compiled, *arguments)
    x, w, c = map(exact, arguments)
    expected = (convolution(case, x, w), *gradients(case, x, w, c))
    x, w, c = map(np.abs, (x, w, c))
    bounds = (convolution(case, x, w), *gradients(case, x, w, c))
    for each, wanted, bound in zip(found, expected, bounds, strict=True):
        assert each.dtype == getattr(mx, dtype)
        require_near(each, wanted, bound, dtype)


@pytest.mark.parametrize("channels", [slice(0, 20), slice(1, 21), slice(2, 22), slice(0, 40, 2)])
@pytest.mark.parametrize("padding", [0, 2])
def test_pairs_of_bfloat16_channels_where_they_are_aligned(channels: slice, padding: int) -> None:
    """Part of the channels: in words, between them, and not adjacent."""
    case = Case((2, 9, 8, 20), (24, 5, 3, 20), padding=padding)
    x = mx.array(normal((2, 9, 8, 41), 0)).astype(mx.bfloat16)
    weights = mx.array(normal((24, 5, 3, 41), 1)).astype(mx.bfloat16)
    function = mx.compile(lambda x, w: convolved(case)(x[..., channels], w[..., channels]))
    found = function(x, weights)
    assert only_kernels(function, x, weights)
    part, filters = exact(x)[..., channels], exact(weights)[..., channels]
    bound = convolution(case, np.abs(part), np.abs(filters))
    require_near(found, convolution(case, part, filters), bound, "bfloat16")
    even = mx.compile(convolved(case))(mx.array(part).astype(mx.bfloat16), weights[..., channels])
    require_near(even, convolution(case, part, filters), bound, "bfloat16")


@pytest.mark.parametrize(
    "layout", ["transposed", "every second", "every second channel", "reversed", "part"]
)
@pytest.mark.parametrize(
    "case",
    [CASES[3], CASES[6], CASES[7], CASES[17], CASES[14], GROUPS[0], GROUPS[2], PATCHES[0]],
    ids=str,
)
def test_operands_in_any_layout(case: Case, layout: str) -> None:
    def laid(a: np.ndarray) -> np.ndarray:
        """The array of which `moved` shows a."""
        if layout == "transposed":
            return a.transpose(0, 3, 1, 2)
        if layout == "every second":
            return np.repeat(a, 2, axis=2)
        if layout == "every second channel":
            return np.stack([a, a + 1], axis=-1).reshape(*a.shape[:-1], -1)
        if layout == "reversed":
            return a[..., ::-1]
        return np.concatenate([a, a], axis=-1)

    def moved(a: mx.array) -> mx.array:
        if layout == "transposed":
            return mx.transpose(a, (0, 2, 3, 1))
        if layout == "every second":
            return a[:, :, ::2]
        if layout == "every second channel":
            return a[..., ::2]
        if layout == "reversed":
            return a[..., ::-1]
        return a[..., : a.shape[-1] // 2]

    def given(a: mx.array) -> mx.array:
        return mx.array(np.ascontiguousarray(laid(np.asarray(a))))

    x, filters, cotangent = operands(case)

    def all_three(a: mx.array, b: mx.array, c: mx.array) -> Any:
        (y,), shares = mx.vjp(convolved(case), [moved(a), moved(b)], [moved(c)])
        return y, *shares

    compiled = mx.compile(all_three)
    found = compiled(given(x), given(filters), given(cotangent))
    (y,), shares = mx.vjp(convolved(case), [x, filters], [cotangent])
    for each, wanted in zip(found, (y, *shares), strict=True):
        np.testing.assert_allclose(np.asarray(each), np.asarray(wanted), 1e-4, 1e-4)


@pytest.mark.parametrize("case", [CASES[2], CASES[6], CASES[17], CASES[29]], ids=str)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_a_number_stays_where_it_is_met(case: Case, value: float) -> None:
    x, filters, _ = operands(case)
    changed = np.asarray(x).copy()
    changed[0, 2, 3, 1] = value
    found = exact(mx.compile(convolved(case))(mx.array(changed), filters))
    expected = convolution(case, changed, exact(filters))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(found), finite)
    np.testing.assert_allclose(found[finite], expected[finite], 1e-4, 1e-4)


@pytest.mark.parametrize(
    "case",
    [
        Case((0, 5, 5, 3), (4, 3, 3, 3)),
        Case((2, 5, 5, 0), (4, 3, 3, 0)),
        Case((2, 5, 5, 3), (0, 3, 3, 3)),
    ],
    ids=str,
)
def test_nothing(case: Case) -> None:
    x, filters, _ = operands(case)
    found = mx.compile(convolved(case))(x, filters)
    np.testing.assert_array_equal(exact(found), convolution(case, exact(x), exact(filters)))


def test_shapes_that_keep_changing() -> None:
    compiled = mx.compile(lambda x, w: mx.conv2d(x, w, padding=1), shapeless=True)
    filters = mx.array(normal((4, 3, 3, 3), 1))
    for side in (5, 6, 9):
        case = Case((2, side, side, 3), (4, 3, 3, 3), padding=1)
        x = mx.array(normal(case.x, 0))
        expected = convolution(case, exact(x), exact(filters))
        np.testing.assert_allclose(exact(compiled(x, filters)), expected, 1e-4, 1e-4)


def test_blas_on_request() -> None:
    x, filters, _ = operands(CASES[2])
    mx.set_product_engine("blas")
    try:
        compiled = mx.compile(convolved(CASES[2]))
        assert not only_kernels(compiled, x, filters)
    finally:
        mx.set_product_engine("ingot")


def checksum(case: Case) -> bytes:
    """All bits of a convolution and its gradients."""
    compiled = mx.compile(lambda x, w, c: mx.vjp(convolved(case), [x, w], [c]))
    (y,), shares = compiled(*operands(case))
    return b"".join(np.asarray(each).tobytes() for each in (y, *shares))


@pytest.mark.parametrize("case", [CASES[2], CASES[4], CASES[11], CASES[17]], ids=str)
def test_same_bits_with_any_number_of_threads(case: Case) -> None:
    before = mx.get_num_threads()
    found = set()
    try:
        for threads in (1, 2, 3, 7):
            mx.set_num_threads(threads)
            found.add(checksum(case))
    finally:
        mx.set_num_threads(before)
    assert len(found) == 1


@pytest.mark.parametrize("bits", ["128", "256"])
def test_narrower_vectors(bits: str) -> None:
    """The same tests on a processor with fewer and shorter registers."""
    cases = some(CASES, 7)[int(bits == "256") :]
    chosen = [f"{__file__}::test_equals_sums_over_taps[{case}]" for case in cases]
    chosen.append(f"{__file__}::test_other_dtypes[{SINGLE}-float64]")  # half of 128 bits
    require_passing(chosen, INGOT_VECTOR_BITS=bits)


def all_bits(function: Callable[..., Any], *arguments: mx.array) -> list[bytes]:
    (y,), shares = function(*arguments)
    return [np.asarray(each).tobytes() for each in (y, *shares)]


@pytest.mark.parametrize("is_large", [True, False])
def test_uncompiled_ones_have_the_same_bits(is_large: bool) -> None:
    """Large ones always, small ones where deterministic results are asked for."""
    case = Case((2, 33, 31, 64), (160, 3, 3, 64), padding=1) if is_large else CASES[3]
    arguments = operands(case)

    def both(x: mx.array, w: mx.array, c: mx.array) -> Any:
        return mx.vjp(convolved(case), [x, w], [c])

    mx.set_deterministic(not is_large)
    mx.set_eager_fusion(False)
    try:
        assert all_bits(both, *arguments) == all_bits(mx.compile(both), *arguments)
    finally:
        mx.set_deterministic(False)
        mx.set_eager_fusion(True)


def test_uncompiled_ones_are_left_to_blas_if_asked_for() -> None:
    case = Case((2, 33, 31, 64), (160, 3, 3, 64), padding=1)
    x, filters, _ = operands(case)
    found = []
    for engine in ("ingot", "blas"):
        mx.set_product_engine(engine)
        try:
            found.append(exact(convolved(case)(x, filters)))
        finally:
            mx.set_product_engine("ingot")
    assert (found[0] != found[1]).any()
    np.testing.assert_allclose(*found, 1e-4, 1e-4)
