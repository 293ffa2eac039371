"""Fusion: which steps become one group, which do not, and that groups form no circles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.compiled_calls import traced

import ingot.core as mx
from ingot.compiler.forms.schedule import Group, Schedule
from ingot.compiler.options import Options
from ingot.compiler.passes import open_group
from ingot.compiler.passes.fuse import fuse
from ingot.compiler.passes.simplify import simplify
from ingot.runtime.compile_mode import CompileMode


def fused(function: Any, *shapes: tuple[int, ...]) -> Schedule:
    args = tuple(mx.ones(shape) for shape in shapes)
    schedule = fuse(simplify(traced(function, *args).tape, Options()), Options())
    schedule.verify()
    return schedule


def groups(schedule: Schedule, kind: str = "fused") -> list[list[str]]:
    return [
        [type(step.op).__name__ for step in group.steps]
        for group in schedule.groups
        if group.kind == kind
    ]


def test_maps_of_one_shape_are_one_group() -> None:
    schedule = fused(lambda x, y: mx.exp(x + y) * mx.sin(x), (3, 4), (3, 4))
    assert groups(schedule) == [["Add", "Exp", "Sin", "Multiply"]]


def test_groups_may_have_several_outputs() -> None:
    schedule = fused(lambda x: (mx.exp(x), mx.exp(x) + 1, mx.exp(x) * 2), (5,))
    (group,) = [group for group in schedule.groups if group.kind == "fused"]
    assert len(group.outputs) == 3


def test_no_limit_of_depth_or_of_arrays() -> None:
    def function(*arrays: Any) -> Any:
        total = arrays[0]
        for x in arrays:
            total = mx.square(total) + x
        return total

    schedule = fused(function, *[(4,)] * 40)
    assert len(groups(schedule)) == 1
    assert len(groups(schedule)[0]) == 80


def test_a_group_may_be_as_large_as_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Any) -> Any:
        for _ in range(30):
            x = mx.square(x)
        return x

    monkeypatch.setattr(open_group, "MAX_GROUP_STEPS", 12)
    schedule = fused(function, (4,))
    assert [len(group) for group in groups(schedule)] == [12, 12, 6]


def test_math_functions_fill_a_group_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Any) -> Any:
        for _ in range(20):
            x = mx.sin(x) * 2
        return x

    monkeypatch.setattr(open_group, "MAX_GROUP_STEPS", 12)
    monkeypatch.setattr(open_group, "MATH_FUNCTION_STEPS", 5)
    schedule = fused(function, (4,))
    first, *others, last = groups(schedule)
    assert first == ["Sin", "Multiply", "Sin", "Multiply"]
    assert {tuple(group) for group in others} == {tuple(first)}, "equal groups share their code"
    assert last == first


def test_chained_reductions_fill_a_group_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Independent ones share a traversal of the row, so any number may join."""

    def chained(x: Any) -> Any:
        for _ in range(12):
            x = x - x.sum(-1, keepdims=True)
        return x

    def independent(x: Any) -> Any:
        return [mx.sum(x > number, -1) for number in range(12)]

    monkeypatch.setattr(open_group, "MAX_GROUP_STEPS", 50)
    monkeypatch.setattr(open_group, "CHAINED_REDUCTION_STEPS", 12)
    found = [group.count("Sum") for group in groups(fused(chained, (20, 5)))]
    assert sum(found) == 12
    assert len(set(found[1:-1])) == 1, "equal groups share their code"
    assert max(found) <= 5
    assert [group.count("Sum") for group in groups(fused(independent, (20, 5)))] == [12]


def test_broadcasts_and_views_of_inputs_cost_nothing() -> None:
    schedule = fused(lambda x, row: x.T[1:] * row + x[:, 1:].T, (3, 4), (3,))
    assert len(groups(schedule)) == 1
    assert groups(schedule, "single") == []
    views = [group for group in schedule.groups if group.kind == "view"]
    assert all(group.nbytes == 0 for group in views)


def test_reductions_along_rows_stay_inside() -> None:
    schedule = fused(lambda x: x - x.max(-1, keepdims=True), (20, 5))
    assert groups(schedule) == [["Max", "Broadcast", "Subtract"]]
    assert schedule.groups[-1].by_rows


def test_a_mean_of_rows_and_its_use() -> None:
    schedule = fused(lambda x: (x / x.sum(-1, keepdims=True), mx.log(x.sum(-1))), (20, 5))
    assert len(groups(schedule)) == 1


def test_reductions_of_columns_end_a_group() -> None:
    schedule = fused(lambda x: x - (x * x).sum(0), (20, 5))
    assert groups(schedule) == [["Multiply", "Sum", "Reshape"], ["Subtract"]]


def test_long_single_rows_are_split_instead() -> None:
    schedule = fused(lambda x: x - x.mean(), (1 << 17,))
    assert len(groups(schedule)) == 3
    assert not any(group.by_rows for group in schedule.groups)
    short = fused(lambda x: x - x.mean(), (1 << 10,))
    assert len(groups(short)) == 1


def test_reductions_over_different_axes_are_different_groups() -> None:
    schedule = fused(lambda x: (x.sum(1), x.sum(0), x.max(1)), (20, 30))
    assert sorted(groups(schedule)) == [
        ["Sum", "Reshape"],
        ["Sum", "Reshape", "Max", "Reshape"],
    ]


