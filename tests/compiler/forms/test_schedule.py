"""Schedules: their text, and what their verifier finds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.compiler.compiled_calls import traced

import ingot.core as mx
from ingot.compiler.forms.schedule import Group, Schedule, elementwise_inputs, gathers, without_ones
from ingot.compiler.options import Options
from ingot.compiler.passes.expand import expand
from ingot.compiler.passes.fuse import fuse

X = mx.array(np.ones((4, 5), np.float32))


def schedule_of(function: Any, *args: Any) -> Schedule:
    return fuse(expand(traced(function, *args).tape, Options()), Options())


def test_the_text_names_what_groups_read_and_write() -> None:
    schedule = schedule_of(lambda x: mx.exp(x @ x.T) * 2, X)
    lines = schedule.text().splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == [
        "view",
        "single",
        "view",
        "fused",
        "return",
    ]
    assert lines[-1] == f"return %{schedule.tape.numbers()[schedule.tape.outputs[0]]}"


def test_what_is_right_passes() -> None:
    schedule_of(lambda x: mx.softmax(x, axis=-1) @ x.T, X).verify()


def broken(schedule: Schedule, groups: list[Group]) -> Schedule:
    return replace(schedule, groups=groups)


def test_orders_that_cannot_run_are_found() -> None:
    schedule = schedule_of(lambda x: mx.sort(mx.exp(x)) + 1, X)
    with pytest.raises(AssertionError, match="not written before"):
        broken(schedule, schedule.groups[::-1]).verify()


def test_missing_groups_are_found() -> None:
    schedule = schedule_of(lambda x: mx.sort(mx.exp(x)), X)
    with pytest.raises(AssertionError):
        broken(schedule, schedule.groups[:-1]).verify()


def test_inputs_that_are_not_named_are_found() -> None:
    schedule = schedule_of(lambda x: mx.exp(x), X)
    (group,) = schedule.groups
    group.inputs = []
    with pytest.raises(AssertionError, match="does not say that it reads"):
        schedule.verify()


def test_steps_of_another_shape_are_found() -> None:
    schedule = schedule_of(lambda x: mx.exp(x) + 1, X)
    group = next(each for each in schedule.groups if each.kind == "fused")
    group.domain = (5, 5)
    with pytest.raises(AssertionError, match="does not fit"):
        schedule.verify()


def test_groups_count_what_they_touch() -> None:
    (group,) = schedule_of(mx.exp, X).groups
    assert group.nbytes == 2 * 4 * 5 * 4
    group.kind = "view"
    assert group.nbytes == 0


def test_gathers_read_their_first_input_anywhere() -> None:
    schedule = schedule_of(lambda x, i: mx.take(x, i, axis=0), X, mx.array([1, 2]))
    taken = next(s for g in schedule.groups for s in g.steps if gathers(s))
    assert elementwise_inputs(taken) == taken.inputs[1:]


def test_lengths_of_one_make_no_difference() -> None:
    assert without_ones((1, 3, 1, 2)) == (3, 2)
    assert without_ones((1,)) == ()
