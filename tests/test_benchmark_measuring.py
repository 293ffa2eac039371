"""How calls are timed, and the search for sizes that are slower than their neighbours."""

from __future__ import annotations

import pytest

import ingot.core as mx
from ingot.benchmarks import measure
from ingot.benchmarks.measure import Stopwatch
from ingot.benchmarks.sizes import bands, nanoseconds_by_size, ratios


def test_stopwatch_times_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def work() -> None:
        nonlocal now
        now += 0.25

    monkeypatch.setattr(measure, "perf_counter", lambda: now)
    stopwatch = Stopwatch(work, round_seconds=5.0, self_timed=False)
    assert 20 <= stopwatch.calls <= 50
    assert stopwatch.round() == 0.25
    assert Stopwatch(lambda: 7.5, round_seconds=1.0, self_timed=True).round() == 7.5


def test_a_call_that_compiles_does_not_decide_how_many_make_a_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    left = [0.25, 90.0]

    def work() -> None:
        nonlocal now
        now += left.pop(0) if left else 0.25

    monkeypatch.setattr(measure, "perf_counter", lambda: now)
    assert Stopwatch(work, round_seconds=5.0, self_timed=False).calls >= 20


def test_sizes_that_are_slower_than_their_neighbours() -> None:
    times = {100: 1.0, 101: 1.2, 103: 1.1, 104: 2.0, 200: 3.0, 1000: 1.0, 1049: 1.16, 1200: 5.0}
    found = [(size, best) for size, ratio, best in ratios(times) if ratio > 1.15]
    assert found == [(104, 100), (101, 100), (1049, 1000)]
    sizes = [size for band in bands(24) for size in band]
    assert min(sizes) == 1
    assert 4700 < max(sizes) <= 5000
    assert len(bands(24)[-1]) == 9


def test_times_for_each_element() -> None:
    before = mx.get_num_threads()
    try:
        found = nanoseconds_by_size(lambda x: x + 1, [3, 4096])
    finally:
        mx.set_num_threads(before)
    assert all(0 < nanoseconds < 1e4 for nanoseconds in found.values())
