"""`unique` against MLX and NumPy: every dtype, NaN, padding, truncation, derivatives, vmap."""

from __future__ import annotations

from typing import Any

import mlx.core as oracle
import numpy as np
import pytest

import ingot.core as mx

DTYPES = "bool_ uint8 int16 int32 uint32 int64 float16 bfloat16 float32 complex64".split()
ALL = {"return_index": True, "return_inverse": True, "return_counts": True}


def lists(results: Any) -> list[Any]:
    return [x.tolist() for x in results]


@pytest.mark.parametrize("dtype", DTYPES)
def test_unique_is_mlxs(dtype: str) -> None:
    rng = np.random.default_rng(1)
    for shape, size in [((), 2), ((7,), 3), ((40,), 9), ((3, 5), 0), ((2, 3, 4), 30)]:
        numbers = rng.integers(0, 6, shape).astype(np.float32)
        found = []
        for library in (mx, oracle):
            a = library.array(numbers).astype(getattr(library, dtype))
            outputs = library.unique(a, size, **ALL, stream=library.cpu)
            found.append(outputs)
        ours, theirs = found
        assert [str(x.dtype).split(".")[-1] for x in ours] == [
            str(x.dtype).split(".")[-1] for x in theirs
        ]
        assert lists(ours) == lists(theirs)


def test_against_numpy_compiled_and_uncompiled() -> None:
    x = np.random.default_rng(2).integers(-50, 50, 1000).astype(np.float32)
    expected = np.unique(x, True, True, True)
    size = len(expected[0])
    for run in (mx.unique, mx.compile(mx.unique)):
        found = run(mx.array(x), size, **ALL)
        assert lists(found) == [part.tolist() for part in expected]
    strided = mx.array(x)[::-2]
    assert mx.unique(strided, 10).tolist() == np.unique(x[::-2])[:10].tolist()


@pytest.mark.parametrize("fill", [None, 9, 2.5])
def test_special_numbers_and_fill_values(fill: Any) -> None:
    numbers = [np.nan, 1.0, np.nan, np.inf, -0.0, 0.0, -np.inf]
    results = [
        library.unique(library.array(numbers), 8, **ALL, fill_value=fill)
        for library in (mx, oracle)
    ]
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(np.array(ours), np.array(theirs))
        np.testing.assert_array_equal(np.signbit(np.array(ours)), np.signbit(np.array(theirs)))


def test_derivatives() -> None:
    def loss(library: Any, x: Any) -> Any:
        return (library.unique(x, 4, fill_value=x[0]) * library.array([1.0, 2, 3, 4])).sum()

    numbers = [3.0, 1.0, 3.0, 2.0]
    ours, theirs = (
        library.grad(lambda x, library=library: loss(library, x))(library.array(numbers))
        for library in (mx, oracle)
    )
    assert ours.tolist() == theirs.tolist()
    _, tangents = mx.jvp(
        lambda x: mx.unique(x, 4), [mx.array(numbers)], [mx.array([1.0, 10, 100, 1000])]
    )
    assert tangents[0].tolist() == [10.0, 1000.0, 1.0, 10.0]


def test_vmap() -> None:
    rows = [[3.0, 1.0, 3.0], [2.0, 2.0, 5.0]]
    ours, theirs = (
        library.vmap(lambda x, library=library: library.unique(x, 2, True, True, True))(
            library.array(rows)
        )
        for library in (mx, oracle)
    )
    assert lists(ours) == lists(theirs)


def test_empty_arrays_and_refusals() -> None:
    empty = mx.zeros((0,))
    assert lists(mx.unique(empty, 3, **ALL, fill_value=7)) == [[7] * 3, [0] * 3, [], [0] * 3]
    assert mx.unique(empty, 0).tolist() == []
    with pytest.raises(ValueError, match=r"\[unique\] an empty array has nothing to fill 3"):
        mx.unique(empty, 3)
    with pytest.raises(ValueError, match=r"\[unique\] the size must be a length, got -1"):
        mx.unique(mx.array([1]), -1)
    with pytest.raises(ValueError, match=r"\[unique\] the fill value must be one number"):
        mx.unique(mx.array([1]), 2, fill_value=mx.array([1, 2]))
    with pytest.raises(TypeError, match=r"\[unique\] size must be an int"):
        mx.unique(mx.array([1]), 2.0)  # type: ignore[arg-type]
