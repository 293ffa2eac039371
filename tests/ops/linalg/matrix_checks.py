"""What tests of functions of matrices share: matrices, both libraries, sentences of refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest

import ingot.core as mx

DTYPES = ("bool_", "uint8", "int32", "float16", "bfloat16", "float32", "float64", "complex64")


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def regular(*shape: int, seed: int = 0) -> np.ndarray:
    """Square matrices far from singular ones."""
    return normal(*shape, seed=seed) + 3 * np.eye(shape[-1])


def definite(*shape: int, seed: int = 0) -> np.ndarray:
    """Symmetric positive definite matrices."""
    root = normal(*shape, seed=seed)
    return root @ np.swapaxes(root, -1, -2) + np.eye(shape[-1])


def complex_normal(*shape: int, seed: int = 0) -> np.ndarray:
    return (normal(*shape, seed=seed) + 1j * normal(*shape, seed=seed + 1)).astype(np.complex64)


def double(x: Any) -> mx.array:
    return mx.array(np.asarray(x), dtype=mx.float64)


def values(x: Any) -> np.ndarray:
    return np.array(x.astype(mx.float32) if x.dtype == mx.bfloat16 else x)


def accepted_dtypes(function: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """What `function` of a library and a matrix does with each dtype: result dtypes or an error."""
    return {name: _outcome(mx, function, name) for name in DTYPES}


def accepted_by_mlx(function: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """The same for MLX."""
    return {name: _outcome(mlx, function, name) for name in DTYPES}


def _outcome(library: Any, function: Callable[[Any, Any], Any], name: str) -> Any:
    x = library.array(np.diag([3.0, 2.0, 1.0]).astype(np.float32))
    try:
        results = function(library, x.astype(getattr(library, name)))
    except ValueError:
        return ValueError
    found = results if isinstance(results, tuple) else (results,)
    return [str(result.dtype).rpartition(".")[2] for result in found]


def check_close(found: Any, expected: Any, tolerance: float = 1e-5) -> None:
    numbers = values(found)
    assert numbers.shape == np.shape(expected)
    np.testing.assert_allclose(numbers, expected, rtol=tolerance, atol=tolerance)


def refuses(kind: type[Exception], sentence: str, function: Callable[[], Any]) -> None:
    """`function` raises, with a sentence that begins like this."""
    with pytest.raises(kind) as caught:
        mx.eval(function())
    assert str(caught.value).startswith(sentence), str(caught.value)
