"""The weak-scaling table of the guide, computed again by the formula that stands above it."""

from __future__ import annotations

import re
from itertools import pairwise
from math import log2
from pathlib import Path

GUIDE = (Path(__file__).parents[2] / "docs/guide/distributed.md").read_text()
PROSE = " ".join(GUIDE.split())  # wherever lines break


def _number(pattern: str) -> float:
    found = re.search(pattern, PROSE)
    assert found, pattern
    return float(found[1])


def _sum_seconds(ranks: int, size: float, latency: float, bandwidth: float) -> float:
    """Rabenseifner's algorithm: log2(p) messages to reduce and as many to gather, in which each
    rank moves (p - 1) / p of the data twice.
    """
    return 2 * log2(ranks) * latency + 2 * (ranks - 1) / ranks * size / bandwidth


def test_predictions_follow_from_the_formula_and_the_measurements() -> None:
    layers = (784, 512, 512, 10)
    size = 4 * sum((a + 1) * b for a, b in pairwise(layers))
    assert abs(size / 1e6 - _number(r"n = ([\d.]+) MB")) < 0.05
    compute = _number(r"C = ([\d.]+) ms") / 1e3
    latencies = {10: 30e-6, 100: 5e-6}
    assert "latencies of 30 and 5 microseconds" in PROSE
    rows = re.findall(r"^\| (\d+) Gbit \| (.*) \|$", GUIDE, re.MULTILINE)
    assert [int(network) for network, _ in rows] == [10, 100]
    for network, cells in rows:
        bandwidth = int(network) * 1e9 / 8
        wanted = []
        for ranks in (8, 64, 512):
            seconds = _sum_seconds(ranks, size, latencies[int(network)], bandwidth)
            wanted.append(f"{seconds * 1e3:.2f} ms, {compute / (compute + seconds):.0%}")
        assert cells.split(" | ") == wanted


def test_what_two_ranks_were_predicted() -> None:
    latency = _number(r"of 4 bytes took ([\d.]+) microseconds") / 1e6
    seconds = _number(r"one of 4 MiB took ([\d.]+) ms") / 1e3
    bandwidth = (1 << 22) / (seconds - 2 * latency)
    assert abs(bandwidth / 1e9 - _number(r"a bandwidth of ([\d.]+) GB/s")) < 0.06
    predicted = _sum_seconds(2, 2.7e6, latency, bandwidth)
    assert abs(predicted * 1e3 - _number(r"predicts T = ([\d.]+) ms")) < 0.01
    compute = _number(r"C = ([\d.]+) ms") / 1e3
    efficiency = compute / (compute + predicted)
    assert round(100 * efficiency) == _number(r"an efficiency of (\d+)%")