def test_groups_that_read_the_same_value_are_one() -> None:
    schedule = fused(
        lambda x, y: (mx.sin(x), x.sum(-1), mx.cos(x) * y, mx.exp(y)), (20, 5), (20, 5)
    )
    assert len(groups(schedule)) == 1
    apart = fused(lambda x, y: (mx.sin(x), mx.cos(y)), (20, 5), (20, 5))
    assert len(groups(apart)) == 2
    scalar = fused(lambda x, y, two: (x * two, y * two), (20, 5), (20, 5), ())
    assert len(groups(scalar)) == 2
    later = fused(lambda x: (mx.sin(x), x + (x @ x).sum(0)), (20, 20))
    later.verify()


def test_products_stay_single() -> None:
    schedule = fused(lambda x: mx.exp(mx.exp(x) @ mx.sin(x)) + 1, (4, 4))
    assert groups(schedule, "single") == [["Matmul"]]
    assert groups(schedule) == [["Exp", "Sin"], ["Exp", "Add"]]
    (single,) = [group for group in schedule.groups if group.kind == "single"]
    assert single.reason


def test_a_path_through_a_single_step_separates() -> None:
    """The groups before and after a product must not be one."""

    def function(x: Any) -> Any:
        y = mx.exp(x)
        return y + y @ y

    schedule = fused(function, (4, 4))
    assert groups(schedule) == [["Exp"], ["Add"]]


def test_a_path_through_another_group_separates() -> None:
    def function(x: Any) -> Any:
        y = mx.exp(x)
        rows = y.sum(0, keepdims=True)
        return y * mx.sin(rows) + mx.cos(y)

    schedule = fused(function, (20, 5))
    assert len(groups(schedule)) == 3


def test_transposes_of_what_a_group_computes_go_through_memory() -> None:
    schedule = fused(lambda x: mx.exp(x) + mx.exp(x).T, (4, 4))
    assert groups(schedule) == [["Exp"], ["Add"]]
    assert groups(schedule, "view") == [["Transpose"]]


def test_views_that_keep_the_order_stay_inside() -> None:
    schedule = fused(lambda x: mx.exp(mx.exp(x)[:, None, :]).squeeze(1) + 1, (4, 5))
    assert len(groups(schedule)) == 1


def test_empty_arrays() -> None:
    schedule = fused(lambda x: mx.exp(x).sum() + 1, (0, 4))
    assert ["Sum"] in groups(schedule, "single")


def test_switched_off() -> None:
    schedule = fused(lambda x: mx.exp(x) + mx.sin(x), (4,))
    apart = fuse(schedule.tape, Options(CompileMode.no_fuse))
    apart.verify()
    assert {group.kind for group in apart.groups} == {"single"}
    assert {group.reason for group in apart.groups} == {"fusion is off"}


def test_the_text() -> None:
    schedule = fused(lambda x: mx.exp(x).T + 1, (2, 3))
    assert schedule.text().splitlines()[0] == "fused [2, 3]: reads %0; writes %1"
    assert schedule.text().splitlines()[1] == "    %1 = Exp(%0) : float32[2, 3]"
    assert schedule.text().splitlines()[-1].startswith("return %")


def test_the_verifier_notices_mistakes() -> None:
    def broken() -> tuple[Schedule, list[Group]]:
        schedule = fused(lambda x: mx.exp(x) + mx.exp(x) @ x, (4, 4))
        return schedule, schedule.groups

    schedule, found = broken()
    found.reverse()
    with pytest.raises(AssertionError, match="not written before"):
        schedule.verify()
    schedule, found = broken()
    found.append(found[0])
    with pytest.raises(AssertionError):
        schedule.verify()
    schedule, found = broken()
    del found[-1]
    with pytest.raises(AssertionError):
        schedule.verify()
    schedule, found = broken()
    found[-1].inputs.clear()
    with pytest.raises(AssertionError, match="does not say that it reads"):
        schedule.verify()
    schedule, found = broken()
    found[0].domain = (3, 3)
    with pytest.raises(AssertionError, match="does not fit"):
        schedule.verify()


STEPS: list[Any] = [
    lambda a, b: mx.sin(a),
    lambda a, b: a + b,
    lambda a, b: a - a.max(1, keepdims=True),
    lambda a, b: b * a.sum(0, keepdims=True),
    lambda a, b: a + b.T,
    lambda a, b: (a @ b) * 0.1,
    lambda a, b: a * b.mean(),
]


def random_function(seed: int) -> Any:
    """Grows a graph of maps, reductions, broadcasts, transposes and products at random."""

    def function(x: Any) -> Any:
        generator = np.random.default_rng(seed)
        values = [x, mx.exp(x)]
        for _ in range(30):
            a, b = (values[generator.integers(len(values))] for _ in range(2))
            values.append(STEPS[generator.integers(len(STEPS))](a, b))
        return [values[-1], values[len(values) // 2], values[-3]]

    return function


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_have_valid_schedules(seed: int) -> None:
    fused(random_function(seed), (17, 17))


def test_a_group_that_nothing_reads_yet_joins_a_later_one() -> None:
    schedule = fused(lambda x, w, y: (x @ w) * mx.exp(y), (4, 4), (4, 4), (4, 4))
    assert groups(schedule) == [["Exp", "Multiply"]]


def test_a_group_that_something_reads_stays_where_it_is() -> None:
    schedule = fused(lambda x, w: (mx.exp(x) @ w) * (mx.exp(x) + 1), (4, 4), (4, 4))
    assert groups(schedule) == [["Exp", "Add"], ["Multiply"]]


def test_a_group_that_is_read_twice_is_absorbed_once() -> None:
    def function(x: Any, y: Any) -> Any:
        doubled = mx.exp(mx.sin(x)) * 2
        return mx.where(doubled > 1, y + 1, (y + 1) * (y - 1))

    schedule = fused(function, (3, 4), (3, 4))
    assert len(groups(schedule)) == 1
