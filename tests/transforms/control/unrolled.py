"""What loops are compared with: the same written out in Python."""

from __future__ import annotations

from typing import Any

import numpy as np

import ingot.core as mx
from ingot.utils import tree_flatten, tree_map


def scanned(
    f: Any,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    library: Any = mx,
) -> Any:
    """`mx.scan`, unrolled, with the arrays of ingot or of MLX."""
    if xs is not None:
        length = tree_flatten(xs)[0][1].shape[0]
    assert length is not None
    order = range(length)
    carry, ys = init, [None] * length
    for i in reversed(order) if reverse else order:
        carry, ys[i] = f(carry, None if xs is None else tree_map(lambda x, i=i: x[i], xs))
    return carry, _stacked(ys, library)


def _stacked(ys: list[Any], library: Any) -> Any:
    first = ys[0]
    if first is None:
        return None
    if isinstance(first, dict):
        return {key: _stacked([y[key] for y in ys], library) for key in first}
    if isinstance(first, (tuple, list)):
        return type(first)(_stacked([y[n] for y in ys], library) for n in range(len(first)))
    return library.stack([y if isinstance(y, library.array) else library.array(y) for y in ys])


def close(found: Any, expected: Any, tolerance: float = 1e-6) -> None:
    """AssertionError unless two trees have equal arrays up to rounding."""
    one, two = tree_flatten(found), tree_flatten(expected)
    assert [name for name, _ in one] == [name for name, _ in two]
    for (name, a), (_, b) in zip(one, two, strict=True):
        assert a.dtype == b.dtype, name
        wide = np.complex128 if a.dtype == mx.complex64 else np.float64
        x, y = (
            np.array(value.astype(mx.float32) if value.dtype == mx.bfloat16 else value)
            for value in (a, b)
        )
        scale = max(1.0, float(np.abs(y.astype(wide)).max(initial=0)))
        np.testing.assert_allclose(
            x.astype(wide), y.astype(wide), rtol=tolerance, atol=4 * tolerance * scale, err_msg=name
        )
