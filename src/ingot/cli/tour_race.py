"""The tour's race: one function, run by ingot in three ways, by copying, and by other libraries."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import ingot.core as mx
from ingot.cli.tour_peers import PEERS, is_installed, race
from ingot.cli.tour_programs import gelu
from ingot.cli.tour_screen import Bar, Screen

__all__ = ["best_times", "op_by_op", "run_race"]

SHAPE = (4, 1000, 4096)
QUICK_SHAPE = (4, 10, 4096)
# All peers together get no longer than this: the tour should not take longer than a minute.
PEER_SECONDS = 24.0


def best_times(
    functions: Mapping[str, Callable[[], Any]], seconds: float, said: Callable[[str], None]
) -> dict[str, float]:
    """The best time of each in milliseconds: the slower ones were disturbed by something.

    They take turns, so that whatever else the machine does at the time disturbs all alike.
    """
    for name, function in functions.items():
        said(f"warming up: {name}")
        function()
    best = dict.fromkeys(functions, math.inf)
    end = time.perf_counter() + seconds
    while True:
        for name, function in functions.items():
            said(f"measuring: {name}")
            started = time.perf_counter()
            function()
            best[name] = min(best[name], 1000 * (time.perf_counter() - started))
        if time.perf_counter() >= end:
            return best


def op_by_op(function: Callable[[], Any]) -> Callable[[], Any]:
    """The function with every operation computed by itself, as other libraries do by default."""

    def run() -> Any:
        mx.set_eager_fusion(False)
        try:
            return function()
        finally:
            mx.set_eager_fusion(True)

    return run


class _Copy:
    """Copies an array to another with all threads: nothing that reads and writes is quicker."""

    def __init__(self, x: np.ndarray) -> None:
        threads = mx.get_num_threads()
        self.pool = ThreadPoolExecutor(threads)
        self.sources = np.array_split(x.reshape(-1), threads)
        self.targets = np.array_split(np.empty(x.size, x.dtype), threads)

    def __call__(self) -> None:
        list(self.pool.map(np.copyto, self.targets, self.sources))


def run_race(screen: Screen, quick: bool) -> None:
    """Measures all contenders and draws them."""
    shape = QUICK_SHAPE if quick else SHAPE
    x = mx.random.normal(shape)
    mx.eval(x)
    compiled = mx.compile(gelu)
    bytes_text = f"{x.nbytes / 1e6:.0f} MB" if x.nbytes >= 1e6 else f"{x.nbytes / 1e3:.0f} kB"
    screen.say(
        f"The same function on {' x '.join(map(str, shape))} random numbers ({bytes_text}). "
        "Every time is the best of those measured just now, on this machine."
    )
    screen.blank()
    styles = {
        "ingot, op by op": "blue",
        "ingot, uncompiled": "cyan",
        "ingot, compiled": "bold green",
        "copying the array": "magenta",
    }
    contenders: dict[str, Callable[[], Any]] = {
        "ingot, op by op": op_by_op(lambda: mx.eval(gelu(x))),
        "ingot, uncompiled": lambda: mx.eval(gelu(x)),
        "ingot, compiled": lambda: mx.eval(compiled(x)),
        "copying the array": _Copy(np.array(x)),
    }
    with screen.working("measuring") as said:
        times = best_times(contenders, 0.1 if quick else 3.0, said)
        peers, remarks = _peers(x.size, 0.05 if quick else 1.0, said)
    ours = times["ingot, compiled"]
    rows = [
        Bar(name, milliseconds, styles.get(name, "grey58"), f"{milliseconds / ours:.3g}x")
        for name, milliseconds in (times | peers).items()
    ]
    screen.bars(rows)
    screen.blank()
    for remark in remarks:
        screen.say(f"[dim]{remark}")
    screen.say(
        "[bold]Copying[/bold] is the limit: reading every number and writing one for it. Compiled, "
        f"gelu takes {ours / times['copying the array']:.2f} times as long as that. "
        "[bold]Op by op[/bold] is what most libraries do with plain Python: every operation reads "
        "and writes all of memory. Uncompiled ingot need not, because it fuses large graphs when "
        "they are evaluated."
    )


def _peers(
    length: int, seconds: float, said: Callable[[str], None]
) -> tuple[dict[str, float], list[str]]:
    """The times of the peers that are there, and what is to be said about the others."""
    end = time.perf_counter() + PEER_SECONDS
    times: dict[str, float] = {}
    remarks = []
    missing = [peer.split(",")[0] for peer in PEERS if not is_installed(peer)]
    for peer in filter(is_installed, PEERS):
        left = end - time.perf_counter()
        said(f"measuring: {peer}, in a process of its own")
        outcome = race(peer, length, seconds, left) if left > 1 else "was left out for want of time"
        if isinstance(outcome, str):
            remarks.append(f"{peer}: {outcome}.")
        else:
            times[peer] = outcome
    if missing:
        remarks.append(f"Not installed, hence not in the race: {', '.join(missing)}.")
    return times, remarks
