"""Calls that are made again from those before: the same values as NumPy's, and the same handles."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot import _native


def numbers(*shape: int, start: int = 0) -> Any:
    count = int(np.prod(shape))
    return np.arange(start, start + count, dtype=np.float32).reshape(shape)


CALLS: list[tuple[Any, Any]] = [
    (lambda x: mx.reshape(x, (4, -1)), lambda x: x.reshape(4, -1)),
    (lambda x: x.reshape(2, 2, 6), lambda x: x.reshape(2, 2, 6)),
    (lambda x: x.transpose(1, 0), lambda x: x.T),
    (lambda x: mx.sum(x, axis=0), lambda x: x.sum(0)),
    (lambda x: mx.sum(x, 1, keepdims=True), lambda x: x.sum(1, keepdims=True)),
    (lambda x: x[1:, ::2], lambda x: x[1:, ::2]),
    (lambda x: x[..., None, 3], lambda x: x[..., None, 3]),
    (lambda x: x[-1], lambda x: x[-1]),
    (lambda x: x[[0, 2]], lambda x: x[[0, 2]]),
    (lambda x: x[mx.array([1, 0, 3])], lambda x: x[[1, 0, 3]]),
    (lambda x: x.astype(mx.int32), lambda x: x.astype(np.int32)),
    (lambda x: mx.argmax(x, axis=-1), lambda x: x.argmax(-1)),
    (lambda x: mx.softmax(x, axis=-1).argmax(), lambda x: np.int64(x.argmax() % 6)),
    (lambda x: mx.matmul(x, x.T), lambda x: x @ x.T),
    (lambda x: mx.take(x, mx.array([2, 2]), axis=1), lambda x: x.take([2, 2], 1)),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_equal_calls_give_what_numpy_gives_for_their_own_arguments(number: int) -> None:
    function, expected = CALLS[number]
    for start in (0, 100, 7):
        values = numbers(4, 6, start=start)
        assert np.array_equal(np.array(function(mx.array(values))), expected(values))


def test_what_differs_in_the_type_of_a_number_is_another_call() -> None:
    x = mx.array(numbers(2, 2))
    assert mx.clip(x, 1, 2).dtype == mx.float32
    ints = mx.array([[0, 5], [1, 9]])
    assert mx.clip(ints, 1, 2).tolist() == [[1, 2], [1, 2]]
    assert mx.clip(ints, 1.5, 2.5).tolist() == [[1.5, 2.5], [1.5, 2.5]]
    assert mx.sum(x, axis=1).tolist() == [1, 5]


def test_arguments_that_are_one_array_are_another_call_than_two_equal_ones() -> None:
    a, b = mx.array(numbers(3, 3)), mx.array(numbers(3, 3, start=5))
    for _ in range(2):
        assert np.array_equal(np.array(mx.matmul(a, a)), numbers(3, 3) @ numbers(3, 3))
        assert np.array_equal(np.array(mx.matmul(a, b)), numbers(3, 3) @ numbers(3, 3, start=5))
        assert np.array_equal(np.array(mx.matmul(b, a)), numbers(3, 3, start=5) @ numbers(3, 3))


def test_updates_re_point_the_array_and_leave_what_was_built_before() -> None:
    for start in range(3):
        values = numbers(4, 4, start=start)
        x = mx.array(values)
        before = x * 1
        alias = x
        x[1:3, :2] = mx.array(numbers(2, 2))
        x[0] = start
        expected = values.copy()
        expected[1:3, :2] = numbers(2, 2)
        expected[0] = start
        assert alias is x
        assert np.array_equal(np.array(x), expected)
        assert np.array_equal(np.array(before), values)


def test_an_array_updated_with_itself() -> None:
    for start in (0, 10):
        values = numbers(4, start=start)
        x = mx.array(values)
        x[:] = x
        x[::-1] = x
        assert np.array_equal(np.array(x), values[::-1])


def test_results_are_handles_of_their_own_or_the_argument_as_at_the_first_call() -> None:
    def kept(x: mx.array) -> bool:
        y = mx.astype(x, mx.float32) if hasattr(mx, "astype") else x.astype(mx.float32)
        return y is x

    firsts = [kept(mx.array(numbers(5, 5))) for _ in range(3)]
    assert len(set(firsts)) == 1
    for _ in range(3):
        x = mx.array(numbers(2, 3))
        y = x.reshape(2, 3)
        y += 1
        assert np.array_equal(np.array(x), numbers(2, 3)) or y is x
        assert (y is x) == (np.array(x)[0, 0] == 1)


def test_gradients_and_compiled_functions_trace_what_uncompiled_calls_made() -> None:
    x = mx.array(numbers(4, 6))
    weight = mx.array(numbers(6, start=1))

    def loss(x: mx.array) -> mx.array:
        return mx.sum(mx.fast.rms_norm(x, weight, 1e-5)[1:, :3])

    for _ in range(2):
        plain = loss(x).item()
        assert mx.compile(loss)(x).item() == pytest.approx(plain, rel=1e-5)
        shift = mx.zeros_like(x)
        shift[2, 1] = 1e-2
        slope = (loss(x + shift).item() - loss(x - shift).item()) / 2e-2
        assert mx.grad(loss)(x)[2, 1].item() == pytest.approx(slope, abs=2e-3)


def test_the_stream_is_that_of_the_call() -> None:
    x = mx.array(numbers(2, 8))
    other = mx.new_stream(mx.cpu)
    first = mx.reshape(x, (4, 4))._node.stream
    with mx.stream(other):
        assert mx.reshape(x, (4, 4))._node.stream == other
    assert mx.reshape(x, (4, 4))._node.stream == first
    assert mx.reshape(x, (4, 4), stream=other)._node.stream == other


def test_errors_are_raised_each_time_and_nothing_is_kept_of_them() -> None:
    x = mx.array(numbers(2, 3))
    for _ in range(3):
        with pytest.raises(ValueError, match="reshape"):
            mx.reshape(x, (4, 4))
        with pytest.raises(IndexError):
            x[7]
        with pytest.raises(TypeError):
            mx.sum(x, axis=1.5)  # type: ignore[arg-type]


def test_ints_that_are_arrays_are_read_each_time() -> None:
    x = mx.array(numbers(4, 6))
    for number in (1, 3, 2):
        assert x[mx.array(number)].tolist() == numbers(4, 6)[number].tolist()
        assert x[: mx.array(number).item()].shape == (number, 6)
        assert mx.sum(x, axis=mx.array(number % 2)).shape == ((6,), (4,))[number % 2]


def test_lengths_that_grow_are_each_a_call_of_their_own() -> None:
    cache = mx.zeros((1, 2, 256, 4))
    for length in range(1, 40):
        cache[..., length - 1 : length, :] = length
        part = cache[..., :length, :]
        assert part.shape == (1, 2, length, 4)
        assert part.sum().item() == 8 * length * (length + 1) / 2


def test_threads_build_graphs_at_the_same_time() -> None:
    failures: list[str] = []

    def work(seed: int) -> None:
        values = numbers(8, 8, start=seed)
        for step in range(300):
            x = mx.array(values)
            found = np.array(mx.sum(x[step % 8 :].reshape(-1), axis=0))
            if found != values[step % 8 :].sum():
                failures.append(f"{seed} {step}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_equal_calls_share_their_ops_but_not_their_nodes() -> None:
    x, y = mx.array(numbers(3, 4)), mx.array(numbers(3, 4))
    first, second = mx.reshape(x, (2, 6)), mx.reshape(y, (2, 6))
    assert first._node is not second._node
    assert first._node.op is second._node.op
    assert second._node.inputs == (y._node,)
    with _native.tracing:
        assert mx.reshape(y, (2, 6))._node.inputs == (y._node,)


def test_an_array_that_another_thread_re_points_while_a_key_is_made() -> None:
    values = numbers(4, 6)
    x = mx.array(values)
    stopped = threading.Event()

    def re_point() -> None:
        while not stopped.is_set():
            x[:] = mx.array(values)

    other = threading.Thread(target=re_point)
    other.start()
    try:
        for _ in range(2000):
            assert mx.reshape(x, [2, 12]).shape == (2, 12)
            assert x[[0, 2]].shape == (2, 6)
    finally:
        stopped.set()
        other.join()
