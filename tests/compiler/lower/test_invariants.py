"""Bodies of loops: invariant instructions, against loops that NumPy runs and against the order of
nests, and loops and branches as instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingot
import ingot.core as mx
from ingot._native import NativeProgram, NestedProgram
from ingot.compiler.forms.nests import Nests, RunNested
from ingot.compiler.forms.plan import Plan
from ingot.graph.dtype import float32
from ingot.transforms.control.body import built
from ingot.transforms.control.programs import program_of

STEPS = 5
ROWS, SIDE = 130, 520  # more than are read in place, and more than stay in L2


def plan_of(
    function: Callable[..., list[mx.array]], varying: int | None, *shapes: tuple[int, ...]
) -> Plan:
    body, captured = built(function, [(shape, float32) for shape in shapes], "body")
    assert not captured
    plan = program_of(body, *(() if varying is None else (0, varying))).executable.plan
    plan.verify()
    return plan


def nests_of(
    function: Callable[..., list[mx.array]], varying: int | None, *shapes: tuple[int, ...]
) -> Nests:
    return plan_of(function, varying, *shapes).nests


def test_panels_of_a_fixed_matrix_are_packed_once() -> None:
    nests = nests_of(lambda h, w: [mx.tanh(h @ w)], 1, (ROWS, SIDE), (SIDE, SIDE))
    assert (len(nests.instructions), nests.invariant) == (2, 1)
    assert "kernel 0, in the first iteration only(" in nests.text()
    assert "kernel 1(" in nests.text()


def test_a_matrix_that_changes_is_packed_in_each_iteration() -> None:
    shapes = (ROWS, SIDE), (SIDE, SIDE)
    assert nests_of(lambda h, w: [mx.tanh(h @ w)], 2, *shapes).invariant == 0
    assert nests_of(lambda h, w: [mx.tanh(h @ w)], None, *shapes).invariant == 0


def test_invariants_of_invariants() -> None:
    """Sums of a fixed matrix, then panels of what is computed from it."""

    def function(h: mx.array, w: mx.array) -> list[mx.array]:
        return [mx.tanh(h @ (w / w.sum(0)))]

    nests = nests_of(function, 1, (ROWS, SIDE), (SIDE, SIDE))
    assert nests.invariant == len(nests.instructions) - 1


def test_outputs_and_what_holds_a_varying_part_are_computed_in_each_iteration() -> None:
    def outputs(h: mx.array, w: mx.array) -> list[mx.array]:
        return [h + 1, w * 2]

    assert nests_of(outputs, 1, (3, 4), (3, 4)).invariant == 0

    def joined(h: mx.array, w: mx.array) -> list[mx.array]:
        return [mx.cumsum(mx.concatenate([w * 2, h], 0), 0)[3:]]

    assert nests_of(joined, 1, (3, 4), (3, 4)).invariant <= 1


def test_what_is_kept_has_memory_of_its_own() -> None:
    """A product after that with the fixed matrix needs memory too."""

    def function(h: mx.array, w: mx.array) -> list[mx.array]:
        new = mx.tanh(h @ w)
        return [mx.sin(new @ (new.T @ new))]

    plan = plan_of(function, 1, (ROWS, SIDE), (SIDE, SIDE))
    first, *others = plan.nests.instructions
    assert plan.nests.invariant == 1
    (kept,) = first.writes
    begin = plan.addresses[kept].offset
    for block in {block for each in others for block in each.writes} - {kept}:
        slot, offset = plan.addresses[block]
        is_apart = offset >= begin + kept.nbytes or offset + block.nbytes <= begin
        assert slot != plan.arena_slot or is_apart


def _twice(m: Any, new: Any) -> Any:
    return m.sin(new @ (new.T @ new) / len(new))


LOOPS: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "product": (lambda m, h, w: m.tanh(h @ w), (ROWS, 65), (65, 65)),
    "few rows": (lambda m, h, w: m.tanh(h @ w.T), (9, 96), (96, 96)),
    "computed": (lambda m, h, w: m.tanh(h @ (w / m.abs(w).sum(0))), (33, 70), (70, 70)),
    "twice": (lambda m, h, w: _twice(m, m.tanh(h @ w)), (ROWS, SIDE), (SIDE, SIDE)),
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize(("dtype", "bound"), [(mx.float32, 2e-5), (mx.bfloat16, 0.1)])
def test_loops(name: str, dtype: mx.Dtype, bound: float) -> None:
    step, *shapes = LOOPS[name]
    rng = np.random.default_rng(0)
    h, w = (mx.array(rng.normal(size=shape) / shape[-1]).astype(dtype) for shape in shapes)
    found = mx.compile(
        lambda h, w: mx.fori_loop(0, STEPS, lambda _, h: step(mx, h, w).astype(dtype), h)
    )(h, w)
    wanted, matrix = (np.array(x.astype(mx.float32), np.float64) for x in (h, w))
    for _ in range(STEPS):
        wanted = step(np, wanted, matrix)
    assert np.abs(np.array(found.astype(mx.float32)) - wanted).max() <= bound * np.abs(wanted).max()


def test_profiles_count_them_once() -> None:
    w, h = mx.zeros((SIDE, SIDE)), mx.ones((ROWS, SIDE))
    f = mx.compile(lambda h, w: mx.fori_loop(0, STEPS, lambda _, h: mx.tanh(h @ w), h))
    mx.eval(f(h, w), h, w)
    with ingot.profile() as profile:
        mx.eval(f(h, w))
    calls = [row.calls for row in profile.rows if "Matmul" in row.name]
    assert calls == [1 + STEPS]  # panels once, the product in each iteration


# Loops and branches in bodies


def executable_of(body: Any, *inits: mx.array) -> Any:
    """The program of the body of a loop of three steps."""
    end = mx.scan(lambda c, _: (body(*c), None), inits, length=3)[0]
    op: Any = end[0]._node.inputs[0].op
    return program_of(op.body, op.carries).executable


def test_the_plan_has_memory_for_all_of_it() -> None:
    def body(x: mx.array) -> Any:
        return (mx.fori_loop(0, 4, lambda i, v: mx.sin(v[::-1]), x) + 1,)

    made = executable_of(body, mx.zeros(1000))
    (nested,) = [each for each in made.plan.nests.instructions if isinstance(each, RunNested)]
    assert nested.nested.program.scratch > 4000  # a second buffer for the carried vector
    assert made.plan.arena >= nested.nested.program.scratch
    made.plan.verify()
    assert "nested" in made.plan.text()
    assert "in each of 4 iterations" in made.plan.text()


def natives() -> tuple[NativeProgram, NativeProgram]:
    """A body of one carry, and one of two."""
    one = executable_of(lambda x: (mx.sin(x),), mx.zeros(3)).native
    two = executable_of(lambda x, y: (y, mx.sin(x)), mx.zeros(3), mx.zeros(3)).native
    return one, two


def test_refused_arguments() -> None:
    one, two = natives()
    valid = ("scan", (one,), (0,), 1, 0, 3, False, (12,))
    assert NestedProgram(*valid).scratch > 0
    for position, value in [
        (0, "for"), (1, ()), (1, (one, two)), (1, (3,)), (3, 2), (3, -1), (4, 1), (4, -1), (5, -1),
    ]:  # fmt: skip
        given: list[Any] = list(valid)
        given[position] = value
        with pytest.raises(ValueError, match="not those of a loop or branch"):
            NestedProgram(*given)
    for sizes in ((), (-4,)):
        with pytest.raises(ValueError, match="needs a size"):
            NestedProgram(*valid[:-1], sizes)
    with pytest.raises(ValueError, match="not those of a loop or branch"):
        NestedProgram("branch", (one, two), (0, 0), 0, 0, 1, False, (12, 12))
    with pytest.raises(ValueError, match="not those of a loop or branch"):
        NestedProgram("while", (one,), (0,), 1, 0, -1, False, (12,))
