"""Functions that MLX and ingot both have, each of a module `mx` and example arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Arrays = tuple[np.ndarray, ...]

_generator = np.random.default_rng(7)


def _uniform(*shape: int) -> np.ndarray:
    return _generator.uniform(0.1, 0.9, shape).astype(np.float32)


X = _uniform(2, 3)
SQUARE = _uniform(4, 4)
POSITIVE = (SQUARE @ SQUARE.T + np.eye(4)).astype(np.float32)
STACK = _uniform(2, 4, 4, 4)
INTEGERS = np.array([[5, 3, 1], [0, 7, 2]], np.int32)
COMPLEX = (X + 1j * X[::-1]).astype(np.complex64)
INDEX = np.array([1, 0], np.int32)
ROWS = _generator.standard_normal((8, 64)).astype(np.float32)
WEIGHTS = _generator.standard_normal((16, 64)).astype(np.float32)
KEY = np.array([3, 9], np.uint32)


class Case(NamedTuple):
    """A function of `mx` and arrays, and example arrays."""

    name: str
    function: Callable[..., Any]
    arrays: Arrays


def _unary(names: str, *arrays: np.ndarray) -> list[Case]:
    return [
        Case(name, lambda mx, *xs, name=name: getattr(mx, name)(*xs), arrays)
        for name in names.split()
    ]


def _case(name: str, function: Callable[..., Any], *arrays: np.ndarray) -> Case:
    return Case(name, function, arrays)


def _set(index: Any, value: Any) -> Callable[..., Any]:
    def function(mx: Any, a: Any) -> Any:
        a[mx.array(index) if isinstance(index, np.ndarray) else index] = value
        return a

    return function


def _at(method: str, index: Any) -> Callable[..., Any]:
    def function(mx: Any, a: Any) -> Any:
        place = mx.array(index) if isinstance(index, np.ndarray) else index
        return getattr(a.at[place], method)(2.0)

    return function


def _conv(mx: Any, a: Any, w: Any) -> Any:
    return mx.conv_general(
        a,
        w,
        stride=1,
        padding=([1, 0], [0, 1]),
        kernel_dilation=2,
        input_dilation=2,
        groups=2,
        flip=True,
    )


CASES: tuple[Case, ...] = (
    *_unary(
        """abs arccos arcsin arcsinh arctan arctanh ceil cos cosh degrees erf erfinv exp expm1 floor
        isnan isinf isfinite log log2 log10 log1p logical_not negative reciprocal round rsqrt
        sigmoid sign sin sinh sqrt square stop_gradient tan tanh argmax argmin all any sum prod min
        max mean var std logsumexp softmax cumsum cumprod cummax cummin sort argsort flatten
        transpose diag trace squeeze zeros_like ones_like median nan_to_num real imag""",
        X,
    ),
    *_unary("arccosh", X + 1),
    *_unary(
        """add subtract multiply divide power maximum minimum equal not_equal less less_equal
        greater greater_equal logical_and logical_or remainder floor_divide arctan2 logaddexp
        isclose allclose array_equal divmod""",
        X,
        X[::-1].copy(),
    ),
    *_unary(
        """bitwise_and bitwise_or bitwise_xor left_shift right_shift power divide""",
        INTEGERS,
        INTEGERS % 3,
    ),
    *_unary("floor_divide divmod remainder", INTEGERS, INTEGERS + 1),
    *_unary("sum prod any max argmin cumsum", INTEGERS),
    *_unary("abs conjugate real imag exp", COMPLEX),
    _case("equal nan", lambda mx, a, b: mx.array_equal(a, b, equal_nan=True), X, X),
    _case("where", lambda mx, a, b: mx.where(a > 0.5, a, b), X, X + 1),
    _case("clip", lambda mx, a: mx.clip(a, 0.2, 0.5), X),
    _case("addmm", lambda mx, a, b: mx.addmm(a, b, b, 0.5, 2.0), SQUARE, POSITIVE),
    _case(
        "addmm of half types",
        lambda mx, a, b: mx.addmm(*(x.astype(mx.float16) for x in (a, b, b))),
        *(SQUARE, POSITIVE),
    ),
    _case("matmul", lambda mx, a, b: a @ b, STACK, SQUARE),
    _case("arange", lambda mx, a: a + mx.arange(1.0, 7, 2), X),
    _case("linspace", lambda mx, a: a + mx.linspace(0, 1, 3), X),
    _case("partition", lambda mx, a: mx.sort(mx.partition(a, 1)[..., :2]), X),
    _case("argpartition", lambda mx, a: mx.argpartition(a, 1)[..., 1], X),
    _case("topk", lambda mx, a: mx.sort(mx.topk(a, 2)), X),
    _case("as_strided", lambda mx, a: mx.as_strided(a, (2, 2), (1, 2), 1), X),
    _case("view", lambda mx, a: a.view(mx.int32), X),
    _case("astype", lambda mx, a: a.astype(mx.bfloat16).astype(mx.float32), X),
    _case("concatenate", lambda mx, a: mx.concatenate([a, a], 1), X),
    _case("stack", lambda mx, a: mx.stack([a, a], 1), X),
    _case("split", lambda mx, a: mx.split(a, [1, 2], 1), X),
    _case("pad", lambda mx, a: mx.pad(a, ((1, 2), (0, 3)), constant_values=2.0), X),
    _case("slice", lambda mx, a: a[::-1, 1:], X),
    _case("backwards", lambda mx, a: a[::-1, ::-2], X),
    _case("element", lambda mx, a: a[-1:, -2], X),
    _case("gather", lambda mx, a, i: a[i], X, INDEX),
    _case("gather two", lambda mx, a, i: a[i, i], X, INDEX),
    _case("gather gap", lambda mx, a, i: a[i, :, i], STACK[0], INDEX),
    _case("take", lambda mx, a, i: mx.take(a, i, 1), X, INDEX),
    _case("take along", lambda mx, a, i: mx.take_along_axis(a, i[None], 1), X, INDEX),
    _case("put along", lambda mx, a, i: mx.put_along_axis(a, i[None], a[:, :2], 1), X, INDEX),
    *(
        _case(f"at {method}", _at(method, INDEX), X)
        for method in "add multiply maximum minimum subtract divide".split()
    ),
    *(
        _case(f"at slice {method}", _at(method, slice(1, None)), X)
        for method in "add multiply maximum minimum".split()
    ),
    _case("at repeated", _at("add", np.array([1, 1, 0], np.int32)), X),
    _case("set", _set(INDEX, 0), X),
    _case("set slice", _set((slice(1, None), slice(None, None, 2)), 0), X),
    _case("set mask", _set(X > 0.5, 0), X),
    _case("slice at", lambda mx, a, i: mx.slice(a, i[:1], (0,), (1, 3)), X, INDEX),
    _case("slice update at", lambda mx, a, i: mx.slice_update(a, a[:1], i[:1], (0,)), X, INDEX),
    _case("conv", lambda mx, a, w: mx.conv2d(a, w, (1, 2), 1), STACK, _uniform(3, 2, 2, 4)),
    _case("conv general", _conv, STACK, _uniform(4, 2, 2, 2)),
    _case(
        "conv transpose",
        lambda mx, a, w: mx.conv_transpose2d(a, w, 2, 1),
        STACK,
        _uniform(3, 3, 3, 4),
    ),
    *(
        _case(name, lambda mx, a, name=name: getattr(mx.fft, name)(a), X)
        for name in "fft ifft rfft irfft fft2 rfft2 irfft2 fftn fftshift".split()
    ),
    _case("fft ortho", lambda mx, a: mx.fft.ifft(a, norm="ortho"), X),
    *(
        _case(name, lambda mx, a, name=name: getattr(mx.linalg, name)(a, stream=mx.cpu), POSITIVE)
        for name in "inv tri_inv cholesky cholesky_inv eigvalsh pinv norm".split()
    ),
    _case("svd", lambda mx, a: mx.linalg.svd(a, stream=mx.cpu)[1], POSITIVE),
    _case("qr", lambda mx, a: mx.abs(mx.linalg.qr(a, stream=mx.cpu)[1]), POSITIVE),
    _case("eigh", lambda mx, a: mx.linalg.eigh(a, "U", stream=mx.cpu)[0], POSITIVE),
    _case("eig", lambda mx, a: mx.sort(mx.linalg.eig(a, stream=mx.cpu)[0].real), POSITIVE),
    _case(
        "solve triangular", lambda mx, a: mx.linalg.solve_triangular(a, a, stream=mx.cpu), POSITIVE
    ),
    _case("hadamard", lambda mx, a: mx.hadamard_transform(a), SQUARE),
    _case("block masked", lambda mx, a: mx.block_masked_mm(a, a, 32, mx.ones((1, 1))), SQUARE),
    _case(
        "gather_mm",
        lambda mx, a, i: mx.gather_mm(a, a, rhs_indices=i),
        STACK[0],
        np.array([0, 1, 1, 3], np.uint32),
    ),
    _case("quantized", lambda mx, a, w: mx.quantized_matmul(a, *mx.quantize(w)), ROWS, WEIGHTS),
    _case("dequantize", lambda mx, a: mx.dequantize(*mx.quantize(a)), ROWS),
    _case("uniform", lambda mx, k: mx.random.uniform(shape=(3,), key=k), KEY),
    _case("normal", lambda mx, k: mx.random.normal((3,), key=k), KEY),
    _case("split key", lambda mx, k: mx.random.split(k, 3), KEY),
    _case("randint", lambda mx, k: mx.random.randint(0, 10, (3,), key=k), KEY),
    _case("permutation", lambda mx, k: mx.random.permutation(5, key=k), KEY),
    _case("categorical", lambda mx, k: mx.random.categorical(mx.ones((2, 3)), key=k), KEY),
    _case("rms_norm", lambda mx, a: mx.fast.rms_norm(a, mx.ones(3), 1e-5), X),
    _case("layer_norm", lambda mx, a: mx.fast.layer_norm(a, mx.ones(3), None, 1e-5), X),
    _case(
        "rope",
        lambda mx, a: mx.fast.rope(a, 4, traditional=False, base=10000, scale=1.0, offset=2),
        STACK,
    ),
    *(
        _case(
            f"attention {mask}",
            lambda mx, a, mask=mask: mx.fast.scaled_dot_product_attention(
                a, a, a, scale=0.5, mask=mask
            ),
            STACK,
        )
        for mask in (None, "causal")
    ),
    _case(
        "grad attention",
        lambda mx, a: mx.grad(
            lambda a: mx.fast.scaled_dot_product_attention(a, a, a, scale=0.5).sum()
        )(a),
        STACK,
    ),
    _case(
        "grad conv",
        lambda mx, a, w: mx.grad(lambda a, w: (mx.conv2d(a, w, (1, 2), 1) ** 2).sum(), (0, 1))(
            a, w
        ),
        STACK,
        _uniform(3, 2, 2, 4),
    ),
    _case(
        "grad groups",
        lambda mx, a, w: mx.grad(lambda w: (mx.conv2d(a, w, groups=2) ** 2).sum())(w),
        STACK,
        _uniform(4, 2, 2, 2),
    ),
    _case(
        "grad max", lambda mx, a: mx.grad(lambda a: a.max() * a[0, 1] + mx.cumsum(a, 0).sum())(a), X
    ),
    _case("vmap", lambda mx, a, i: mx.vmap(lambda a, i: a[i])(a, i), X, INDEX),
    _case("depends", lambda mx, a: mx.depends([a, a + 1], [a * 2]), X),
    _case("compiled", lambda mx, a: mx.compile(lambda a: mx.exp(a * 2) + 1)(a), X),
    _case("einsum", lambda mx, a: mx.einsum("ij,kj->ik", a, a), X),
    _case("roll", lambda mx, a: mx.roll(a, 1), X),
    _case("tri", lambda mx, a: mx.tri(3) + a[0], X),
    _case("cumsum reverse", lambda mx, a: mx.cumsum(a, 0, reverse=True, inclusive=False), X),
    _case(
        "searchsorted", lambda mx, a, b: mx.searchsorted(a, b, side="right"), np.sort(X[0]), X[1]
    ),
    _case("mean of truths", lambda mx, a: ((a > 0.5).sum(), (a > 0.5).mean()), X),
    _case("logsumexp last", lambda mx, a: mx.logsumexp(a, axis=1, keepdims=True), X),
    _case(
        "gather_qmm",
        lambda mx, a, w, i: mx.gather_qmm(a, *mx.quantize(w), rhs_indices=i),
        ROWS[None],
        WEIGHTS[None],
        np.array([0], np.uint32),
    ),
    _case("softmax precise", lambda mx, a: mx.softmax(a, axis=-1, precise=True), X),
    _case("two results of one", lambda mx, a: (a, a * 2, a), X),
)

IDS = [f"{case.name}-{case.arrays[0].dtype}" for case in CASES]
