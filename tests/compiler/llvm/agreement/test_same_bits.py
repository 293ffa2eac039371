"""The same program gives the same bits: op by op, fused without compile, compiled, and in MLX.

Every op of the registry is tried. Math functions (`Op.approximate`) may differ in the last places,
all others not at all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import mlx.core
import numpy as np
import pytest
from tests.support.bits import different_bits, edges, pairs_of_special, ulps_apart

import ingot.core as mx
from ingot import _native
from ingot.graph.dtype import ALL_DTYPES, bool_, is_inexact
from ingot.graph.op import registry
from ingot.graph.roles import Elementwise
from ingot.graph.roles.elementwise import lift

OPS = {
    name: kind()
    for name, kind in sorted(registry().items())
    if issubclass(kind, Elementwise) and not fields(kind)
}
COUNT = 5003  # odd, so that vectors have a rest; types of 16 bits have all their values anyway
# Units in the last place by which NumPy's and the kernels' math functions may differ: of float32
# each is wrong by up to four.
ULPS = {mx.float16: 1, mx.bfloat16: 1, mx.float32: 8, mx.float64: 8}


def _accepted(op: Elementwise) -> list[mx.Dtype]:
    accepted = [dtype for dtype in ALL_DTYPES if op.accepts >> dtype.number & 1]
    if op.operands == "floating":
        return [dtype for dtype in accepted if is_inexact(dtype)]
    return [bool_] if op.operands == "logical" else accepted


def _is_approximate(op: Elementwise, dtype: mx.Dtype) -> bool:
    return bool(op.approximate >> dtype.number & 1)


CASES = [
    pytest.param(op, dtype, id=f"{name}-{dtype.name}")
    for name, op in OPS.items()
    for dtype in _accepted(op)
]


@pytest.fixture
def op_by_op() -> Iterator[None]:
    """No fusion but by `compile`."""
    mx.set_eager_fusion(False)
    yield
    mx.set_eager_fusion(True)


def _arguments(op: Elementwise, dtype: mx.Dtype, seed: int = 0) -> list[mx.array]:
    generator = np.random.default_rng(seed)
    values = [edges(dtype.numpy, COUNT, generator) for _ in range(op.arity)]
    for each, first in zip(values[::-1], pairs_of_special(dtype.numpy), strict=False):
        each[: first.size] = first  # of three, the last two: the first is a condition
    arguments = [mx.array(each, dtype) for each in values]
    if op.operands == "select":
        arguments[0] = arguments[0].astype(mx.bool_)
    return arguments


def _numpy(x: mx.array) -> np.ndarray:
    mx.eval(x)
    found: np.ndarray = np.array(x._node.data)
    return found


def _assert_equal_bits(found: mx.array, expected: mx.array, arguments: list[mx.array]) -> None:
    ours, theirs = _numpy(found), _numpy(expected)
    places = different_bits(ours, theirs)
    if places.size:
        place = int(places[0]) // (2 if ours.dtype.kind == "c" else 1)
        inputs = [_numpy(x).reshape(-1)[place] for x in arguments]
        raise AssertionError(
            f"{places.size} differ, first of {inputs}: "
            f"{ours.reshape(-1)[place]!r} and {theirs.reshape(-1)[place]!r}"
        )


@pytest.mark.usefixtures("op_by_op")
@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_every_op_compiled_and_not(op: Elementwise, dtype: mx.Dtype) -> None:
    function = lift(op)
    arguments = _arguments(op, dtype)
    expected = function(*arguments)
    found = mx.compile(lambda *x: mx.stop_gradient(function(*x)))(*arguments)
    if not _is_approximate(op, dtype):
        _assert_equal_bits(found, expected, arguments)
    elif op.name != "logaddexp" and dtype is not mx.complex64:  # in proportion to their terms
        assert ulps_apart(_numpy(found), _numpy(expected)) <= ULPS[dtype]


def _between_others(op: Elementwise) -> Callable[..., Any]:
    """The op with arithmetic around it: what kernels could contract, or not round, they would."""
    function = lift(op)

    def chain(*x: mx.array) -> mx.array:
        if op.operands == "select":
            inner = function(x[0], x[1] * x[2], x[2] + x[1])
        else:
            inner = function(*(each * x[0] + each for each in x))
        return inner * x[-1] + x[-1] * x[-1] - inner

    return chain


@pytest.mark.usefixtures("op_by_op")
@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        pytest.param(op, dtype, id=f"{name}-{dtype.name}")
        for name, op in OPS.items()
        for dtype in _accepted(op)
        if is_inexact(dtype) and not _is_approximate(op, dtype)
    ],
)
def test_every_exact_op_between_others(op: Elementwise, dtype: mx.Dtype) -> None:
    chain = _between_others(op)
    arguments = _arguments(op, dtype, 1)
    _assert_equal_bits(mx.compile(chain)(*arguments), chain(*arguments), arguments)


def _polynomial(x: Any) -> Any:
    return ((x * 1.1 + 0.3) * x - 0.7) * x + 2.3


def _quotients(x: Any) -> Any:
    return (x / 3 - abs(x) * 0.1) / (x * x + 1) + (1 / x - x / 7) * (x // 0.3)


def _choices(m: Any, x: Any) -> Any:
    y = m.where(x * 0.3 > x - 1, m.maximum(x * 1.7, 0.1), m.minimum(-x, x * x))
    return m.sqrt(m.abs(y)) * m.floor(x * 0.7) + m.square(m.round(y)) - m.sign(x) * y


def _casts(m: Any, x: Any) -> Any:
    y = (x.astype(m.float32) * 1.1 + 0.3).astype(x.dtype)
    return (y * 1.3 + x).astype(m.float32) * (x - y).astype(m.float32)


CHAINS: dict[str, Callable[[Any, Any], Any]] = {
    "polynomial": lambda m, x: _polynomial(x),
    "quotients": lambda m, x: _quotients(x),
    "choices": _choices,
    "casts": _casts,
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_chains_give_the_bits_of_mlx_however_they_run(name: str, dtype: str) -> None:
    """Uncompiled, graphs run op by op twice and fused after that."""
    chain = CHAINS[name]
    ours = getattr(mx, dtype)
    values = edges(ours.numpy, 1 << 16, np.random.default_rng(3))
    x = mx.array(values, ours)
    unsigned = "uint32" if dtype == "float32" else "uint16"
    bits = values.view(unsigned)
    theirs = chain(mlx.core, mlx.core.array(bits).view(getattr(mlx.core, dtype)))
    wide = getattr(mlx.core, "uint32" if theirs.dtype.size == 4 else "uint16")
    expected = np.array(theirs.view(wide))
    compiled = mx.compile(lambda x: chain(mx, x))
    for turn in range(4):
        for found in (chain(mx, x), compiled(x)):
            result = _numpy(found)
            places = different_bits(result, expected.view(result.dtype))
            assert places.size == 0, (turn, values[places[0]], result[places[0]])


def test_excess_precision_is_a_setting() -> None:
    x = mx.array(np.linspace(-3, 3, 1 << 16), mx.bfloat16)
    compiled = mx.compile(_polynomial)
    rounded = _numpy(compiled(x))
    exact = _polynomial(np.array(x.astype(mx.float32)).astype(np.float64))
    try:
        mx.set_excess_precision(True)
        excess = _numpy(compiled(x))
        uncompiled = [_numpy(_polynomial(x)) for _ in range(3)][-1]
    finally:
        mx.set_excess_precision(False)
    assert different_bits(excess, rounded).size > 0
    assert different_bits(excess, uncompiled).size == 0
    errors = [np.abs(each.astype(np.float64) - exact).max() for each in (excess, rounded)]
    assert errors[0] < errors[1]
    assert different_bits(_numpy(compiled(x)), rounded).size == 0


def test_excess_precision_takes_a_bool() -> None:
    with pytest.raises(TypeError, match="must be True or False, got str: 'yes'"):
        mx.set_excess_precision("yes")  # type: ignore[arg-type]


SHAPES = [(31,), (700,), (40000,), (37, 70), (2, 9000), (9000, 3), (600, 130), (5, 19, 23)]
SHAPES += [(3, 40, 513), (4, 1, 6, 50), (70, 3, 40, 5)]
SUMS = [(shape, mx.float32) for shape in SHAPES]
SUMS += [
    (shape, dtype)
    for shape in ((700,), (600, 130), (5, 19, 23))
    for dtype in (mx.float16, mx.bfloat16, mx.float64, mx.complex64)
]


def _layouts(values: np.ndarray) -> Iterator[np.ndarray]:
    """The same array in memory in other ways: as it is, backwards, transposed, with gaps."""
    yield values
    turned = values[tuple(slice(None, None, -1) for _ in values.shape)].copy()
    yield turned[tuple(slice(None, None, -1) for _ in values.shape)]
    yield values.T.copy().T
    wide = np.zeros((*values.shape[:-1], values.shape[-1] + 3), values.dtype)
    wide[..., : values.shape[-1]] = values
    yield wide[..., : values.shape[-1]]


def _subsets(ndim: int) -> list[tuple[int, ...]]:
    return [
        tuple(axis for axis in range(ndim) if number >> axis & 1) for number in range(1, 1 << ndim)
    ]


def _summands(dtype: mx.Dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of many sizes, whose sums depend on every rounding."""
    generator = np.random.default_rng(7)
    parts = [
        generator.standard_normal(shape) * np.exp(generator.uniform(-8, 8, shape))
        for _ in range(2 if dtype is mx.complex64 else 1)
    ]
    values = parts[0] if len(parts) == 1 else parts[0] + 1j * parts[1]
    return values.astype(np.complex64 if len(parts) > 1 else np.float32).astype(dtype.numpy)


