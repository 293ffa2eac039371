"""Maps that read concatenations, rolls and updated slices in their parts; maps that write parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import mlx.core as mlx
import numpy as np
import pytest
from hypothesis import given

import ingot.core as mx
from ingot.compiler.lower.cells import Cut

Function = Callable[..., Any]


def kernels(function: Function, *arguments: np.ndarray) -> list[str]:
    """The names of the kernels that a function becomes, after a comparison with MLX."""
    given = [mx.array(x) for x in arguments]
    compiled = mx.compile(lambda *x: function(mx, *x))
    expected = np.array(function(mlx, *[mlx.array(x) for x in arguments]))
    np.testing.assert_array_equal(np.array(compiled(*given)), expected)
    np.testing.assert_array_equal(np.array(compiled(*[x + 0 for x in given])), expected)
    return [work.name for work in compiled.explain(*given).work if work.kernel]


def numbers(*shape: int) -> np.ndarray:
    """Small integers, whose sums are exact in any order."""
    return np.random.default_rng(len(shape)).integers(-9, 9, shape).astype(np.float32)


def rolled(xp: Any, u: Any) -> Any:
    return u + xp.roll(u, 1, 0) - xp.roll(u, -1, 0) + 2 * xp.roll(u, 3, 1) - xp.roll(u, -1, 1)


def test_nothing_is_copied_for_a_stencil_of_rolls() -> None:
    found = kernels(rolled, numbers(9, 33))
    assert len(found) == 3 * 3  # each axis is cut twice
    assert not any("Materialise" in name for name in found)


def test_cells_of_equal_shape_share_their_loops() -> None:
    compiled = mx.compile(lambda u: rolled(mx, u))
    nests = {id(work.kernel.nest) for work in compiled.explain(mx.array(numbers(9, 33))).work}  # type: ignore[union-attr]
    assert len(nests) < 9


def test_computed_parts_are_written_to_their_final_place() -> None:
    def joined(xp: Any, a: Any, b: Any) -> Any:
        return xp.concatenate([a * 2, b + 1], axis=1)

    assert kernels(joined, numbers(5, 7), numbers(5, 9)) == ["Multiply", "Add"]


def test_one_kernel_writes_both_halves_of_a_rotation() -> None:
    def rotated(xp: Any, x: Any, c: Any, s: Any) -> Any:
        a, b = x[..., ::2], x[..., 1::2]
        return xp.stack([a * c - b * s, a * s + b * c], axis=-1).reshape(x.shape)

    assert len(kernels(rotated, numbers(3, 5, 16), numbers(5, 8), numbers(5, 8))) == 1


def test_a_part_that_others_read_as_well() -> None:
    def shared(xp: Any, a: Any) -> Any:
        b = a * 2
        return xp.concatenate([b, b[::-1], a], axis=0) + xp.concatenate([a, b, b.sum() + a], axis=0)

    kernels(shared, numbers(6, 5))


def test_updates_are_read_in_parts() -> None:
    def updated(xp: Any, x: Any, y: Any) -> Any:
        x = x * 1
        x[3:5] = y
        return x * 2 + 1

    assert not any("Materialise" in name for name in kernels(updated, numbers(9, 4), numbers(2, 4)))


@pytest.mark.parametrize(
    "function",
    [
        lambda xp, x: (xp.roll(x, 2, 1) + x).sum(axis=1),  # a reduction of rows
        lambda xp, x: (xp.roll(x, 2, 0) * 2).sum(axis=0),  # of columns
        lambda xp, x: xp.roll(x, 2, 1) + xp.arange(12.0),  # reads positions
        lambda xp, x: xp.roll(x, 1, 1)[:, ::-1] * 2,  # a view of what was joined
        lambda xp, x: xp.concatenate([x, x[:0], x], axis=0) * 2,  # an empty part
        lambda xp, x: xp.concatenate([x[:, :1], x[:, 1:2]], axis=1) + 1,  # parts of length 1
        lambda xp, x: xp.concatenate([x[:1, :1], x[:1, 1:2]], axis=1) + 1,
        lambda xp, x: xp.concatenate([xp.zeros((7, 1)), x[:, :-1]], axis=1) - x,  # constants
        lambda xp, x: xp.roll(xp.roll(x, 1, 0), 1, 1) + xp.roll(x.T, 1, 0).T,  # nested, transposed
        lambda xp, x: x + xp.concatenate([x] * 7, axis=1)[:, :12],
        lambda xp, x: xp.take(xp.roll(x, 1, 1), xp.array([1, 0]), axis=1) * 2,
        lambda xp, x: xp.roll(x, 1, 1).astype(xp.int32) + 1,
        lambda xp, x: xp.roll(x @ x.T, 1, 0) * 2 + xp.roll(x @ x.T, 1, 1),
        lambda xp, x: xp.where(xp.roll(x > 0, 1, 0), x, -x),
        lambda xp, x: xp.exp(x * 0) + xp.concatenate([x[3:] * 2, x[:3] * 2], axis=0),
    ],
)
def test_other_readers(function: Function) -> None:
    kernels(function, numbers(7, 12))


def test_gradients_and_batches() -> None:
    u = numbers(6, 10)

    def loss(xp: Any) -> Function:
        return lambda x: (rolled(xp, x * x) * xp.roll(x, 1, 1)).sum()

    found = mx.compile(mx.grad(loss(mx)))(mx.array(u))
    np.testing.assert_array_equal(np.array(found), np.array(mlx.grad(loss(mlx))(mlx.array(u))))
    batch = numbers(3, 6, 10)
    several = mx.compile(mx.vmap(lambda x: rolled(mx, x)))(mx.array(batch))
    expected = np.stack([np.array(rolled(mlx, mlx.array(x))) for x in batch])
    np.testing.assert_array_equal(np.array(several), expected)


def test_shapeless() -> None:
    compiled = mx.compile(lambda x: rolled(mx, x), shapeless=True)
    for shape in ((6, 10), (7, 12), (31, 8)):
        u = numbers(*shape)
        np.testing.assert_array_equal(
            np.array(compiled(mx.array(u))), np.array(rolled(mlx, mlx.array(u)))
        )


def test_a_donated_input_is_not_overwritten_while_it_is_read() -> None:
    compiled = mx.compile(lambda x: x + mx.roll(x, 1, 0))
    x = numbers(50, 40)
    for _ in range(3):
        found = compiled(mx.array(x) + 0)
        np.testing.assert_array_equal(np.array(found), x + np.roll(x, 1, 0))


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.integers(0, 2),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.booleans(),
)
def test_any_parts(lengths: list[int], axis: int, computed: list[bool], is_read: bool) -> None:
    parts = []
    for length in lengths:
        shape = [3, 2, 5]
        shape[axis] = length
        parts.append(numbers(*shape))

    def joined(xp: Any, *arrays: Any) -> Any:
        given = [x * 2 if flag else x for x, flag in zip(arrays, computed, strict=False)]
        whole = xp.concatenate(given, axis=axis)
        return whole * 3 + 1 if is_read else whole

    expected = joined(np, *parts)
    found = mx.compile(lambda *x: joined(mx, *x))(*map(mx.array, parts))
    np.testing.assert_array_equal(np.array(found), expected)


def test_a_cut_is_a_view() -> None:
    x = np.arange(20).reshape(4, 5)
    cut = Cut((1, 2), (2, 3))
    np.testing.assert_array_equal(cut.evaluate(x), x[1:3, 2:5])
    assert cut.layout(x.shape, x.strides) == (x.strides[0] + 2 * x.strides[1], x.strides)
    assert cut.infer(mx.array(x))[0] == (2, 3)
