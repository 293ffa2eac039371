"""`mx.fori_loop`: a loop over a range of ints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingot._native import array
from ingot.graph.dtype import int32
from ingot.ops.elementwise.comparison import less
from ingot.transforms.control.scan import scan
from ingot.transforms.control.while_loop import while_loop
from ingot.transforms.tracing import check_callable

__all__ = ["fori_loop"]


def fori_loop(lower: int | array, upper: int | array, body: Callable[..., Any], init: Any) -> Any:
    """Calls `body` for each int from `lower` up to, but not including, `upper`.

    The same as this loop, except that `body` is traced once and the loop is native code:

        value = init
        for i in range(lower, upper):
            value = body(i, value)
        return value

    Args:
        lower: The first int; an int or an array of one int.
        upper: The int after the last one; likewise.
        body: A function `(i, value) -> value`; `i` is an array of one int32. The value keeps its
            structure, shapes and dtypes.
        init: The first value: an array, a number, or a tree of those.

    Returns:
        The last value. Gradients flow through it if both bounds are ints; with arrays as bounds,
        use `while_loop` with `max_steps`.

    Example:
        >>> mx.fori_loop(0, 5, lambda i, total: total + i, 0)
        array(10, dtype=int32)
    """
    check_callable("fori_loop", body)
    for name, bound in (("lower", lower), ("upper", upper)):
        if isinstance(bound, int) and not -(2**31) <= bound < 2**31:
            raise ValueError(f"[fori_loop] {name} must fit into an int32, got {bound}.")
    if isinstance(lower, int) and isinstance(upper, int):
        start = array(lower, int32)

        def step(carry: Any, _: Any) -> Any:
            i, value = carry
            return (i + 1, body(i, value)), None

        (_, value), _ = scan(step, (start, init), length=max(upper - lower, 0))
        return value
    first, end = (x if isinstance(x, array) else array(x, int32) for x in (lower, upper))
    for name, bound in (("lower", first), ("upper", end)):
        if bound.shape != () or bound.dtype not in (int32,):
            raise ValueError(
                f"[fori_loop] {name} must be an int or an array of one int32, got "
                f"{bound.dtype.name} of shape {bound.shape}."
            )
    _, value = while_loop(
        lambda carry: less(carry[0], end),
        lambda carry: (carry[0] + 1, body(carry[0], carry[1])),
        (first, init),
    )
    return value
