"""Shapeless compilation: sizes stay symbolic, and where they do not they are guarded."""

from __future__ import annotations

import copy
import json
import math
import operator
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.graph.dimension import Dimension, Guards, resolve, symbolic_shape

# Dimensions by themselves


def dimensions(*lengths: int) -> tuple[Guards, Any]:
    guards = Guards()
    return guards, symbolic_shape(0, lengths, guards)


def resolved(guards: Guards, value: Any, *lengths: int) -> Any:
    values = guards.values([lengths])
    assert values is not None
    return resolve(value, values)


ARITHMETIC = [
    lambda n, m: n + m,
    lambda n, m: 3 + n - 1,
    lambda n, m: n * m // 2,
    lambda n, m: 100 // n,
    lambda n, m: 100 % n + n % 3,
    lambda n, m: -n,
    lambda n, m: +n,
    lambda n, m: abs(n - m),
    lambda n, m: n**2,
    lambda n, m: 2**n,
    lambda n, m: n**-0.5,
    lambda n, m: n / m,
    lambda n, m: 1 / n,
    lambda n, m: n * 0.5,
    lambda n, m: n << 1 | 1,
    lambda n, m: (n >> 1) & 3 ^ m,
    lambda n, m: ~n,
    lambda n, m: math.ceil(n / m),
    lambda n, m: math.floor(n / 2.0),
    lambda n, m: math.trunc(n / 2),
    lambda n, m: round(n / 3),
    lambda n, m: divmod(n, m),
    lambda n, m: divmod(100, n),
    lambda n, m: n * True,
    lambda n, m: sum([n, m, n]),
    lambda n, m: math.prod([n, m]),
    lambda n, m: (n, (m, 5)),
]


@pytest.mark.parametrize("function", ARITHMETIC)
def test_arithmetic_stays_symbolic(function: Any) -> None:
    guards, (n, m) = dimensions(6, 4)
    found = function(n, m)
    assert len(guards) == 0
    for lengths in ((6, 4), (7, 5), (30, 11)):
        expected = function(*lengths)
        value = resolved(guards, found, *lengths)
        assert value == expected
        assert type(value) is type(expected)


@pytest.mark.parametrize(
    "use",
    [
        int,
        operator.index,
        float,
        complex,
        str,
        hash,
        repr,
        range,
        math.sqrt,
        np.zeros,
        np.array,
        lambda n: f"{n:3d}",
        lambda n: f"{n}",
        lambda n: [0] * n,
        lambda n: n * (1, 2),
        lambda n: "ab" * n,
        lambda n: {n: 1},
        lambda n: {n},
        lambda n: n * 1j,
        lambda n: n * np.float32(2),
        lambda n: np.int64(2) * n,
        lambda n: n.bit_length(),
        lambda n: n.real,
        lambda n: round(n, 1),
        lambda n: [1, 2, 3, 4, 5, 6, 7][n],
        lambda n: pickle.loads(pickle.dumps(n)),
        lambda n: json.dumps({"n": n.__int__()}),
    ],
)
def test_uses_as_a_number_are_guarded(use: Any) -> None:
    guards, (n,) = dimensions(6)
    found = use(n)
    expected = use(6)
    if isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(found, expected)
    else:
        assert found == expected
        assert type(found) is type(expected)
    assert guards.lines() == ["input 0.shape[0] == 6"]
    assert guards.broken_by(guards.values([(6,)])) is None
    assert guards.broken_by(guards.values([(7,)])) == "input 0.shape[0] == 6"


