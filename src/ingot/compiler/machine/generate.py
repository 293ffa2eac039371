"""Generate: a plan becomes a program that runs.

Input: a plan. Output: an `Executable`: the kernels in LLVM's assembly language, their machine code,
and the native program that runs them, with the Python functions that it calls for host steps.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ingot._native import NativeProgram
from ingot.compiler.forms.affine import size_of_extent
from ingot.compiler.forms.nest.scope import NestError
from ingot.compiler.forms.nests import (
    CallHost,
    Instruction,
    Kernel,
    Location,
    Multiply,
    Nests,
    RaiseIf,
    RunKernel,
    RunNested,
    RunRoutine,
)
from ingot.compiler.forms.plan import Plan, operands_of
from ingot.compiler.forms.size import Number, is_symbolic
from ingot.compiler.forms.size_code import (
    DeferredCall,
    DimensionValue,
    depends_on_shapes,
    evaluated,
)
from ingot.compiler.forms.tape import LengthStep, Step
from ingot.compiler.llvm.nests import nest_module
from ingot.compiler.machine.callbacks import checking, host, length_value, number_table
from ingot.compiler.machine.kernels import LoadedKernels, load_kernels
from ingot.compiler.machine.work import KernelCode, Work
from ingot.compiler.options import Options
from ingot.graph.deferred import Deferred
from ingot.graph.dimension import Parametric
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import parameters
from ingot.runtime.verification import is_verifying

if TYPE_CHECKING:
    from ingot.compiler.machine import repeated as repeated_bodies
    from ingot.compiler.machine.repeated import RepeatedBody
else:
    repeated_bodies = Deferred("ingot.compiler.machine.repeated")

__all__ = ["Executable", "generate"]

# (slot, dtype, offset, shape, strides) of an array in the memory of a running program
View = tuple[int, Any, Number, tuple[Number, ...], tuple[Number, ...]]

MAX_KNOWN_TEXTS = 256  # of kernels that serve all sizes
WORTH_RELEASING = 1 << 14  # bytes that a program touches for which releasing the GIL pays off


@dataclass
class Executable:
    """A native program, and what `explain` and profiles report about it. `parts` are the arguments
    of `NativeProgram`, some of which may depend on shapes.
    """

    plan: Plan
    parts: tuple[Any, ...]
    work: list[Work] = field(default_factory=list)  # a description of each instruction
    loaded: LoadedKernels = field(default_factory=LoadedKernels)
    repeated: RepeatedBody | None = None

    @cached_property
    def native(self) -> NativeProgram:
        """The program, if no part depends on shapes."""
        found = NativeProgram(*evaluated(self.parts))
        if self.repeated is not None and self.repeated.code is not None:
            found.repeat_by(self.repeated.code, self.repeated.carry_bytes)
        return found

    def describe(self) -> Callable[[], list[Work]]:
        """What describes the instructions without keeping the program alive."""
        work = self.work
        return lambda: work

    @property
    def codes(self) -> list[KernelCode]:
        """The kernels in LLVM's assembly language, in the order in which they run."""
        return [work.code for work in self.work if work.code is not None]

    def text(self) -> str:
        """The kernels in LLVM's assembly language."""
        return "\n\n".join(f"; kernel {n}\n{code.text}" for n, code in enumerate(self.codes))

    def verify(self) -> None:
        """AssertionError unless there is machine code for every kernel of the plan."""
        kernels = self.plan.nests.kernels
        assert len(self.loaded.codes) == len(self.codes) == len(kernels)
        assert all(code.address for code in self.loaded.codes), "a kernel has no address"
        assert len(self.work) == len(self.plan.nests.instructions)


