"""Compiled functions in several threads: a short campaign, and races made on purpose."""

from __future__ import annotations

import sys
import threading
from functools import partial
from typing import Any

from tests.compiler import shared_campaign
from tests.compiler.thread_campaign import main

import ingot.core as mx
from ingot.compiler.call.eager import evaluate_whole
from ingot.graph.outputs import Output


def test_a_short_campaign() -> None:
    main(3.0)


def test_a_short_campaign_with_shared_graphs() -> None:
    shared_campaign.main(1.0)


def test_a_trace_hides_nothing_from_other_threads() -> None:
    """While one thread traces, captured arrays are placeholders: others wait."""
    state = [mx.array(1.0)]
    tracing, finish = threading.Event(), threading.Event()

    @partial(mx.compile, inputs=state, outputs=state)
    def slow(x: Any) -> Any:
        state[0] = state[0] + x
        tracing.set()
        finish.wait(10)
        return state[0]

    quick = mx.compile(lambda x: x + state[0], inputs=state)
    assert quick(mx.array(1.0)).item() == 2.0
    results: list[float] = []
    tracer = threading.Thread(target=lambda: slow(mx.array(1.0)))
    tracer.start()
    assert tracing.wait(10)
    reader = threading.Thread(target=lambda: results.append(quick(mx.array(1.0)).item()))
    reader.start()
    reader.join(0.2)
    assert results == []
    finish.set()
    tracer.join()
    reader.join()
    assert results == [3.0]
    assert state[0].item() == 2.0


def test_updates_of_captured_state_are_not_lost() -> None:
    state = {"n": mx.array(0)}

    @partial(mx.compile, inputs=state, outputs=state)
    def count() -> None:
        state["n"] = state["n"] + 1

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=lambda: [count() for _ in range(200)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch)
    assert state["n"].item() == 800


def test_random_numbers_are_not_drawn_twice() -> None:
    draw = mx.compile(lambda: mx.random.uniform(shape=(4,)))
    mx.random.seed(3)
    expected = sorted(str(draw().tolist()) for _ in range(80))
    assert len(set(expected)) == 80
    found: list[str] = []
    mx.random.seed(3)
    threads = [
        threading.Thread(target=lambda: found.extend(str(draw().tolist()) for _ in range(20)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == expected


def test_streams_and_modes_of_other_threads_do_not_matter() -> None:
    compiled = mx.compile(lambda x: x + 1)
    results = []

    def call() -> None:
        with mx.stream(mx.new_stream(mx.cpu)):
            results.append(compiled(mx.array(1.0)).item())

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    results.append(compiled(mx.array(1.0)).item())
    assert results == [2.0, 2.0]
    assert compiled.cache_info().misses == 2


def test_traces_of_different_threads_do_not_mix() -> None:
    barrier = threading.Barrier(4)
    results: dict[int, float] = {}

    def work(number: int) -> None:
        def function(x: Any) -> Any:
            for _ in range(300):
                x = x + number
            return x

        barrier.wait()
        results[number] = mx.compile(function)(mx.array(0.0)).item()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: 300.0 * number for number in range(4)}


class _Overtaken:
    """An output that another thread evaluates while the graph is looked at: it forgets its op and
    its inputs.
    """

    inputs: tuple[Any, ...] = ()

    def __init__(self) -> None:
        self.ops = iter([Output(0)])

    @property
    def op(self) -> Output | None:
        return next(self.ops, None)


def test_a_graph_that_another_thread_evaluates_is_left_to_it() -> None:
    x = mx.array([1.0, 2.0])
    nodes: list[Any] = [(-x)._node, mx.exp(x)._node, _Overtaken()]
    assert evaluate_whole(nodes, [2]) is False
