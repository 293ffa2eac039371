"""A bounded number of random loops for every change; `python -m tests.fuzz` runs more."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fuzz.check import Difference
from tests.fuzz.loops import KINDS, LoopStatistics, check_loop, grow_loop

import ingot.core as mx

PARTS = 2
LOOPS_IN_A_PART = 3


@pytest.mark.parametrize("part", range(PARTS))
def test_loops_are_what_they_are_unrolled(part: int, capsys: pytest.CaptureFixture[str]) -> None:
    statistics = LoopStatistics()
    for seed in range(part * LOOPS_IN_A_PART, (part + 1) * LOOPS_IN_A_PART):
        check_loop(grow_loop(seed), statistics)
    with capsys.disabled():
        print(f"\nfuzz, part {part}: {statistics}")
    assert statistics.programs == LOOPS_IN_A_PART


def test_all_kinds_are_grown() -> None:
    programs = [grow_loop(seed) for seed in range(30)]
    assert {program.kind for program in programs} == set(KINDS)
    assert {program.exact for program in programs} == {True, False}
    assert any("loops." in line for program in programs for line in program.lines)


def test_loops_depend_on_their_seeds_only() -> None:
    assert grow_loop(17) == grow_loop(17)
    assert grow_loop(17).source() != grow_loop(18).source()


def test_the_fuzzer_notices_a_wrong_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    program = next(grow_loop(seed) for seed in range(50) if grow_loop(seed).kind == "scan")
    scan = mx.scan

    def wrong(f: Any, init: Any, xs: Any) -> Any:
        last, ys = scan(f, init, xs)
        return ({**last, "h": last["h"] + 0.01} if isinstance(last, dict) else last), ys

    monkeypatch.setattr(mx, "scan", wrong)
    with pytest.raises(Difference, match=r"loop \d+: (.|\n)*def step"):
        check_loop(program, LoopStatistics())
