"""Masks that are read through, `nonzero` and `argwhere`: NumPy's results, errors while tracing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot.core as mx

RNG = np.random.default_rng(0)
X = RNG.integers(-2, 3, (4, 5, 3))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "float32", "complex64"])
@pytest.mark.parametrize("shape", [(4, 5, 3), (12, 5), (60,), (0,), (3, 0)], ids=str)
def test_nonzero_is_numpys(dtype: str, shape: tuple[int, ...]) -> None:
    x = np.resize(X, shape).astype(dtype)
    a = mx.array(x)
    expected = np.nonzero(x)
    found = mx.nonzero(a)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == mx.uint32
        assert ours.tolist() == theirs.tolist()
    rows = mx.argwhere(a)
    assert rows.shape == np.argwhere(x).shape
    assert rows.tolist() == np.argwhere(x).tolist()
    np.testing.assert_array_equal(np.array(a[found]), x[expected])


@pytest.mark.parametrize("size", [0, 3, 100])
def test_a_size_pads_and_truncates(size: int) -> None:
    x = np.where(X == 1, np.nan, X).astype(np.float32)  # NaN is not zero
    expected = np.argwhere(x)[:size]
    padded = np.full((size, 3), 7)
    padded[: len(expected)] = expected
    for run in (mx.argwhere, mx.compile(mx.argwhere)):
        found = run(mx.array(x), size=size, fill_value=7)
        assert found.tolist() == padded.tolist()
        assert found.dtype == mx.uint32
    by_axis = mx.nonzero(mx.array(x), size=size, fill_value=7)
    assert [index.tolist() for index in by_axis] == padded.T.tolist()


def test_strided_inputs_and_vmap() -> None:
    a = mx.array(X)
    assert mx.argwhere(a[::-1, ::2].T).tolist() == np.argwhere(X[::-1, ::2].T).tolist()
    found = mx.vmap(lambda x: mx.argwhere(x, size=20))(a)
    for row, x in zip(found.tolist(), X, strict=True):
        assert row[: np.count_nonzero(x)] == np.argwhere(x).tolist()


MASKS: dict[str, Any] = {
    "all axes": (X > 0,),
    "first axis": (X[:, 0, 0] > 0,),
    "two axes": (X[..., 0] > 0,),
    "none": (np.zeros((4,), bool),),
    "every": (np.ones((4, 5), bool),),
    "list": ([True, False, True, True],),
    "scalar": (np.bool_(True),),
    "then int": (X[..., 0] > 0, 1),
    "slice before": (slice(None), X[0, :, 0] > 0),
    "two axes after a slice": (slice(1, 3), X[0] > 0),
    "ellipsis": (..., X[0, 0] > -1),
    "new axis": (None, X[:, 0, 0] > 0, slice(None), 0),
    "indices beside": (X[:, 0, 0] > -5, slice(None), np.array([0, 2, 1, 0])),
}


def as_index(library: Any, entries: Any) -> Any:
    made = tuple(
        library.array(x) if isinstance(x, np.ndarray) and library is mx else x for x in entries
    )
    return made[0] if len(made) == 1 else made


@pytest.mark.parametrize("name", MASKS)
def test_reading_through_masks_is_numpys(name: str) -> None:
    expected = X[as_index(np, MASKS[name])]
    found = mx.array(X)[as_index(mx, MASKS[name])]
    assert found.shape == expected.shape
    assert found.tolist() == expected.tolist()


def test_numpy_masks() -> None:
    assert mx.array(X)[X > 0].tolist() == X[X > 0].tolist()
    assert mx.array(X)[:, X[0, :, 0] > 0].tolist() == X[:, X[0, :, 0] > 0].tolist()


@pytest.mark.parametrize("name", ["then int", "slice before", "two axes after a slice"])
def test_updates_through_masks_among_others(name: str) -> None:
    expected = X.copy()
    expected[as_index(np, MASKS[name])] = 9
    a = mx.array(X)
    a[as_index(mx, MASKS[name])] = 9
    assert a.tolist() == expected.tolist()
    more = X.copy()
    more[as_index(np, MASKS[name])] += 2
    assert mx.array(X).at[as_index(mx, MASKS[name])].add(2).tolist() == more.tolist()


def test_gradients_and_vmap_of_masked_values() -> None:
    x = mx.array([3.0, -1.0, 2.0, -5.0])
    found = mx.grad(lambda x: (x[x > 0] ** 2).sum())(x)
    assert found.tolist() == [6.0, 0.0, 4.0, 0.0]
    mask = mx.array([True, False, True])
    rows = mx.array([[1, 2, 3], [4, 5, 6]])
    assert mx.vmap(lambda row: row[mask])(rows).tolist() == [[1, 3], [4, 6]]


def test_traces_need_a_size() -> None:
    x = mx.array([3.0, -1.0, 2.0])

    def f(x: mx.array) -> mx.array:
        return x[x > 0]

    with pytest.raises(ValueError, match=r"(?s)\[getitem\].*test_nonzero.py:\d+.*compile.*size=n"):
        mx.compile(f)(x)
    with pytest.raises(ValueError, match=r"(?s)\[getitem\].*vmap.*size=n"):
        mx.vmap(f)(x[None])
    with pytest.raises(ValueError, match=r"\[nonzero\].*size=n"):
        mx.compile(lambda x: mx.nonzero(x)[0])(x)

    def with_size(x: mx.array) -> mx.array:
        return x[mx.nonzero(x > 0, size=2)]

    assert mx.compile(with_size)(x).tolist() == [3.0, 2.0]


def test_refusals() -> None:
    a = mx.array(X)
    with pytest.raises(ValueError, match=r"\[getitem\] a mask of shape \(5\) .* \(4, 5, 3\)"):
        a[mx.array([True] * 5)]
    with pytest.raises(ValueError, match=r"mask of shape \(3\) .* lengths \(5\)"):
        a[:, mx.array([True] * 3)]
    with pytest.raises(ValueError, match=r"\[nonzero\] takes an array with at least one axis"):
        mx.nonzero(mx.array(1))
    with pytest.raises(ValueError, match=r"\[argwhere\] size and fill_value are not negative"):
        mx.argwhere(a, size=-1)
    with pytest.raises(TypeError, match=r"\[nonzero\] a must be an array"):
        mx.nonzero([1, 0])