def generate(plan: Plan, options: Options) -> Executable:
    """The native program of a plan."""
    codes_of_plan = _Codes(plan)
    work = [_work(each, codes_of_plan) for each in plan.nests.instructions]
    for invariant in work[: plan.nests.invariant]:
        invariant.is_invariant = True
    for number in (number for kept in plan.kept.values() for number in kept.writers):
        work[number].is_kept = True
    texts = [each.code.text for each in work if each.code is not None]
    is_body = options.iteration is not None
    repeated = repeated_bodies.repeated_body(plan, work, options) if is_body else None
    loaded = load_kernels([*texts, *([] if repeated is None else [repeated.text])])
    if repeated is not None:
        repeated = replace(repeated, code=loaded.codes.pop())
    codes = iter(loaded.codes)
    instructions: list[tuple[Any, ...]] = []
    views: list[View] = []
    for each, described in zip(plan.nests.instructions, work, strict=True):
        arguments: list[tuple[Any, ...]] = []
        for block, start, _ in operands_of(each):
            slot, offset = plan.addresses[block]
            arguments.append((slot, offset + start))
        if isinstance(each, RunKernel):
            assert described.code is not None
            if each in plan.tables:
                arguments.append(tuple(plan.tables[each]))
            parts, grain = described.code.parts, described.code.grain
            instructions.append(("kernel", next(codes), parts, grain, arguments))
        elif isinstance(each, Multiply):
            instructions.append(("gemm", each.product, arguments))
        elif isinstance(each, (RunNested, RunRoutine)):
            native = each.nested.program if isinstance(each, RunNested) else each.routine
            operands = _operands(each, plan) if each.can_fail else []
            call = _call(each) if each.can_fail else None
            instructions.append((each.kind, native, call, len(operands), arguments))
            views += operands
        else:
            kind = "host" if isinstance(each, CallHost) else "check"
            operands = _operands(each, plan)
            instructions.append((kind, _call(each), len(operands), arguments))
            views += operands
    return Executable(plan, _parts(plan, instructions, views), work, loaded, repeated)


def _parts(plan: Plan, instructions: list[tuple[Any, ...]], views: list[View]) -> tuple[Any, ...]:
    """The arguments of `NativeProgram`; `views` are those of the operands of host steps."""
    nests, donations = plan.nests, plan.donations
    schedule = nests.schedule
    owned = [block.step for block in plan.owned if block.step is not None]
    donors = [
        plan.addresses[donations[block]].slot if block in donations else -1 for block in plan.owned
    ]
    outputs = schedule.tape.outputs
    results = [] if outputs == owned else _views(outputs, nests.outputs, plan)
    return (
        len(nests.inputs),
        tuple(step.shape for step in owned),
        tuple(step.dtype.numpy for step in owned),
        tuple(donors),
        _constants(plan),
        plan.slots,
        plan.arena_slot,
        plan.arena,
        instructions,
        [*views, *results],
        -1 if outputs == owned else len(results),
        _touched(nests) // WORTH_RELEASING,
        nests.any_layout,
        tuple(
            (
                plan.addresses[block].slot,
                plan.addresses[kept.source].slot,
                block.nbytes,
                kept.writers,
            )
            for block, kept in plan.kept.items()
        ),
    )


def _touched(nests: Nests) -> Number:
    """The bytes that a program touches, at least as far as they decide about the GIL."""
    if any(isinstance(each, RunNested) for each in nests.instructions):
        return WORTH_RELEASING  # it may run for any time
    touched: Number = 0
    for group in nests.schedule.groups:
        touched += group.nbytes
        if not is_symbolic(touched) and touched >= WORTH_RELEASING:
            break
    return touched


def _constants(plan: Plan) -> tuple[Any, ...]:
    found: list[Any] = []
    for block in plan.nests.constants:
        step = block.step
        assert step is not None
        if isinstance(step, LengthStep):
            found.append(
                DeferredCall(length_value, (DimensionValue(step.number), step.dtype.numpy))
            )
        else:
            found.append(np.ascontiguousarray(step.value))
    if plan.numbers is not None:
        found.append(DeferredCall(number_table, tuple(plan.numbers)))
    return tuple(found)


# What is called in Python

