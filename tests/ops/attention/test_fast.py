"""Normalisations, rotary encoding and attention against MLX: values, gradients, dtypes, errors."""

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
from ingot import _native
from ingot.graph.outputs import Output, apply_multiple
from ingot.ops.attention import attention as attention_function
from ingot.ops.attention import blocks as attention_blocks
from ingot.ops.attention.rules import Attention, AttentionCotangents, composed_attention

Shape = tuple[int, ...]
LIBRARIES = (mx, mlx.core)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def numbers(x: Any) -> np.ndarray:
    module = mx if isinstance(x, mx.array) else mlx.core
    return np.array(x.astype(module.float32))


def assert_same(ours: Any, theirs: Any, tolerance: float = 2e-5) -> None:
    assert ours.shape == theirs.shape
    assert ours.dtype.name == str(theirs.dtype).removeprefix("mlx.core.")
    np.testing.assert_allclose(numbers(ours), numbers(theirs), rtol=tolerance, atol=tolerance)


def compare(
    function: Callable[..., Any], arrays: list[np.ndarray], tolerance: float = 2e-5
) -> None:
    """A function of a module and its arrays has MLX's value and gradients."""
    results = []
    for module in LIBRARIES:
        inputs = [module.array(x) for x in arrays]
        value = function(module, *inputs)
        followed = [place for place, x in enumerate(arrays) if x.dtype == np.float32]

        def of_followed(*some: Any, module: Any = module, inputs: Any = inputs) -> Any:
            whole = list(inputs)
            for place, x in zip(
                [i for i, a in enumerate(arrays) if a.dtype == np.float32], some, strict=True
            ):
                whole[place] = x
            return function(module, *whole)

        cotangent = module.array(normal(*value.shape, seed=9)).astype(value.dtype)
        _, pulled = module.vjp(of_followed, [inputs[place] for place in followed], [cotangent])
        results.append([value, *pulled])
    for one, other in zip(*results, strict=True):
        assert_same(one, other, tolerance)


# Normalisations


@pytest.mark.parametrize("shape", [(8,), (3, 8), (2, 3, 4, 8), (2, 1)])
@pytest.mark.parametrize("eps", [1e-5, 1e-2])
def test_rms_norm_equals_mlx(shape: Shape, eps: float) -> None:
    weight = normal(shape[-1], seed=1)
    compare(lambda m, x, w: m.fast.rms_norm(x, w, eps), [normal(*shape), weight])
    compare(lambda m, x: m.fast.rms_norm(x, None, eps), [normal(*shape)])


@pytest.mark.parametrize("shape", [(8,), (3, 8), (2, 3, 4, 8)])
@pytest.mark.parametrize("eps", [1e-5, 1e-2])
def test_layer_norm_equals_mlx(shape: Shape, eps: float) -> None:
    x, w, b = normal(*shape), normal(shape[-1], seed=1), normal(shape[-1], seed=2)
    compare(lambda m, x, w, b: m.fast.layer_norm(x, w, b, eps), [x, w, b])
    compare(lambda m, x, w: m.fast.layer_norm(x, w, None, eps), [x, w])
    compare(lambda m, x, b: m.fast.layer_norm(x, None, b, eps), [x, b])
    compare(lambda m, x: m.fast.layer_norm(x, None, None, eps), [x + 3])


KINDS = ["float16", "bfloat16", "float32", "int32", "bool_", "complex64", None]


def outcome(function: Callable[[], Any]) -> Any:
    """The result, or the type of the error."""
    try:
        result = function()
    except (ValueError, TypeError) as error:
        return type(error)
    return result


@pytest.mark.parametrize("of_x", KINDS[:-1])
@pytest.mark.parametrize("of_weight", KINDS)
@pytest.mark.parametrize("of_bias", ["float32", "int32", None])
def test_dtypes_of_normalisations(of_x: str, of_weight: str | None, of_bias: str | None) -> None:
    def run(module: Any) -> list[Any]:
        def made(kind: str | None, x: np.ndarray) -> Any:
            return None if kind is None else module.array(x).astype(getattr(module, kind))

        x = made(of_x, normal(2, 8))
        weight, bias = made(of_weight, normal(8, seed=1)), made(of_bias, normal(8, seed=2))
        return [
            outcome(lambda: module.fast.rms_norm(x, weight, 1e-5)),
            outcome(lambda: module.fast.layer_norm(x, weight, bias, 1e-5)),
        ]

    for one, other in zip(run(mx), run(mlx.core), strict=True):
        if isinstance(other, type):
            assert one is other
        else:
            assert_same(one, other, 2e-2 if "16" in str(other.dtype) else 1e-5)