@pytest.mark.parametrize(
    ("compare", "text", "keeps", "breaks"),
    [
        (lambda n, m: n == 6, "input 0.shape[0] == 6", (6, 9), (7, 4)),
        (lambda n, m: n == m, "not input 0.shape[0] == input 0.shape[1]", (1, 2), (3, 3)),
        (lambda n, m: n != 1, "input 0.shape[0] != 1", (2, 1), (1, 4)),
        (lambda n, m: n > 5, "input 0.shape[0] > 5", (100, 1), (5, 1)),
        (lambda n, m: n < 5, "not input 0.shape[0] < 5", (100, 1), (4, 1)),
        (lambda n, m: n <= 3.5, "not input 0.shape[0] <= 3.5", (100, 1), (3, 1)),
        (lambda n, m: n >= m, "input 0.shape[0] >= input 0.shape[1]", (5, 5), (4, 5)),
        (lambda n, m: n - 8 < 0, "(input 0.shape[0] - 8) < 0", (7, 1), (8, 1)),
        (lambda n, m: -n == -6, "neg(input 0.shape[0]) == -6", (6, 1), (8, 1)),
        (lambda n, m: bool(n), "input 0.shape[0] != 0", (1, 1), (0, 1)),
        (lambda n, m: n % 2 == 0, "(input 0.shape[0] % 2) == 0", (8, 1), (9, 1)),
        (lambda n, m: max(n, m) == n, "not input 0.shape[1] > input 0.shape[0]", (9, 9), (4, 9)),
        (lambda n, m: n in (1, 6), "not input 0.shape[0] == 1", (6, 1), (1, 6)),
    ],
)
def test_comparisons_are_guarded(compare: Any, text: str, keeps: Any, breaks: Any) -> None:
    guards, (n, m) = dimensions(6, 4)
    assert compare(n, m) == compare(6, 4)
    assert guards.lines()[0] == text
    assert guards.broken_by(guards.values([keeps])) is None
    assert guards.broken_by(guards.values([breaks])) == text


