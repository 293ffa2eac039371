"""Streams of other threads, limits of memory, and lengths that do not fit: exceptions as in MLX."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import mlx.core as mlx
import pytest

import ingot.core as mx


def outcome(call: Callable[[], Any]) -> Any:
    """The value, or the type of an exception."""
    try:
        return call()
    except Exception as error:
        return next(
            kind
            for kind in (OverflowError, TypeError, ValueError, RuntimeError, Exception)
            if isinstance(error, kind)
        )


def elsewhere(call: Callable[[], Any]) -> Any:
    """The outcome in another thread."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(outcome(call)))
    thread.start()
    thread.join()
    return found[0]


def within(m: Any, stream: Any) -> Any:
    with m.stream(stream):
        return (m.array(1) + 1).item()


@pytest.mark.parametrize("kind", ["new_stream", "new_thread_local_stream"])
@pytest.mark.parametrize("thread", [outcome, elsewhere])
def test_streams_belong_to_threads(kind: str, thread: Callable[..., Any]) -> None:
    found: list[list[Any]] = []
    for m in (mlx, mx):
        stream: Any = getattr(m, kind)(m.cpu)
        direct = thread(lambda m=m, s=stream: m.add(m.array(1), 1, stream=s).item())
        found.append([direct, thread(lambda m=m, s=stream: within(m, s))])
    assert found[0] == found[1]


def test_streams_that_all_threads_may_use() -> None:
    """The default stream too, and what was built on the stream of another thread can be evaluated:
    MLX refuses that.
    """
    free, default = mx.new_thread_unsafe_stream(mx.cpu), mx.default_stream(mx.cpu)
    for stream in (free, default):
        assert elsewhere(lambda s=stream: mx.add(mx.array(1), 1, stream=s).item()) == 2
    built = mx.add(mx.array(1), 1, stream=mx.new_stream(mx.cpu))
    assert elsewhere(built.item) == 2


@pytest.mark.parametrize("function", ["set_cache_limit", "set_memory_limit", "set_wired_limit"])
@pytest.mark.parametrize("limit", [-1, 1.5, "x", None, 2**64])
def test_limits(function: str, limit: Any) -> None:
    expected, found = (outcome(lambda m=m: getattr(m, function)(limit)) for m in (mlx, mx))
    assert expected is TypeError
    assert isinstance(found, type)
    assert issubclass(found, (TypeError, OverflowError))


@pytest.mark.parametrize("function", ["set_cache_limit", "set_memory_limit"])
def test_limits_return_the_one_before(function: str) -> None:
    for m in (mlx, mx):
        change = getattr(m, function)
        before = change(1 << 30)
        try:
            assert change(1 << 29) == 1 << 30
        finally:
            change(before)


LENGTHS: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda m: m.zeros((2**31,)),
    "ones": lambda m: m.ones((2, 2**31)),
    "full": lambda m: m.full((2**32,), 1.0),
    "broadcast_to": lambda m: m.broadcast_to(m.zeros((1,)), (2**31,)),
    "normal": lambda m: m.random.normal((2**31,)),
    "uniform": lambda m: m.random.uniform(shape=(2**40,)),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_of_more_than_31_bits(name: str) -> None:
    for m in (mlx, mx):
        with pytest.raises(OverflowError):
            LENGTHS[name](m)