@pytest.mark.usefixtures("op_by_op")
@pytest.mark.parametrize(("shape", "dtype"), SUMS, ids=str)
def test_sums_have_one_order(shape: tuple[int, ...], dtype: mx.Dtype) -> None:
    """Alone, fused, along any axes, in any layout: the same bits as op by op."""
    values = _summands(dtype, shape)
    every = _subsets(len(shape))

    def sums(x: mx.array) -> list[mx.array]:
        return [
            *(mx.sum(x, axes) for axes in every),
            *(mx.sum(x * 3 + 1, axes, keepdims=True) for axes in every[-2:]),
            mx.prod(x * 0.001 + 1, every[0]),
            x - mx.mean(x, every[-1], keepdims=True),
            x / mx.max(mx.abs(x) + mx.sum(x * x, -1, keepdims=True), -1, keepdims=True),
        ]

    if dtype is mx.complex64:

        def sums(x: mx.array) -> list[mx.array]:
            return [f(x * 3 + 1, axes) for f in (mx.sum, mx.prod) for axes in every]

    expected = [_numpy(each) for each in sums(mx.array(values, dtype))]
    compiled = mx.compile(sums)
    layouts = list(_layouts(values))
    for laid_out in layouts if dtype is mx.float32 else layouts[:3:2]:
        x = _native.constant(laid_out, dtype)
        mx.eval(compiled(x))  # a layout gets a program of its own when it comes again
        for number, (found, right) in enumerate(zip(compiled(x), expected, strict=True)):
            places = different_bits(_numpy(found), right)
            assert places.size == 0, (laid_out.strides, number, places[:5])