_Calling = CallHost | RaiseIf | RunNested | RunRoutine


def _views(steps: Iterable[Step], locations: Iterable[Location], plan: Plan) -> list[View]:
    """The values of steps as arrays in the slots of a running program."""
    found: list[View] = []
    for step, location in zip(steps, locations, strict=True):
        slot, offset = plan.address(location)
        found.append((slot, step.dtype.numpy, offset, step.shape, location.strides))
    return found


def _operands(each: _Calling, plan: Plan) -> list[View]:
    """The operands of a Python function."""
    (step,) = each.steps
    sources = (each.value, each.flag) if isinstance(each, RaiseIf) else each.sources
    return _views(step.inputs, sources, plan)


def _call(each: _Calling) -> DeferredCall:
    """A Python function of those operands."""
    (step,) = each.steps
    op = _remade(step.op)
    if isinstance(each, RaiseIf):
        return DeferredCall(checking, (op,))
    return DeferredCall(host, (op, isinstance(step.dtype, tuple)))


def _remade(op: Any) -> Any:
    """An op that is constructed for each shape, if its fields depend on shapes."""
    values = tuple(map(_remade_field, parameters(op).values()))
    return DeferredCall(type(op), values) if any(map(depends_on_shapes, values)) else op


def _remade_field(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(map(_remade_field, value))
    if isinstance(value, Parametric) and value.guards is not None:
        dimensions = tuple(map(DimensionValue, range(len(value.guards.dimensions))))
        return DeferredCall(value.resolved, (dimensions,))
    return value


# Descriptions of instructions


def _work(each: Instruction, codes: _Codes) -> Work:
    """The description of an instruction, with the code of a kernel."""
    if isinstance(each, RunKernel):
        blocks = [location.block for location in each.operands]
        scratch = sum([block.nbytes for block in blocks if block.kind == "scratch"])
        packs = each.written.isdisjoint(blocks)
        return Work("kernel", each.steps, each.kernel, codes.of(each), scratch, packs)
    return Work(each.kind, each.steps)


class _Codes:
    """The code of the kernels of a plan: that of a nest that several kernels share is written once
    for each set of arguments that share memory.
    """

    def __init__(self, plan: Plan) -> None:
        self._shared = plan.shared
        self._known: dict[tuple[int, frozenset[int]], KernelCode] = {}

    def of(self, each: RunKernel) -> KernelCode:
        """The code of a kernel."""
        nest, shared = each.kernel.nest, self._shared.get(each, frozenset())
        key = (id(nest), shared)
        if key not in self._known:
            self._known[key] = _kernel_code(each.kernel, shared)
        return self._known[key]


def _kernel_code(kernel: Kernel, shared: frozenset[int]) -> KernelCode:
    nest = kernel.nest
    text = _text(kernel, shared)
    parts: Number = 0
    for region in nest.parallel:
        iterations: Number = 1
        for length in region.lengths:
            iterations *= size_of_extent(length)
        parts += iterations
    return KernelCode(text, parts, nest.parallel[0].grain)


_texts: OrderedDict[tuple[Hashable, ...], str] = OrderedDict()  # by code keys
_texts_lock = threading.RLock()  # garbage collection may run user code that compiles


def _text(kernel: Kernel, shared: frozenset[int]) -> str:
    """The code of a kernel, which is generated once for all kernels with the same key; if forms are
    verified, it is generated for each and compared.
    """
    if kernel.code_key is None or shared:
        return nest_module(kernel.nest, shared)
    with _texts_lock:
        found = _texts.get(kernel.code_key)
    if found is None:
        found = nest_module(kernel.nest)
        with _texts_lock:
            _texts[kernel.code_key] = found
            if len(_texts) > MAX_KNOWN_TEXTS:
                _texts.popitem(last=False)
    elif is_verifying() and found != nest_module(kernel.nest):
        raise NestError(f"kernels of the same key have different code: {kernel.code_key}")
    return found
