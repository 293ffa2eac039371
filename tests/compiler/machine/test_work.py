"""Loops as text, for random programs: every kernel can be told, and reads and writes what its group
does.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.fuzz.grow import grow

import ingot.core as mx
from ingot.compiler.forms.nest.verify import verify
from ingot.explain.page.data import page_data


def explained(seed: int) -> Any:
    program = grow(seed)
    state = program.make_state(mx)
    compiled = program.compile(mx, program.make(mx, state), state)
    return compiled.explain(*program.arguments(mx, 0))


@pytest.mark.parametrize("first", [0, 5])
def test_random_programs_can_be_printed(first: int) -> None:
    for seed in range(1000 + first, 1005 + first):
        report = explained(seed)
        groups = {id(group.steps): group for group in report.stages.schedule.groups}
        written: dict[int, set[Any]] = {}
        for work in report.work:
            if work.kernel is None:
                continue
            text = report.loops(work)
            verify(work.kernel.nest)
            assert text.startswith("kernel(")
            group = groups.get(id(work.steps))
            if group is None:
                continue  # a copy of a view, which no group is
            assert set(work.reads) <= set(group.inputs), text
            written.setdefault(id(group), set()).update(work.writes)
            assert written[id(group)] <= set(group.outputs), text
        for group in groups.values():
            if group.kind == "fused":
                assert written[id(group)] == set(group.outputs), report.name
        assert str(report)
        data = page_data(report)
        assert len(data["work"]) == len(report.work)
        if report.seconds_by_work is not None:
            assert len(report.seconds_by_work) == len(report.work)