@pytest.mark.usefixtures("op_by_op")
@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32, mx.float64])
def test_extremes_of_zeros_depend_on_no_order(dtype: mx.Dtype) -> None:
    """-0 is less than +0, wherever among others they are."""
    generator = np.random.default_rng(5)
    zeros = generator.choice(np.array([0.0, -0.0], np.float32), (6, 5, 70))
    zeros[0, :, :] = 0.0
    zeros[1, :, :] = -0.0

    def extremes(x: mx.array) -> list[mx.array]:
        below, above = mx.minimum(x - 0, x), mx.where(x > 1, x, x)
        return [f(x, axes) for x in (below, above) for f in (mx.max, mx.min) for axes in every]

    every = _subsets(zeros.ndim)
    for others in (-1.0, 1.0):
        values = np.where(generator.random(zeros.shape) < 0.3, np.float32(others), zeros)
        largest = [_signed_extreme(np.max, values, axes) for axes in every]
        smallest = [_signed_extreme(np.min, values, axes) for axes in every]
        expected = [each.astype(dtype.numpy) for each in (largest + smallest) * 2]
        compiled = mx.compile(extremes)
        for laid_out in _layouts(values.astype(dtype.numpy)):
            x = _native.constant(laid_out, dtype)
            mx.eval(compiled(x))
            for found in (extremes(x), compiled(x)):
                for each, right in zip(found, expected, strict=True):
                    assert different_bits(_numpy(each), right).size == 0


def _signed_extreme(function: Any, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The extreme of numbers of which none is tiny, with -0 moved below all zeros."""
    moved = np.where((x == 0) & np.signbit(x), np.float32(-1e-30), x)
    found = function(moved, axes)
    return np.where(found == np.float32(-1e-30), np.float32(-0.0), found)


@pytest.mark.usefixtures("op_by_op")
def test_sums_are_right() -> None:
    """Each order of summation has its error; this one's is small."""
    values = np.random.default_rng(3).uniform(0, 1, (3, 1_000_003)).astype(np.float32)
    exact = values.sum(1, dtype=np.float64)
    x = mx.array(values)
    for found in (mx.sum(x, 1), mx.compile(lambda x: mx.sum(x, 1))(x)):
        np.testing.assert_allclose(_numpy(found), exact, rtol=1e-7)
    across = mx.array(values.T.copy())
    for found in (mx.sum(across, 0), mx.compile(lambda x: mx.sum(x, 0))(across)):
        np.testing.assert_allclose(_numpy(found), exact, rtol=1e-7)


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_sums_do_not_depend_on_threads(dtype: mx.Dtype) -> None:
    values = mx.array(_summands(dtype, (300, 1000)), dtype)
    function = mx.compile(lambda x: [mx.sum(x), mx.sum(x, 0), mx.sum(x, 1), mx.softmax(x, 0)])
    before = mx.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            mx.set_num_threads(threads)
            results.append([_numpy(each) for each in function(values)])
    finally:
        mx.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert different_bits(a, b).size == 0


@pytest.mark.usefixtures("op_by_op")
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16, mx.complex64])
@pytest.mark.parametrize("width", [1, 8])
def test_updates_of_the_same_element_are_applied_in_order(dtype: mx.Dtype, width: int) -> None:
    generator = np.random.default_rng(11)
    x = mx.array(_summands(dtype, (50, width)), dtype)
    updates = mx.array(_summands(dtype, (3000, width)), dtype)
    places = mx.array(generator.integers(0, 50, 3000))
    for update in (
        lambda x, u, i: x.at[i].add(u),
        lambda x, u, i: x.at[i].multiply(u * 0.001 + 1),
        lambda x, u, i: x.at[i].maximum(u),
    ):
        found = mx.compile(update)(x, updates, places)
        assert different_bits(_numpy(found), _numpy(update(x, updates, places))).size == 0