def test_what_holds_for_all_shapes_is_not_guarded() -> None:
    guards, (n, m) = dimensions(6, 4)
    assert n == n
    assert n * m == n * m
    assert n >= 0
    assert not n < 0
    assert n * m + 1 != -1
    assert -1 not in (n, m, n // 2)
    assert n != "text"
    assert n != None  # noqa: E711
    assert len(guards) == 0


def test_a_dimension_is_an_instance_of_int() -> None:
    _, (n, m) = dimensions(6, 4)
    assert isinstance(n, int)
    assert isinstance(n / m, float)
    assert not isinstance(n, float)
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        operator.index(n / m)
    with pytest.raises(AttributeError, match="'int' object has no attribute 'shape'"):
        n.shape  # noqa: B018
    with pytest.raises(TypeError):
        n + "text"
    assert copy.copy(n) is n
    assert copy.deepcopy((n,))[0] is n


def test_divisions_by_zero() -> None:
    guards, (n, m) = dimensions(6, 0)
    with pytest.raises(ZeroDivisionError):
        n // m
    assert guards.lines() == ["input 0.shape[1] == 0"]
    guards, (n, m) = dimensions(6, 2)
    assert (n // m).value == 3
    assert guards.values([(6, 0)]) is None
    assert (
        guards.broken_by(None) == "an expression of sizes that cannot be computed for the new ones"
    )


def test_long_expressions_take_linear_time() -> None:
    guards, (n,) = dimensions(1)
    doubled = added = n
    for _ in range(200):
        doubled = doubled + doubled
    for i in range(20_000):
        added = added + i % 2
    assert resolved(guards, doubled, 3) == 3 * 2**200
    assert resolved(guards, added, 3) == 10_003
    assert doubled > 0
    assert len(doubled.text()) < 5_000
    assert hash(doubled) == hash(2**200)


def test_a_closed_trace_records_nothing() -> None:
    guards, (n,) = dimensions(6)
    guards.close()
    assert int(n) == 6
    assert len(guards) == 0


# Compiled functions


def shapes_of(*shapes: Any) -> list[list[Any]]:
    generator = np.random.default_rng(0)
    return [
        [mx.array(generator.standard_normal(s).astype(np.float32)) for s in group]
        for group in shapes
    ]


def check_all(function: Any, arguments: list[list[Any]], misses: int = 1) -> Any:
    compiled = mx.compile(function, shapeless=True)
    for _ in range(2):
        for args in arguments:
            found, expected = compiled(*args), function(*args)
            for one, other in zip(_leaves(found), _leaves(expected), strict=True):
                if isinstance(other, mx.array):
                    assert one.shape == other.shape
                    assert one.dtype == other.dtype
                    np.testing.assert_allclose(np.array(one), np.array(other), rtol=1e-4, atol=1e-5)
                else:
                    assert one == other
                    assert type(one) is type(other)
    assert compiled.cache_info().misses == misses, compiled.cache_info()
    return compiled


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, (list, tuple)):
        return [leaf for item in tree for leaf in _leaves(item)]
    if isinstance(tree, dict):
        return [leaf for item in tree.items() for leaf in _leaves(item)]
    return [tree]


CUBES = shapes_of([(2, 3, 4)], [(5, 6, 3)], [(7, 2, 6)], [(2, 3, 4)])


def attention(q: Any) -> Any:
    scores = (q @ q.swapaxes(-1, -2)) / q.shape[-1] ** 0.5
    mask = mx.tril(mx.ones((q.shape[-2], q.shape[-2])))
    return mx.softmax(mx.where(mask > 0, scores, -1e9), axis=-1) @ q


def layer_norm(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred * mx.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def heads(x: Any) -> Any:
    batch, length, width = x.shape
    return mx.concatenate([x, x], -1).reshape(batch, length, 2, width).transpose(0, 2, 1, 3)


def weighted(x: Any) -> Any:
    positions = mx.arange(x.shape[1]) / x.shape[1]
    return (x * positions[None, :, None]).sum(1) / (x.size // x.shape[0])


FOR_ALL_SHAPES: dict[str, Any] = {
    "reshape": lambda x: x.reshape(x.shape[0] * x.shape[1], -1),
    "reshape back": lambda x: x.reshape(-1).reshape(x.shape),
    "flatten": lambda x: x.flatten(0, 1),
    "unflatten": lambda x: mx.unflatten(x.flatten(), 0, (x.shape[0], -1)),
    "mean": lambda x: x.mean(-1),
    "mean of all": lambda x: x.mean(),
    "var": lambda x: x.var(1, ddof=1),
    "std": lambda x: x.std((0, 2), keepdims=True),
    "softmax": lambda x: mx.softmax(x, axis=-1),
    "logsumexp": lambda x: mx.logsumexp(x, axis=(1, 2)),
    "layer norm": layer_norm,
    "attention": attention,
    "heads": heads,
    "weighted": weighted,
    "halves": lambda x: (x[:, : x.shape[1] // 2], x[:, x.shape[1] // 2 :]),
    "slices": lambda x: (x[1:], x[:-1], x[::-1], x[:, ::2], x[..., -1], x[None, 0]),
    "concatenate": lambda x: mx.concatenate([x, x * 2], axis=1),
    "stack": lambda x: mx.stack([x, x], axis=1),
    "transpose": lambda x: (x.T, mx.moveaxis(x, 0, 2), x.swapaxes(0, 1)),
    "matmul": lambda x: x @ x.swapaxes(-1, -2),
    "einsum": lambda x: mx.einsum("ijk,ijl->ikl", x, x),
    "broadcast": lambda x: x + x.sum(-1, keepdims=True) - x.max((0, 1)),
    "broadcast_to": lambda x: mx.broadcast_to(x[None], (3, *x.shape)),
    "zeros": lambda x: x + mx.zeros(x.shape) + mx.ones_like(x) + mx.full(x.shape, 2.0),
    "arange": lambda x: x + mx.arange(x.shape[2]),
    "linspace": lambda x: x + mx.linspace(0, 1, x.shape[2]),
    "eye": lambda x: x + mx.eye(x.shape[1], x.shape[2]),
    "tri": lambda x: (mx.tril(x), mx.triu(x, 1)),
    "size": lambda x: x.sum() / x.size,
    "nbytes": lambda x: x.sum() / x.nbytes,
    "ndim": lambda x: x * x.ndim,
    "as an operand": lambda x: (x * x.shape[0], x.shape[1] - x, x // x.shape[2], x.shape[0] / x),
    "quotients": lambda x: x * (x.shape[0] / x.shape[1]) + 1 / x.shape[2],
    "in an array": lambda x: mx.array([x.shape[0], x.shape[1] * 2]) * mx.array(x.shape[2]),
    "in half precision": lambda x: x.astype(mx.float16) / x.shape[0],
    "beside integers": lambda x: (x > 0).astype(mx.int32) * x.shape[0],
    "beside booleans": lambda x: (x > 0) * x.shape[0],
    "returned": lambda x: (x, x.shape, {"rows": x.shape[0] * 2, "mean": x.shape[1] / 2}),
    "cumsum": lambda x: mx.cumsum(x, axis=1),
    "sort": lambda x: (mx.sort(x, axis=1), mx.argsort(x, axis=-1)),
    "argmax": lambda x: (mx.argmax(x, axis=1), mx.argmin(x)),
    "take": lambda x: (mx.take(x, mx.array([0, 1]), axis=1), x[mx.array([1, 0])]),
    "repeat": lambda x: (mx.repeat(x, 2, axis=1), mx.tile(x, (1, 2, 1))),
    "pad": lambda x: mx.pad(x, 1),
    "roll": lambda x: mx.roll(x, 1, axis=1),
    "split": lambda x: mx.split(mx.concatenate([x, x], 0), 2, axis=0),
    "where": lambda x: mx.where(x > 0, x, x.shape[0]),
    "update": lambda x: x.at[0].add(1.0),
    "squeeze": lambda x: x.sum(1, keepdims=True).squeeze(1),
    "expand": lambda x: mx.expand_dims(x, (0, 2)),
    "grad": mx.grad(lambda x: (x * x).mean()),
    "grad of layer norm": mx.grad(lambda x: (layer_norm(x) * x).sum()),
    "grad of slices": mx.grad(lambda x: (x[:, 1:] * x[:, :-1]).sum()),
    "grad of matmul": mx.grad(lambda x: mx.exp(x @ x.swapaxes(-1, -2) / x.size).sum()),
    "vmap": mx.vmap(lambda x: x.sum(0) / x.shape[0]),
    "checkpoint": mx.grad(lambda x: mx.checkpoint(lambda y: mx.sin(y) * y.shape[0])(x).sum()),
    "jvp": lambda x: mx.jvp(lambda y: y.mean(1), [x], [x])[1],
}


@pytest.mark.parametrize("name", FOR_ALL_SHAPES)
def test_one_trace_for_all_shapes(name: str) -> None:
    check_all(FOR_ALL_SHAPES[name], CUBES)


def test_two_inputs() -> None:
    arguments = shapes_of([(2, 3), (3, 4)], [(5, 2), (2, 7)], [(1, 6), (6, 1)])
    compiled = check_all(lambda x, w: mx.maximum(x @ w, 0) * x.shape[1], arguments)
    with pytest.raises(ValueError, match="matmul"):
        compiled(mx.ones((2, 3)), mx.ones((4, 5)))


def test_captured_inputs_are_shapeless_as_well() -> None:
    state = [mx.ones((3,))]
    compiled = mx.compile(
        lambda x: x * state[0].sum() / state[0].shape[0], inputs=state, shapeless=True
    )
    assert compiled(mx.array(2.0)).item() == 2.0
    state[0] = mx.full((5,), 2.0)
    assert compiled(mx.array(2.0)).item() == 4.0
    assert compiled.cache_info().misses == 1


def test_captured_outputs_hold_the_sizes_of_the_call() -> None:
    state: dict[str, Any] = {"n": 0}

    @partial(mx.compile, outputs=state, shapeless=True)
    def function(x: Any) -> Any:
        state["n"] = x.shape[0]
        state["shape"] = [x.shape, {"size": x.size}]
        return x

    for length in (3, 5):
        state["n"] = 0
        state.pop("shape", None)
        function(mx.zeros((length, 2)))
        assert state == {"n": length, "shape": [(length, 2), {"size": 2 * length}]}
        assert type(state["n"]) is int
    assert function.cache_info().misses == 1


# Where sizes are baked in


def branches(x: Any) -> Any:
    if x.shape[0] > 4:
        return x * 2
    return x.sum()


def loops(x: Any) -> Any:
    total = x[0] * 0
    for row in range(x.shape[0]):
        total = total + x[row] * row
    return total


def test_a_branch_is_a_guard() -> None:
    arguments = shapes_of([(2, 3)], [(3, 3)], [(5, 3)], [(9, 9)], [(4, 1)])
    compiled = check_all(branches, arguments, misses=2)
    assert [miss.reason for miss in compiled.cache_info().reasons][1] == (
        "the function depends on sizes that changed: not `x`.shape[0] > 4"
    )


@pytest.mark.parametrize(
    "function",
    [
        loops,
        lambda x: sum(row for row in x),
        lambda x: x * len(x),
        lambda x: x * math.sqrt(x.shape[0]),
        lambda x: x * float(x.shape[0]),
        lambda x: {x.shape[0]: x}[x.shape[0]],
        lambda x: {x.shape[0]: x},
        lambda x: x + mx.array(np.arange(x.shape[0]))[:, None],
        lambda x: x * int(f"{x.shape[0]}"),
        lambda x: mx.concatenate([x] * x.shape[0]),
        lambda x: (x, str(x.shape)),
    ],
)
def test_a_size_used_as_a_number_is_a_guard(function: Any) -> None:
    check_all(function, shapes_of([(2, 3)], [(3, 3)], [(2, 3)], [(4, 3)]), misses=3)


def test_a_broadcast_against_one_is_a_guard() -> None:
    check_all(
        lambda x, y: x + y,
        shapes_of([(3,), (3,)], [(4,), (4,)], [(3,), (1,)], [(5,), (1,)]),
        misses=2,
    )


def test_errors_for_new_shapes_are_those_of_the_uncompiled_function() -> None:
    function = lambda x: x.reshape(2, -1)  # noqa: E731
    compiled = mx.compile(function, shapeless=True)
    assert compiled(mx.zeros((4, 3))).shape == (2, 6)
    assert compiled(mx.zeros((6, 3))).shape == (2, 9)
    with pytest.raises(ValueError, match="15 elements do not divide by 2"):
        compiled(mx.zeros((5, 3)))
    assert compiled(mx.zeros((8, 3))).shape == (2, 12)
    divides = mx.compile(lambda x: x * (12 // x.shape[0]), shapeless=True)
    assert divides(mx.ones(3)).tolist() == [4.0] * 3
    with pytest.raises(ZeroDivisionError):
        divides(mx.ones(0))


def test_ranks_and_dtypes_are_part_of_the_signature() -> None:
    compiled = mx.compile(lambda x: x + x.shape[0], shapeless=True)
    for x in (mx.ones(2), mx.ones((3, 1)), mx.ones(2, mx.int32), mx.ones(5)):
        assert compiled(x).dtype == x.dtype
    assert compiled.cache_info().misses == 3


def test_sizes_that_escape_are_numbers() -> None:
    seen = []

    @partial(mx.compile, shapeless=True)
    def function(x: Any) -> Any:
        seen.append(x.shape[0])
        return x

    function(mx.zeros(3))
    assert type(seen[0]) is Dimension
    assert seen[0] + 1 == 4
    function(mx.zeros(5))
    assert function.cache_info().misses == 1
    assert int(seen[0]) == 3
    function(mx.zeros(6))
    assert function.cache_info().misses == 1


def test_random_shapes() -> None:
    generator = np.random.default_rng(1)
    compiled = mx.compile(attention, shapeless=True)
    for _ in range(20):
        shape = tuple(generator.integers(1, 9, 3))
        x = mx.array(generator.standard_normal(shape).astype(np.float32))
        np.testing.assert_allclose(np.array(compiled(x)), np.array(attention(x)), atol=1e-4)
    assert compiled.cache_info().misses < 8  # lengths of 1 broadcast differently


def test_guards_as_code_are_the_guards() -> None:
    guards = Guards(["x"])
    m, n = symbolic_shape(0, (6, 8), guards)
    assert m * n % 4 == 0
    assert m < n
    assert not round(n / 3) > 5
    half = n // (m - 4)
    assert abs(-m) + half != 3
    guards.close()
    for shape in [(6, 8), (2, 8), (4, 9), (4, 10), (8, 6), (5, 16), (0, 2), (12, 30), (4, 4)]:
        values = guards.values([shape])
        expected = None if guards.broken_by(values) is not None else values
        assert guards.checked([shape]) == expected
    assert guards.checked([(6, 8)]) == guards.values([(6, 8)])
    assert guards.checked([(4, 10)]) is None  # divides by zero
