"""Runs loops: bodies are compiled to programs, and the loop around them is native code.

If all instructions of a body are native (kernels, products, routines and checks), a loop in C runs
it and updates the addresses of carries, slices and ys at each step. A body with host steps is run
from Python, and so is one of which a check or a routine fails, to raise its error.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ingot._native import NativeProgram, NestedProgram, evaluate
from ingot.compiler.call.symbolic_program import SymbolicProgram
from ingot.compiler.forms.nests import Nested
from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.options import Iteration, Options
from ingot.compiler.passes.simplify import simplify
from ingot.compiler.pipeline import run_pipeline
from ingot.compiler.run.program import Program
from ingot.compiler.run.shaped_program import ShapedProgram
from ingot.compiler.trace.symbolic import symbolic_tape
from ingot.compiler.trace.trace import tape_for_values
from ingot.graph.outputs import Output
from ingot.graph.roles import Assemble, Host, Map, View
from ingot.graph.shape import size_of
from ingot.ops.elementwise.casting import Stored
from ingot.runtime.compile_mode import CompileMode
from ingot.runtime.numerics import excess_precision, numerics_key
from ingot.transforms.control.body import Body, ShapedBody, Spec
from ingot.tuning_loops import MAX_LOOP_PROGRAMS

if TYPE_CHECKING:
    from ingot.transforms.control.branch import Branch
    from ingot.transforms.control.scan_op import ScanLoop
    from ingot.transforms.control.while_loop import While

__all__ = [
    "nested_branch",
    "nested_scan",
    "nested_while",
    "program_of",
    "run_body",
    "run_scan",
    "run_while",
]


def program_of(
    body: Body | ShapedBody, carries: int | None = None, slices: int = 0, has_flag: bool = False
) -> Program:
    """The program of a body as explanations show it: if shapes vary, that for an example. With
    `carries`, it is the body of a loop, whose `Iteration` has these fields.
    """
    if isinstance(body, Body):
        if body.guards is None:
            iteration = None if carries is None else Iteration(carries, slices, has_flag)
            return _program(body, iteration, numerics_key())
        body = body.resolved([dimension.value for dimension in body.guards.dimensions])
    tape = tape_for_values(_tape(body.generic), body.values)
    return run_pipeline(tape, CompileMode.enabled, body.name).program


def run_body(body: Body | ShapedBody, inputs: Sequence[np.ndarray]) -> Any:
    """Runs a body once and returns its outputs."""
    return _runner(body).run(tuple(inputs))


def _runner(body: Body | ShapedBody, iteration: Iteration | None = None) -> Program | ShapedProgram:
    """The program that runs a body."""
    numerics = numerics_key()
    if isinstance(body, Body):
        return _program(body, iteration, numerics)
    if body.program[0] != numerics:
        body.program = numerics, _generic(body.generic, numerics).program(body.values)
    found: ShapedProgram = body.program[1]
    return found


def _native_of(program: Program | ShapedProgram) -> NativeProgram:
    if isinstance(program, Program):
        return program.plan()
    assert program.native is not None, "made together with its program"
    return program.native


@lru_cache(maxsize=MAX_LOOP_PROGRAMS)
def _program(body: Body, iteration: Iteration | None, numerics: Hashable) -> Program:
    """The program of a body, each of whose outputs has memory of its own."""
    tape = _tape(body)
    return run_pipeline(tape, CompileMode.enabled, body.name, iteration=iteration).program


@lru_cache(maxsize=MAX_LOOP_PROGRAMS)
def _generic(body: Body, numerics: Hashable) -> _Generic:
    return _Generic(body)


class _Generic:
    """The programs of a body with dimensions: each is valid for all shapes that meet its
    conditions.
    """

    def __init__(self, body: Body) -> None:
        self._body = body
        self._programs: list[SymbolicProgram] = []
        self._lock = threading.RLock()  # held while machine code is generated

    def program(self, values: Sequence[Any]) -> ShapedProgram:
        """The program for some values of the dimensions."""
        with self._lock:
            for each in self._programs:
                found = each.program(values)
                if found is not None:
                    return found
            guards = self._body.guards
            assert guards is not None, "a body without dimensions has one program"
            sizes, tape = symbolic_tape(_tape(self._body), guards, values)
            made = SymbolicProgram(sizes, tape, values, name=self._body.name)
            self._programs.insert(0, made)
            del self._programs[MAX_LOOP_PROGRAMS:]
            found = made.program(values)
        assert found is not None, "a program is valid for the shapes that it is made for"
        return found


def _tape(body: Body) -> Tape:
    """The steps of a body, without ops that just hold rules for transforms."""
    recording = body.recording
    inputs = [Step(None, (), shape, dtype) for shape, dtype in body.inputs]
    constants = [
        Step(None, (), node.shape, node.dtype, value=node.data) for node in _evaluated(body)
    ]
    made: list[Any] = list(inputs)  # steps, and (op, inputs) of ops that pass their inputs through
    steps = [*inputs, *constants]
    for op, slots, shape, dtype, stream in recording.steps:
        sources = [made[slot] if slot >= 0 else constants[~slot] for slot in slots]
        if op.only_carries_rules:
            made.append((op, sources))
            continue
        if type(op) is Output and isinstance(sources[0], tuple):
            whole, passed = sources[0]
            made.append(passed[whole.passed_input(op.index)])
            continue
        step = Step(op, sources, shape, dtype, stream)
        made.append(step)
        steps.append(step)
    outputs = [made[slot] if slot >= 0 else constants[~slot] for slot in recording.outputs]
    tape = Tape(inputs, outputs, steps)
    if body.guards is None:  # comparing dimensions would add conditions on shapes
        # Outputs that are computed in the same way are one value now, and no-ops are their inputs.
        tape = simplify(tape, Options(CompileMode.enabled, excess_precision()))
    return Tape(tape.inputs, _stored(tape.outputs, tape.steps), tape.steps)


def _evaluated(body: Body) -> Sequence[Any]:
    evaluate(body.recording.constants)
    return body.recording.constants


def _stored(outputs: list[Any], steps: list[Step]) -> list[Step]:
    """The outputs, with copies of those that would share memory."""
    found: list[Step] = []
    for number, step in enumerate(outputs):
        shares = step.op is None or step in found or isinstance(step.op, (View, Host))
        if shares or not isinstance(step.op, (Assemble, Map)):
            step = Step(Stored(number), (step,), step.shape, step.dtype, step.stream)
            steps.append(step)
        found.append(step)
    return found


def run_scan(scan: ScanLoop, inputs: tuple[np.ndarray, ...]) -> Any:
    """Runs a loop and returns the last carries and the stacked ys."""
    carries, xs, others = scan.split(inputs)
    specs = scan.infer()
    ys = [np.empty(shape, dtype.numpy) for shape, dtype in specs[scan.carries :]]
    if scan.length == 0:
        return (*(x.copy() for x in carries), *ys)
    program = _runner(scan.body, Iteration(scan.carries, scan.slices))
    if _native_of(program).can_loop:
        ends = _loop(program, carries, xs, others, ys, scan.length, scan.reverse)
        if ends is not None:
            return (*ends, *ys)
    positions = range(scan.length)
    for position in reversed(positions) if scan.reverse else positions:
        found = program.run((*carries, *(x[position, ...] for x in xs), *others))
        carries = found[: scan.carries]
        for stacked, y in zip(ys, found[scan.carries :], strict=True):
            stacked[position] = y
    return (*carries, *ys)


def run_while(loop: While, inputs: tuple[np.ndarray, ...]) -> Any:
    """Runs a loop and returns the carries for which its condition no longer holds."""
    carries, others = inputs[: loop.carries], inputs[loop.carries :]
    if not run_body(loop.condition, inputs)[0]:
        return tuple(x.copy() for x in carries)
    most = -1 if loop.max_steps is None else loop.max_steps
    if most == 0:
        return tuple(x.copy() for x in carries)
    program = _runner(loop.step, Iteration(loop.carries, 0, True))
    if _native_of(program).can_loop:
        flag = np.empty((), bool)
        ends = _loop(program, carries, (), others, [flag], most, False, True)
        if ends is not None:
            return tuple(ends)
    count = 0
    goes_on = True
    while goes_on and count != most:
        *carries, goes_on = program.run((*carries, *others))
        count += 1
    return tuple(carries)


def _loop(
    program: Program | ShapedProgram,
    carries: Sequence[np.ndarray],
    xs: Sequence[np.ndarray],
    others: Sequence[np.ndarray],
    ys: Sequence[np.ndarray],
    length: int,
    reverse: bool,
    has_flag: bool = False,
) -> list[np.ndarray] | None:
    """Runs a native loop and returns the last carries: they alternate between two arrays, or are
    updated in place if the program allows it. None if a check failed: run from Python, the same
    steps raise its error.
    """
    native = _native_of(program)
    invariant = 0
    if isinstance(program, Program):
        invariant = program.executable.plan.nests.invariant
    starts = _contiguous(carries)
    in_place = [native.may_reuse(number, number) for number in range(len(starts))]
    first, second = [], []
    for number, stays in enumerate(in_place):
        start = starts[number]
        first.append(start.copy() if stays else np.empty_like(start))
        second.append(first[-1] if stays or length == 1 else np.empty_like(start))
        if stays:
            starts[number] = first[-1]
    inputs = (*starts, *_contiguous(xs), *_contiguous(others))
    ends = (*first, *ys), (*second, *ys)
    count = native.loop(inputs, *ends, len(starts), len(xs), length, reverse, has_flag, invariant)
    if count < 0:
        return None
    return first if count % 2 else second


def _contiguous(values: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [np.asarray(x, order="C") for x in values]


# Loops and branches as instructions of other programs


def nested_scan(scan: ScanLoop) -> Nested | None:
    """A loop as an instruction of another program; None if its body has host steps."""
    iteration = Iteration(scan.carries, scan.slices)
    slices = scan.body.inputs[scan.carries : iteration.varying]
    sliced = (*scan.body.outputs[: scan.carries], *slices)
    specs = (*sliced, *scan.body.outputs[scan.carries :])
    shape = scan.carries, scan.slices, scan.length, scan.reverse
    return _nested("scan", [(scan.body, iteration)], specs, *shape)


def nested_while(loop: While) -> Nested | None:
    """The same for a loop with a condition."""
    bodies = [
        (loop.condition, Iteration(0, len(loop.condition.inputs))),
        (loop.step, Iteration(loop.carries, 0, True)),
    ]
    most = -1 if loop.max_steps is None else loop.max_steps
    return _nested("while", bodies, loop.body.outputs, loop.carries, 0, most, False)


def nested_branch(branch: Branch) -> Nested | None:
    """The same for a choice among bodies."""
    bodies = [(body, Iteration(0, len(body.inputs))) for body in branch.bodies]
    return _nested("branch", bodies, branch.bodies[0].outputs, 0, 0, 1, False)


def _nested(
    kind: Literal["scan", "while", "branch"],
    bodies: Sequence[tuple[Body | ShapedBody, Iteration]],
    specs: Sequence[Spec],
    carries: int,
    slices: int,
    length: int,
    reverse: bool,
) -> Nested | None:
    """An instruction that runs bodies, as iterations of these; `specs` are those of its carries,
    slices and other outputs.
    """
    numerics = numerics_key()
    executables = []
    for body, iteration in bodies:
        if not isinstance(body, Body) or body.guards is not None:
            return None
        executable = _program(body, iteration, numerics).executable
        if not executable.native.can_loop:
            return None
        executables.append(executable)
    natives = tuple([each.native for each in executables])
    invariant = tuple([each.plan.nests.invariant for each in executables])
    sizes = tuple([size_of(shape) * dtype.size for shape, dtype in specs])
    program = NestedProgram(kind, natives, invariant, carries, slices, length, reverse, sizes)
    repeated = tuple([each.repeated for each in executables])
    return Nested(program, kind, repeated, length, reverse)
