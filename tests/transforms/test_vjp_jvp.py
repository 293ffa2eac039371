"""mx.vjp and mx.jvp: several inputs and outputs, dtypes, errors; both modes agree with MLX."""

from __future__ import annotations

from typing import Any

import mlx.core as mlx
import numpy as np
import pytest

import ingot.core as mx

X = np.array([0.5, 1.5, -2.0], np.float32)
Y = np.array([2.0, 0.25, 1.0], np.float32)


def several(m: Any, x: Any, y: Any) -> list[Any]:
    return [x * y, m.exp(x).sum(), y[:2] * x[1:]]


def compare(function: Any) -> None:
    """The same nested lists of arrays from both modules."""
    for found, expected in zip(function(mx), function(mlx), strict=True):
        assert isinstance(found, list)
        for one, other in zip(found, expected, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(np.array(one), np.array(other), rtol=1e-5)


def test_vjp_of_several_inputs_and_outputs() -> None:
    compare(
        lambda m: m.vjp(
            lambda x, y: several(m, x, y),
            [m.array(X), m.array(Y)],
            [m.array(Y), m.array(3.0), m.array(X[:2])],
        )
    )


def test_jvp_of_several_inputs_and_outputs() -> None:
    compare(
        lambda m: m.jvp(
            lambda x, y: several(m, x, y),
            [m.array(X), m.array(Y)],
            [m.array(Y), m.array(X)],
        )
    )


def test_tuples_and_single_outputs_are_accepted() -> None:
    compare(lambda m: m.vjp(m.sin, (m.array(X),), (m.array(Y),)))
    compare(lambda m: m.jvp(m.sin, (m.array(X),), (m.array(Y),)))


def test_outputs_that_do_not_depend() -> None:
    compare(lambda m: m.vjp(lambda x: m.array(Y), [m.array(X)], [m.array(X)]))
    compare(lambda m: m.jvp(lambda x: [m.array(Y), x], [m.array(X)], [m.array(X)]))


def test_vectors_take_the_dtype_of_what_they_belong_to() -> None:
    x = mx.array(X)
    _, (pulled,) = mx.vjp(lambda x: x.astype(mx.float16), [x], [x])
    assert pulled.dtype == mx.float32
    _, (change,) = mx.jvp(lambda x: x.astype(mx.float16), [x], [x.astype(mx.bfloat16)])
    assert change.dtype == mx.float16


def test_integer_outputs_and_inputs() -> None:
    """Casts have derivative 1; tangents of comparisons have the dtype of those of the operands."""
    x = mx.array(X)
    outputs, (pulled,) = mx.vjp(
        lambda x: [x * x, mx.argmax(x)], [x], [x, mx.array(1, dtype=mx.uint32)]
    )
    assert outputs[1].item() == 1
    np.testing.assert_allclose(np.array(pulled), 2 * X * X)
    _, changes = mx.jvp(lambda x: [mx.argmax(x), x > 0, x.astype(mx.int32)], [x], [x])
    assert [change.dtype for change in changes] == [mx.uint32, mx.float32, mx.int32]
    assert [change.tolist() for change in changes] == [0, [0, 0, 0], [0, 1, -2]]
    _, (pulled,) = mx.vjp(lambda n: n * x, [mx.array([1, 2, 3])], [x])
    assert pulled.dtype == mx.int32
    assert pulled.tolist() == [0, 2, 4]


def test_an_output_given_twice_counts_twice() -> None:
    _, (pulled,) = mx.vjp(lambda x: (x * x,) * 2, [mx.array(X)], [mx.array(Y)] * 2)
    np.testing.assert_allclose(np.array(pulled), 4 * X * Y, rtol=1e-6)
    _, (pulled,) = mx.vjp(lambda x: (x, x), [mx.array(X)], [mx.array(Y)] * 2)
    np.testing.assert_allclose(np.array(pulled), 2 * Y)


def test_stopped_outputs_have_cotangents_of_their_own() -> None:
    _, (pulled,) = mx.vjp(
        lambda x: (mx.stop_gradient(x), x * x), [mx.array(X)], [mx.array(Y), mx.array(X)]
    )
    np.testing.assert_allclose(np.array(pulled), 2 * X * X, rtol=1e-6)


def test_no_primals() -> None:
    outputs, pulled = mx.vjp(lambda: mx.array(X), [], [mx.array(X)])
    assert len(outputs) == 1
    assert pulled == []


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda x: mx.vjp(lambda x: x, [x], [x, x]),
            ValueError,
            r"\[vjp\] the function returned 1 arrays but 2 cotangents were given",
        ),
        (
            lambda x: mx.vjp(lambda x: x, [x], [x[:2]]),
            ValueError,
            r"\[vjp\] an output of shape \(3\) cannot have a cotangent of shape \(2\)",
        ),
        (
            lambda x: mx.vjp(lambda x: {"y": x}, [x], [x]),
            ValueError,
            r"\[vjp\] the function must return an array or a sequence of arrays, got dict",
        ),
        (
            lambda x: mx.vjp(lambda x: (x, 3), [x], [x, x]),
            ValueError,
            r"\[vjp\] the function must return an array or a sequence of arrays, got int",
        ),
        (
            lambda x: mx.vjp(lambda x: x, [3.0], [x]),
            TypeError,
            r"\[vjp\] the primals may hold arrays only, got float: 3\.0",
        ),
        (
            lambda x: mx.vjp(lambda x: x, [x], [3.0]),
            TypeError,
            r"\[vjp\] cotangents must be a sequence of arrays, got list: \[3\.0\]",
        ),
        (
            lambda x: mx.jvp(lambda x: x, [x], []),
            ValueError,
            r"\[jvp\] 1 primals need as many tangents, but 0 were given",
        ),
        (
            lambda x: mx.jvp(lambda x: x, [x], [x[:2]]),
            ValueError,
            r"\[jvp\] a primal of shape \(3\) cannot have a tangent of shape \(2\)",
        ),
        (
            lambda x: mx.jvp(lambda x: 3, [x], [x]),
            ValueError,
            r"\[jvp\] the function must return an array or a sequence of arrays, got int",
        ),
        (
            lambda x: mx.jvp(lambda x: x, [x], ["x"]),
            TypeError,
            r"\[jvp\] the tangents may hold arrays only, got str: 'x'",
        ),
        (lambda x: mx.jvp(3, [x], [x]), TypeError, r"\[jvp\] fun must be a function"),
        (lambda x: mx.vjp(3, [x], [x]), TypeError, r"\[vjp\] fun must be a function"),
    ],
)
def test_errors(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match="^" + message):
        call(mx.array(X))