def test_empty_normalisations() -> None:
    assert mx.fast.rms_norm(mx.zeros((0, 8)), mx.ones(8), 1e-5).shape == (0, 8)
    assert mx.fast.layer_norm(mx.zeros((2, 0)), None, None, 1e-5).shape == (2, 0)


X = mx.ones((2, 8))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mx.fast.rms_norm(mx.array(1.0), None, 1e-5), ValueError, "at least one axis"),
        (lambda: mx.fast.rms_norm(X, mx.ones(7), 1e-5), ValueError, r"each of the 8 .*\(7\)"),
        (lambda: mx.fast.rms_norm(X, mx.ones(1), 1e-5), ValueError, r"weight .* got shape \(1\)"),
        (lambda: mx.fast.rms_norm(X, mx.ones((1, 8)), 1e-5), ValueError, r"shape \(1, 8\)"),
        (lambda: mx.fast.rms_norm(X, 2.0, 1e-5), TypeError, "must be an array or None, got float"),
        (lambda: mx.fast.rms_norm([1.0], None, 1e-5), TypeError, "must be an array, got list"),
        (lambda: mx.fast.rms_norm(X, None, None), TypeError, "NoneType"),
        (lambda: mx.fast.layer_norm(X, None, mx.ones(3), 1e-5), ValueError, r"bias .*\(3\)"),
        (lambda: mx.fast.layer_norm(X, mx.array(1.0), None, 1e-5), ValueError, r"weight .*\(\)"),
    ],
)
def test_errors_of_normalisations(
    call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()


# Rotary encoding

ROPE: list[dict[str, Any]] = [
    {},
    {"traditional": True},
    {"dims": 4},
    {"dims": 4, "traditional": True},
    {"offset": 7},
    {"offset": -3, "scale": 0.5},
    {"base": 500.0, "traditional": True, "offset": 100},
    {"base": None, "freqs": True},
    {"base": None, "freqs": True, "traditional": True, "dims": 6},
    {"offset": np.array(5)},
    {"offset": np.array([5])},
    {"offset": np.array([5, 2])},
    {"offset": np.array([1000, 3], np.uint32), "traditional": True},
]


def rotated(module: Any, x: Any, options: dict[str, Any]) -> Any:
    given = {"dims": 8, "traditional": False, "base": 10000.0, "scale": 1.0, "offset": 0} | options
    if "freqs" in given:
        given["freqs"] = module.array(np.arange(1, given["dims"] // 2 + 1, dtype=np.float32))
    if isinstance(given["offset"], np.ndarray):
        given["offset"] = module.array(given["offset"])
    dims = given.pop("dims")
    return module.fast.rope(x, dims, **given)


@pytest.mark.parametrize("options", ROPE, ids=str)
@pytest.mark.parametrize("shape", [(2, 5, 8), (2, 3, 5, 8), (2, 2, 3, 4, 8)])
def test_rope_equals_mlx(options: dict[str, Any], shape: Shape) -> None:
    compare(lambda m, x: rotated(m, x, options), [normal(*shape)], 2e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("traditional", [False, True])
def test_rope_of_half_precision(dtype: str, traditional: bool) -> None:
    ours, theirs = (
        rotated(
            m,
            m.array(normal(1, 2, 300, 8)).astype(getattr(m, dtype)),
            {"offset": 900, "traditional": traditional},
        )
        for m in LIBRARIES
    )
    assert_same(ours, theirs, 2e-2 if dtype == "bfloat16" else 4e-3)


A = mx.ones((2, 3, 4, 8))


@pytest.mark.parametrize(
    ("x", "options", "error", "message"),
    [
        (A, {"dims": 7}, ValueError, "dims must be even.* got 7"),
        (A, {"dims": 10}, ValueError, "at most 8.* got 10"),
        (A, {"dims": 0}, ValueError, "positive.* got 0"),
        (A, {"dims": 8.0}, TypeError, "dims must be an int, got float: 8.0"),
        (A[0, 0], {}, ValueError, r"at least 3 axes, got shape \(4, 8\)"),
        (A.astype(mx.int32), {}, ValueError, "floating-point arrays, got int32"),
        (A.astype(mx.complex64), {}, ValueError, "got complex64"),
        (A, {"base": None}, ValueError, "got neither"),
        (A, {"freqs": True}, ValueError, "got both"),
        (A, {"offset": 3.5}, ValueError, "array of ints, got 3.5"),
        (A, {"offset": np.array(3.5)}, ValueError, "array of ints, got float32"),
        (A, {"offset": np.array([1, 2, 3])}, ValueError, r"each of 2 examples, got shape \(3\)"),
        (A, {"offset": np.array([[1, 2]])}, ValueError, r"got shape \(1, 2\)"),
        (A, {"traditional": 1}, TypeError, "traditional must be True or False"),
        ([1.0], {}, TypeError, "must be an array, got list"),
    ],
)
def test_errors_of_rope(
    x: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        rotated(mx, x, options)


def test_rope_checks_freqs() -> None:
    with pytest.raises(ValueError, match=r"each of 4 pairs, got shape \(3\)"):
        mx.fast.rope(A, 8, traditional=False, base=None, scale=1.0, offset=0, freqs=mx.ones(3))


# Attention

Q, K, V = normal(2, 4, 5, 8), normal(2, 2, 7, 8, seed=1), normal(2, 2, 7, 6, seed=2)
SEEN = np.random.default_rng(3).uniform(size=(2, 4, 5, 7)) < 0.7
SEEN[0, 0, 0] = False
ATTENTION: dict[str, tuple[list[np.ndarray], dict[str, Any]]] = {
    "plain": ([Q, K, V], {}),
    "one head for all": ([Q, K[:, :1], V[:, :1]], {}),
    "as many heads": ([Q[:, :2], K, V], {}),
    "causal": ([Q, K, V], {"mask": "causal"}),
    "causal, fewer keys": ([Q, K[:, :, :3], V[:, :, :3]], {"mask": "causal"}),
    "boolean": ([Q, K, V], {"mask": SEEN}),
    "boolean for all heads": ([Q, K, V], {"mask": SEEN[:, :1]}),
    "boolean for keys": ([Q, K, V], {"mask": SEEN[0, 1, 1]}),
    "nothing seen": ([Q, K, V], {"mask": np.zeros((5, 7), bool)}),
    "additive": ([Q, K, V], {"mask": normal(2, 1, 5, 7, seed=4)}),
    "additive for queries": ([Q, K, V], {"mask": normal(4, 5, 1, seed=4)}),
    "sinks": ([Q, K, V], {"sinks": normal(4, seed=5)}),
    "sinks, causal": ([Q, K, V], {"sinks": normal(4, seed=5), "mask": "causal"}),
    "sinks, boolean": ([Q, K, V], {"sinks": normal(4, seed=5), "mask": SEEN}),
    "sinks, additive": ([Q, K, V], {"sinks": normal(4, seed=5), "mask": normal(5, 7, seed=4)}),
}


def attend(options: dict[str, Any], **more: Any) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """Attention as a function of a module and arrays, and the arrays after q, k and v."""
    extras = {name: x for name, x in options.items() if isinstance(x, np.ndarray)}

    def function(module: Any, q: Any, k: Any, v: Any, *others: Any) -> Any:
        given = dict(options)
        given.update(zip(extras, others, strict=True))
        if module is mx:
            given.update(more)
        return module.fast.scaled_dot_product_attention(q, k, v, scale=0.3, **given)

    return function, list(extras.values())


@pytest.mark.parametrize("case", ATTENTION)
@pytest.mark.parametrize("in_blocks", [False, True])
def test_attention_equals_mlx(case: str, in_blocks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_blocks, "SCORE_BLOCK", 14)  # two queries
    arrays, options = ATTENTION[case]
    function, extras = attend(options, force_fused=in_blocks)
    compare(function, arrays + extras)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("in_blocks", [False, True])
def test_attention_of_half_precision(dtype: str, in_blocks: bool) -> None:
    def run(module: Any, **more: Any) -> Any:
        arrays = [module.array(x).astype(getattr(module, dtype)) for x in (Q, K, V)]
        return module.fast.scaled_dot_product_attention(*arrays, scale=0.3, mask="causal", **more)

    tolerance = 3e-2 if dtype == "bfloat16" else 4e-3
    assert_same(run(mx, force_fused=in_blocks), run(mlx.core), tolerance)


def test_mixed_dtypes_promote() -> None:
    def run(module: Any) -> Any:
        q, k, v = (module.array(x) for x in (Q, K, V))
        return module.fast.scaled_dot_product_attention(
            q.astype(module.float16),
            k,
            v,
            scale=module.array(0.3),
            mask=module.zeros((5, 7), dtype=module.int32),
        )

    assert_same(run(mx), run(mlx.core), 1e-4)


@pytest.mark.parametrize("force", [False, True])
def test_empty_attention(force: bool) -> None:
    q, k, v = (mx.array(x) for x in (Q, K, V))

    def run(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=1.0, force_fused=force)

    assert run(q[:, :, :0], k, v).shape == (2, 4, 0, 6)
    assert run(q[:0], k[:0], v[:0]).shape == (0, 4, 5, 6)
    nothing = run(q, k[:, :, :0], v[:, :, :0])
    np.testing.assert_array_equal(np.array(nothing), np.zeros((2, 4, 5, 6)))
    gradients = mx.grad(lambda *x: run(*x).sum(), (0, 1, 2))(q, k[:, :, :0], v[:, :, :0])
    assert [x.shape for x in gradients] == [(2, 4, 5, 8), (2, 2, 0, 8), (2, 2, 0, 6)]


def test_long_sequences_are_computed_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_function, "MIN_BLOCKED_SCORES", 280)
    q, k, v = (mx.array(x) for x in (Q, K, V))
    with _native.tracing:
        out = mx.fast.scaled_dot_product_attention(q, k, v, scale=1.0)
        assert isinstance(out._node.inputs[0].op, Attention)
        short = mx.fast.scaled_dot_product_attention(q[:1], k[:1], v[:1], scale=1.0)
        assert not isinstance(short._node.op, Output)


def test_memory_of_long_sequences() -> None:
    """The matrix of 2048 x 2048 scores of 16 heads would have 256 MB."""
    q, k, v = (mx.array(normal(1, 16, 2048, 16, seed=seed)) for seed in (0, 1, 2))
    mx.eval(q, k, v)

    def loss(*x: mx.array) -> mx.array:
        return mx.square(mx.fast.scaled_dot_product_attention(*x, scale=0.2, mask="causal")).sum()

    mx.clear_cache()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    mx.eval(mx.value_and_grad(loss, (0, 1, 2))(q, k, v))
    assert mx.get_peak_memory() - before < 100e6


OPS: dict[str, tuple[bool, list[Shape]]] = {
    "plain": (False, []),
    "causal": (True, []),
    "mask": (False, [(1, 2, 3, 5)]),
    "sinks": (True, [(1, 4)]),
    "mask and sinks": (False, [(2, 4, 1, 5), (2, 4)]),
}


@pytest.mark.parametrize("case", OPS)
def test_rules_of_attention(case: str) -> None:
    causal, extras = OPS[case]
    has_mask = "mask" in case
    heads = 2 if case == "mask" else 4
    shapes = [(2, heads, 3, 3), (2, 2, 5, 3), (2, 2, 5, 2), *extras]
    random = np.random.default_rng(1)
    arrays = [random.normal(size=shape) for shape in shapes]
    op = Attention(0.4, causal, has_mask)

    def function(*inputs: mx.array) -> list[mx.array]:
        result, *_ = apply_multiple(op, *inputs)
        return [result]

    check_first_order(Point(function, arrays), 1e-3)
    check_second_order(Point(function, arrays), 1e-3)
    check_vmap_everywhere(function, [random.normal(size=(3, *shape)) for shape in shapes])


@pytest.mark.parametrize("case", OPS)
def test_rules_of_cotangents(case: str) -> None:
    causal, extras = OPS[case]
    has_mask = "mask" in case
    heads = 2 if case == "mask" else 4
    shapes = [(2, heads, 3, 2), (2, heads, 3, 3), (2, 2, 5, 3), (2, 2, 5, 2), *extras]
    random = np.random.default_rng(1)
    forward = Attention(0.4, causal, has_mask)
    op = AttentionCotangents(0.4, causal, has_mask)

    def function(cotangent: mx.array, *inputs: mx.array) -> list[mx.array]:
        outputs = apply_multiple(forward, *inputs)
        return list(apply_multiple(op, cotangent, *outputs, *inputs))

    point = Point(function, [random.normal(size=shape) for shape in shapes])
    check_first_order(point, 1e-3)
    check_vmap_everywhere(function, [random.normal(size=(2, *shape)) for shape in shapes])
    if not extras:  # the third derivatives of attention
        check_second_order(point, 1e-3)


def test_shared_masks_are_not_repeated_by_vmap() -> None:
    q, k, v = (mx.array(normal(3, *x.shape)) for x in (Q, K, V))
    mask = mx.array(SEEN[:1, :1])
    op = Attention(0.3, False, True)
    mapped = mx.vmap(lambda q, k, v: apply_multiple(op, q, k, v, mask)[0])(q, k, v)
    looped = [np.array(composed_attention(*x, 0.3, False, mask)) for x in zip(q, k, v, strict=True)]
    np.testing.assert_allclose(np.array(mapped), np.stack(looped), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shapeless", [False, True])
@pytest.mark.parametrize("force", [False, True])
def test_compiled_equals_eager(shapeless: bool, force: bool) -> None:
    def loss(q: mx.array, k: mx.array, v: mx.array, w: mx.array) -> mx.array:
        q = mx.fast.rms_norm(q, w, 1e-5)
        k = mx.fast.rope(k, 8, traditional=False, base=1e4, scale=1.0, offset=2)
        out = mx.fast.scaled_dot_product_attention(
            q, k, v, scale=0.3, mask="causal", force_fused=force
        )
        return mx.square(mx.fast.layer_norm(out, None, None, 1e-5) * out).sum()

    function = mx.value_and_grad(loss, argnums=(0, 1, 2, 3))
    compiled = mx.compile(function, shapeless=shapeless)
    for length in (4, 5):
        arrays = [mx.array(x) for x in (Q[:, :, :length], K, V, normal(8, seed=6))]
        (one, gradients), (other, expected) = compiled(*arrays), function(*arrays)
        np.testing.assert_allclose(one.item(), other.item(), rtol=1e-5)
        for a, b in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-4, atol=1e-5)


q4, k4, v4 = (mx.array(x) for x in (Q, K, V))


def sdpa(q: Any = q4, k: Any = k4, v: Any = v4, **options: Any) -> mx.array:
    return mx.fast.scaled_dot_product_attention(q, k, v, **({"scale": 1.0} | options))


HALF = {name: x.astype(mx.float16) for name, x in (("q", q4), ("k", k4), ("v", v4))}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: sdpa(mask="x"), ValueError, "mask is \"causal\", an array or None, got 'x'"),
        (lambda: sdpa(mask=mx.zeros((4, 7))), ValueError, r"mask of shape \(4, 7\) does not broad"),
        (lambda: sdpa(mask=mx.zeros((2, 2, 5, 7))), ValueError, "does not broadcast to the scores"),
        (lambda: sdpa(q4[:1], k4[:1], v4[:1], mask=mx.zeros((2, 4, 5, 7))), ValueError, "scores"),
        (lambda: sdpa(mask=mx.zeros((1, 1, 1, 1, 1))), ValueError, "at most 4 axes"),
        (lambda: sdpa(mask=[[True]]), TypeError, "a string, an array or None, got list"),
        (lambda: sdpa(**HALF, mask=mx.zeros((5, 7))), ValueError, "a mask must promote.*float16"),
        (lambda: sdpa(**HALF, sinks=mx.zeros(4)), ValueError, "sinks must promote.*float16"),
        (lambda: sdpa(sinks=mx.zeros(3)), ValueError, r"each of 4 heads, got shape \(3\)"),
        (lambda: sdpa(q4[0]), ValueError, r"4 axes, got shape \(4, 5, 8\)"),
        (lambda: sdpa(k=k4[:1]), ValueError, "another length than that of the queries"),
        (lambda: sdpa(k=k4[..., :5]), ValueError, "same length along the last axis"),
        (lambda: sdpa(k=k4[:, :, :5]), ValueError, "equal numbers of heads and rows"),
        (lambda: sdpa(v=v4[:, :1]), ValueError, "equal numbers of heads and rows"),
        (lambda: sdpa(q4[:, :3]), ValueError, "multiple of those of keys, got 3 and 2"),
        (lambda: sdpa(*(x.astype(mx.int32) for x in (q4, k4, v4))), ValueError, "got int32"),
        (lambda: sdpa(q4.astype(mx.complex64)), ValueError, "got complex64"),
        (lambda: sdpa([1]), TypeError, "must be an array, got list"),
        (lambda: sdpa(scale=None), TypeError, "NoneType"),
    ],
)
def test_errors_of_attention(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
