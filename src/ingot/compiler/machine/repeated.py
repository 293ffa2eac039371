"""Bodies of loops that consist of small kernels, as functions that run many iterations.

Input: the plan of a body. Output: the module of such a function, or None: the loop in C then calls
the kernels of the body one by one, which takes some nanoseconds for each.
"""

from __future__ import annotations

from ingot._native import MachineCode
from ingot.compiler.forms.nests import Instruction, Location, RaiseIf, RunKernel, RunNested
from ingot.compiler.forms.plan import Plan, operands_of
from ingot.compiler.llvm.repeated import (
    Call,
    Carried,
    Check,
    InnerLoop,
    KernelCall,
    Module,
    Passed,
    repeated_module,
)
from ingot.compiler.machine.work import Work
from ingot.compiler.options import Iteration, Options
from ingot.graph.lazy_dataclass import dataclass
from ingot.tuning_loops import (
    MAX_INNER_STEPS,
    MAX_REPEATED_ARENA_BYTES,
    MAX_REPEATED_CARRY_BYTES,
    MAX_REPEATED_LINES,
    TYPICAL_WHILE_STEPS,
)

__all__ = ["RepeatedBody", "repeated_body"]


@dataclass(frozen=True)
class RepeatedBody:
    """The module of the function, the bytes of each carried value, about how many iterations of
    inner loops an iteration has, and, once compiled, the code.
    """

    module: Module
    carry_bytes: tuple[int, ...]
    uses_constants: bool
    steps: int
    code: MachineCode | None = None

    @property
    def text(self) -> str:
        """The module."""
        return self.module.text


def repeated_body(plan: Plan, work: list[Work], options: Options) -> RepeatedBody | None:
    """The body of a loop as a function that repeats it, if it is worth one."""
    iteration, nests = options.iteration, plan.nests
    if iteration is None or options.sizes is not None or nests.any_layout:
        return None
    outputs = [location.block for location in nests.outputs]
    if nests.invariant or outputs != plan.owned or plan.arena > MAX_REPEATED_ARENA_BYTES:
        return None
    blocks = nests.inputs[: iteration.carries]
    if any(not 0 < block.nbytes <= MAX_REPEATED_CARRY_BYTES for block in blocks):
        return None
    body = _Body(plan, iteration)
    for each, described in zip(nests.instructions, work, strict=True):
        if not body.add(each, described):
            return None
    carries = [
        Carried(block.nbytes, plan.donations.get(output) is block)
        for block, output in zip(blocks, outputs, strict=False)
    ]
    module = repeated_module(body.calls, carries, len(outputs), iteration.has_flag, plan.arena)
    if module.functions.count("\n") > MAX_REPEATED_LINES:
        return None
    nbytes = tuple([block.nbytes for block in blocks])
    return RepeatedBody(module, nbytes, body.uses_constants, body.steps)


class _Body:
    """The calls of a body, and what its values are in an iteration."""

    def __init__(self, plan: Plan, iteration: Iteration) -> None:
        self.plan = plan
        self.iteration = iteration
        self.calls: list[Call] = []
        self.uses_constants = False
        self.steps = 1

    def add(self, each: Instruction, described: Work) -> bool:
        """Adds an instruction, if it can be inlined."""
        if isinstance(each, RunKernel) and described.code is not None:
            code = described.code
            passed = tuple(map(self._passed, each.operands))
            self.calls.append(KernelCall(code.text, code.parts, passed))
            return code.parts <= code.grain and code.text.count("\n") <= MAX_REPEATED_LINES
        if isinstance(each, RaiseIf):
            self.calls.append(Check((self._passed(each.flag),)))
            return True
        return isinstance(each, RunNested) and self._add_inner(each)

    def _add_inner(self, each: RunNested) -> bool:
        inner = each.nested
        bodies = [body for body in inner.bodies if body is not None and not body.uses_constants]
        length = inner.length if inner.length >= 0 else None
        if len(bodies) < len(inner.bodies) or (length or 0) > MAX_INNER_STEPS or each.can_fail:
            return False
        steps = TYPICAL_WHILE_STEPS if length is None else max(length, 1)
        self.steps += steps * max(body.steps for body in bodies)
        operands = list(map(self._passed, operands_of(each)))
        sources, results = len(each.sources), len(each.results)
        self.calls.append(
            InnerLoop(
                inner.kind,
                tuple([body.module for body in bodies]),
                tuple(operands[:sources]),
                tuple(operands[sources : sources + results]),
                bodies[-1].carry_bytes,
                length,
                inner.reverse,
            )
        )
        return self.steps <= MAX_INNER_STEPS

    def _passed(self, location: Location) -> Passed:
        """An argument at a location."""
        plan, (carries, slices, has_flag) = self.plan, self.iteration
        slot, offset = plan.address(location)
        nbytes = location.block.nbytes
        inputs, outputs = len(plan.nests.inputs), len(plan.owned)
        if slot == plan.arena_slot:
            return Passed("arena", 0, 0, offset)
        if slot < carries:
            return Passed("carried", slot, 0, offset)
        if slot < inputs:
            return Passed("inputs", slot, nbytes if slot < carries + slices else 0, offset)
        number = slot - inputs
        if number >= outputs:
            self.uses_constants = True
            return Passed("constants", number - outputs, 0, offset)
        if number < carries:
            return Passed("next", number, 0, offset)
        if has_flag and number == outputs - 1:
            return Passed("flag", 0, 0, offset)
        return Passed("outputs", number, nbytes, offset)