@pytest.fixture
def deterministic() -> Iterator[None]:
    """The setting for one test."""
    mx.set_deterministic(True)
    yield
    mx.set_deterministic(False)


@pytest.mark.usefixtures("op_by_op", "deterministic")
@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        pytest.param(op, dtype, id=f"{name}-{dtype.name}")
        for name, op in OPS.items()
        for dtype in _accepted(op)
        if _is_approximate(op, dtype)
    ],
)
def test_math_functions_have_one_result_if_deterministic(op: Elementwise, dtype: mx.Dtype) -> None:
    function = lift(op)
    arguments = _arguments(op, dtype)
    expected = function(*arguments)
    found = mx.compile(lambda *x: mx.stop_gradient(function(*x)))(*arguments)
    _assert_equal_bits(found, expected, arguments)
    constants = [x[7] for x in arguments]
    folded = mx.compile(lambda: function(*(mx.array(x.item(), dtype) for x in constants)))()
    _assert_equal_bits(folded.reshape(1), expected[7:8], [x.reshape(1) for x in constants])


_EVERYTHING = """
import hashlib
import numpy as np
import ingot.core as mx

generator = np.random.default_rng(0)
x = mx.array(generator.standard_normal((300, 500)).astype(np.float32))
w = mx.array(generator.standard_normal((500, 700)).astype(np.float32))

def program(x, w):
    y = x @ w
    return [
        mx.softmax(mx.tanh(y) * mx.exp(-mx.abs(y)), -1),
        mx.logsumexp(x, 0),
        mx.var(x),
        mx.sin(x[0]) + mx.log(mx.abs(x[1])),
        (x @ w[:, :1]).sum(),
        mx.linalg.inv(x[:, :300] @ x[:, :300].T + mx.eye(300) * 300, stream=mx.cpu),
        mx.erf(x.astype(mx.bfloat16)).astype(mx.float32),
        mx.conv1d(x.reshape(3, 100, 500), w[:, :400].reshape(80, 5, 500) * 0.01),
        mx.zeros((40,)).at[mx.arange(150000).reshape(300, 500) % 40].add(x),
    ]

digests = set()
compiled = mx.compile(program)
for _ in range(3):
    for run in (program, compiled):
        bits = b"".join(np.array(each).tobytes() for each in run(x, w))
        digests.add(hashlib.md5(bits).hexdigest())
print(*digests)
"""


def test_deterministic_in_every_evaluation_process_and_number_of_threads() -> None:
    found = []
    for threads in ("1", "2", "3"):
        settings = {"INGOT_DETERMINISTIC": "1", "INGOT_NUM_THREADS": threads}
        found += subprocess.check_output(
            [sys.executable, "-c", _EVERYTHING], text=True, env={**os.environ, **settings}
        ).split()
    assert len(found) == 3
    assert len(set(found)) == 1


@pytest.mark.usefixtures("op_by_op")
@pytest.mark.parametrize("dtype", [mx.float32, mx.float64, mx.complex64, mx.bfloat16])
def test_products_compiled_and_not(dtype: mx.Dtype) -> None:
    sizes = [(1, 5, 1), (3, 3, 3), (17, 33, 5), (1, 1000, 30), (64, 1, 64), (128, 300, 1)]
    for m, k, n in sizes:
        for turned in range(4):
            a = mx.array(_summands(dtype, (k, m) if turned & 1 else (m, k)), dtype)
            b = mx.array(_summands(dtype, (n, k) if turned & 2 else (k, n)), dtype)

            def product(a: mx.array, b: mx.array, turned: int = turned) -> mx.array:
                return (a.T if turned & 1 else a) @ (b.T if turned & 2 else b)

            found, expected = mx.compile(product)(a, b), product(a, b)
            assert different_bits(_numpy(found), _numpy(expected)).size == 0, (m, k, n, turned)
