"""Lowering: a schedule becomes loop nests and calls, for one layout of the inputs.

Input: a schedule. Output: `Nests`, the instructions in order. Fused groups become loop nests; views
become offsets and strides in the memory of their source, or of a copy where strides cannot express
them; steps with neither a kernel nor a BLAS call run on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from ingot.compiler.forms.nests import (
    Block,
    CallHost,
    Instruction,
    Location,
    Multiply,
    Nests,
    RaiseIf,
    RunKernel,
    RunNested,
    RunRoutine,
)
from ingot.compiler.forms.schedule import Group, Schedule
from ingot.compiler.forms.size import provably_equal
from ingot.compiler.forms.tape import LengthStep, Step
from ingot.compiler.lower.cells import (
    Cell,
    assembled_steps,
    cell_group,
    cells_of,
    with_assembled_read,
    written_parts,
)
from ingot.compiler.lower.fused import lower_group, read_across
from ingot.compiler.lower.invariants import (
    has_host,
    invariants_first,
    nested_programs,
    routines_of,
)
from ingot.compiler.lower.kernel import Lowered
from ingot.compiler.lower.layout import layout_of_view, passed_input, passes_inputs
from ingot.compiler.lower.materialise import copy_of
from ingot.compiler.lower.products.shared_scratch import with_shared_scratch
from ingot.compiler.lower.repeats import Repeats
from ingot.compiler.options import Options
from ingot.graph.deferred import Deferred
from ingot.graph.numerics.blas import product_of
from ingot.graph.outputs import Output, output_ops
from ingot.graph.roles import Assemble, Control, Map, Product, Scatter, View
from ingot.graph.shape import contiguous, size_of
from ingot.runtime.progress import working

if TYPE_CHECKING:
    from ingot.compiler.lower import scatter
    from ingot.compiler.lower.products import choose
else:
    scatter = Deferred("ingot.compiler.lower.scatter")
    choose = Deferred("ingot.compiler.lower.products.choose")

__all__ = ["lower"]

StridesOf = dict[Step, tuple[int, ...]]


def lower(schedule: Schedule, options: Options) -> Nests:
    """The loop nests of a schedule, for inputs of the layout in `options`."""
    found = _Lowering(schedule, options).run()
    if options.iteration is None or options.sizes is not None:
        return found
    return invariants_first(found, options.iteration.varying)


class _Lowering:
    def __init__(self, schedule: Schedule, options: Options) -> None:
        tape, strides = schedule.tape, options.strides
        self.schedule = schedule
        self.strides = strides
        # comparing symbolic sizes would add conditions on shapes
        self.repeats = Repeats() if options.sizes is None else None
        self.layout = layout_of_view if self.repeats is None else self.repeats.layout
        self.nested = nested_programs(tape.steps, options)
        self.routines = routines_of(tape.steps, options)
        # inputs of a native loop's body, and views of them, that are the same in every iteration
        self.fixed: set[Step] = set()
        iteration = options.iteration if options.sizes is None else None
        if iteration is not None and not has_host(tape.steps, {*self.nested, *self.routines}):
            self.fixed = {*tape.inputs[iteration.varying :], *filter(_is_constant, tape.steps)}
        self.outputs: dict[Step, dict[int, Step]] = {}  # of a step with several, by their numbers
        for step in tape.steps:
            if isinstance(step.op, Output):
                self.outputs.setdefault(step.inputs[0], {}).setdefault(step.op.index, step)
        self.locations: dict[Step, Location] = {}
        self.instructions: list[Instruction] = []
        self.copies: dict[Step, Step] = {}  # contiguous ones, of values that cannot be viewed
        self.host_results: dict[tuple[Step, int], Block] = {}
        self.kernel_results: dict[Step, list[Step]] = {}  # of a step with several outputs
        self.part_of = written_parts(schedule) if options.sizes is None else {}
        self.inputs = [self._there(step, Block("input", step.nbytes, step)) for step in tape.inputs]
        for step, given in zip(tape.inputs, strides or (), strict=False):
            self.locations[step] = self.locations[step]._replace(strides=given)
        self.constants = [
            self._there(step, Block("constant", step.nbytes, step))
            for step in tape.steps
            if step.is_constant or isinstance(step, LengthStep)
        ]

    def run(self) -> Nests:
        """Lowers group by group."""
        groups = self.schedule.groups
        for number, group in enumerate(groups):
            working("loops written", number, len(groups))
            self._lower(group)
        return Nests(
            self.schedule,
            self.inputs,
            self.constants,
            self.locations,
            with_shared_scratch(self.instructions),
            self.strides is not None,
        )

    def _lower(self, group: Group) -> None:
        step = group.steps[0]
        if group.kind == "view":
            self._view(step)
        elif group.kind in ("fused", "scan"):
            self._fused(group)
        elif group.kind == "product":
            self._product_with_epilogue(group)
        elif group.kind == "iota":
            pass  # kernels compute iotas
        elif group.kind == "check":
            self._check(step)
        elif group.kind == "assemble":
            self._assemble(step)
        elif group.kind == "scatter":
            self._scatter(group)
        elif type(step.op) is Output:
            self._output(step)
        elif passes_inputs(step):
            pass  # its outputs alias its inputs
        elif step in self.nested:
            self._run_nested(step)
        elif step in self.routines and not self._repeats_matrix(step):
            self._run_routine(step)
        elif not self._product(group):
            self._host(step)

    def _there(self, step: Step, block: Block) -> Block:
        """Records that a value fills a block contiguously."""
        self.locations[step] = Location(block, 0, contiguous(step.shape, step.dtype.size))
        return block

    def _new(self, step: Step) -> None:
        """Allocates memory for a value that a kernel or a product will write."""
        if step in self.part_of:
            self._part_of(step, *self.part_of[step])
        else:
            self._there(step, Block("result", step.nbytes, step))

    def _part_of(self, step: Step, whole: Step, part: View) -> None:
        """Locates a value where it belongs in the value that is assembled from it."""
        if whole not in self.locations:
            self._new(whole)
        block, start, strides = self.locations[whole]
        found = part.layout(whole.shape, strides)
        assert found is not None
        self.locations[step] = Location(block, start + found[0], found[1])

    def _view(self, step: Step) -> None:
        source = step.inputs[0]
        found = self.layout(step, self.locations[source].strides)
        if found is None:
            source = self._contiguous_copy(source)
            found = self.layout(step, self.locations[source].strides)
        assert found is not None
        offset, strides = found
        block, start, _ = self.locations[source]
        self.locations[step] = Location(block, start + offset, strides)
        if source in self.fixed:
            self.fixed.add(step)

    def _output(self, step: Step) -> None:
        """Locates one of several outputs: where the host stored it, or where the input is that it
        aliases.
        """
        passed = passed_input(step)
        if passed is not None:
            self.locations[step] = self.locations[passed]
            return
        assert isinstance(step.op, Output)
        whole, index = step.inputs[0], step.op.index
        if whole in self.kernel_results:
            self.locations[step] = self.locations[self.kernel_results[whole][index]]
        else:
            self._there(step, self.host_results[whole, index])

    def _contiguous_copy(self, source: Step) -> Step:
        """A contiguous copy of a value, made at most once."""
        if source not in self.copies:
            copy = self.copies[source] = copy_of(source)
            self._new(copy)
            self._copy(copy)
        return self.copies[source]

    def _copy(self, copy: Step) -> None:
        """A kernel that fills the memory of a copy."""
        domain = tuple(length for length in copy.shape if length != 1)
        group = Group("fused", [copy], list(copy.inputs), [copy], domain)
        strides = {step: self.locations[step].strides for step in (*group.inputs, copy)}
        self._run(group, self._of_group(group, strides))

    def _assemble(self, step: Step) -> None:
        """Copies the parts of a result to where they belong, unless they were written there."""
        if step not in self.locations:
            self._new(step)
        whole = self.locations[step]
        assert isinstance(step.op, Assemble)
        for number, part in step.op.slices(*step.inputs):
            source = step.inputs[number]
            if size_of(source.shape) == 0 or self.part_of.get(source) == (step, part):
                continue
            found = part.layout(step.shape, whole.strides)
            assert found is not None
            offset, strides = found
            copy = copy_of(source, step)
            self.locations[copy] = Location(whole.block, whole.offset + offset, strides)
            self._copy(copy)

    def _fused(self, group: Group) -> None:
        assembled = assembled_steps(group)
        if assembled:
            cells = cells_of(group) if self.repeats is not None else None
            if cells is not None:
                self._by_cells(group, cells)
                return
            for step in assembled:
                self._assemble(step)
            group = with_assembled_read(group)
        for step in group.outputs:
            self._new(step)
        steps = (*group.inputs, *group.outputs)
        strides = {step: self.locations[step].strides for step in steps if step in self.locations}
        copies: dict[Step | None, Step] = {}
        for source in self._read_across(group, strides):
            copy = copies[source] = copy_of(source)
            self._new(copy)
            self._copy(copy)
            strides[source] = self.locations[copy].strides
        lowered = self._of_group(group, strides).reading(copies)
        in_place = not (group.reduced or group.scanned or self.part_of.keys() & group.outputs)
        self._run(group, lowered, self._replaceable(group) if in_place else ())

    def _by_cells(self, group: Group, cells: list[Cell]) -> None:
        """Lowers a group that reads assembled values cell by cell."""
        for step in group.outputs:
            self._new(step)
        for cell in cells:
            part, located = cell_group(group, cell, self.locations)
            self.locations.update(located)
            strides = {step: location.strides for step, location in located.items()}
            self._run(part, self._of_group(part, strides), steps=group.steps)

    def _read_across(self, group: Group, strides: StridesOf) -> list[Step]:
        """The inputs that are better copied first."""
        if not group.reduced or self.repeats is None:
            return read_across(group, strides)
        signature = self.repeats.signature(group, strides)
        return self.repeats.chosen(signature, lambda: read_across(group, strides))

    def _of_group(self, group: Group, strides: StridesOf) -> Lowered:
        """The kernels of a fused group."""
        found = self._once(group, strides, lambda: lower_group(group, strides))
        assert found is not None
        return found

    def _once(
        self, group: Group, strides: StridesOf, build: Callable[[], Lowered | None]
    ) -> Lowered | None:
        """The kernels of a group, built unless an equal group was lowered before."""
        if self.repeats is None:
            return build()
        return self.repeats.lowered(self.repeats.signature(group, strides, self.fixed), build)

    def _scatter(self, group: Group) -> None:
        step = group.steps[0]
        self._new(step)
        strides = {each: self.locations[each].strides for each in (*step.inputs, step)}
        lowered = self._once(
            group, strides, lambda: Lowered([scatter.lower_scatter(step, strides)])
        )
        assert lowered is not None
        self._run(group, lowered, self._replaceable(group))

    def _run(
        self,
        group: Group,
        lowered: Lowered,
        replaceable: Collection[Step] = (),
        results: Sequence[Step] | None = None,
        steps: list[Step] | None = None,
    ) -> None:
        scratch = {x: Location(Block("scratch", n, None), 0, ()) for x, n in lowered.areas.items()}
        outputs = group.outputs if results is None else results
        written = frozenset([self.locations[step].block for step in outputs])
        for kernel in lowered.kernels:
            operands = [
                self.locations[x] if isinstance(x, Step) else scratch[x] for x in kernel.operands
            ]
            self.instructions.append(
                RunKernel(
                    kernel,
                    group.steps if steps is None else steps,
                    tuple(operands),
                    written,
                    tuple([n for n, step in enumerate(kernel.operands) if step in replaceable])
                    if replaceable
                    else (),
                )
            )

    def _replaceable(self, group: Group) -> set[Step]:
        """The inputs whose memory the output may overwrite: every step reads only the element that
        its result replaces, and no other input shares their memory.
        """
        elsewhere = {
            source
            for step in group.steps
            for source in step.inputs
            if not _takes_in_place(step, source)
        }
        blocks = [self.locations[step].block for step in group.inputs if step in self.locations]
        return {
            step
            for step in group.inputs
            if step not in elsewhere
            and step in self.locations
            and self._fills_its_block(step)
            and blocks.count(self.locations[step].block) == 1
        }

    def _fills_its_block(self, step: Step) -> bool:
        block, offset, strides = self.locations[step]
        if block.step is step and self.strides is None:
            return True
        wanted = (0, block.nbytes, *contiguous(step.shape, step.dtype.size))
        return all(map(provably_equal, (offset, step.nbytes, *strides), wanted))

    def _product(self, group: Group) -> bool:
        """Lowers a product to loop nests or a BLAS call; False if it supports neither."""
        step = group.steps[0]
        results = self._results(step)
        known = {source: self.locations[source].strides for source in step.inputs}
        known.update({each: contiguous(each.shape, each.dtype.size) for each in results})
        lowered = self._once(
            group, known, lambda: choose.lower_product(step, known, fixed=self.fixed)
        )
        if lowered is not None:
            for each in results:
                self._new(each)
            self.kernel_results[step] = results
            self._run(group, lowered, results=results)
            return True
        shapes = [source.shape for source in step.inputs]
        if isinstance(step.op, Product) and step.op.has_gemm(step.dtype, *shapes):
            self._multiply(step)
            return True
        return False

    def _results(self, step: Step) -> list[Step]:
        """The values that a step computes, including outputs that no step selects."""
        if not isinstance(step.dtype, tuple):
            return [step]
        taken = self.outputs.get(step, {})
        return [
            taken.get(op.index) or Step(op, (step,), shape, dtype, step.stream, step.source)
            for op, shape, dtype in zip(
                output_ops(len(step.dtype)), step.shape, step.dtype, strict=True
            )
        ]

    def _product_with_epilogue(self, group: Group) -> None:
        """Lowers a product and its epilogue, as one kernel if it supports the epilogue."""
        product, *views, epilogue = group.parts
        step = product.steps[0]
        for output in epilogue.outputs:
            self._new(output)
        known = {
            each: self.locations[each].strides
            for each in (*group.inputs, *group.outputs)
            if each in self.locations
        }
        for each in (step, *(view.steps[0] for view in views)):
            known[each] = contiguous(each.shape, each.dtype.size)
        lowered = self._once(
            group, known, lambda: choose.lower_product(step, known, epilogue, self.fixed)
        )
        if lowered is not None:
            self._run(group, lowered)
            return
        for part in group.parts:
            self._lower(part)

    def _multiply(self, step: Step) -> None:
        self._new(step)
        sources = list(step.inputs)
        product = self._blas(step, sources)
        if product is None:
            sources = [self._contiguous_copy(source) for source in sources]
            product = self._blas(step, sources)
        assert product is not None
        left, right = (self.locations[source] for source in sources)
        made = Multiply([step], product, (left, right), self.locations[step])
        self.instructions.append(made)

    def _blas(self, step: Step, sources: list[Step]) -> object:
        left, right = ((source.shape, self.locations[source].strides) for source in sources)
        return product_of(step.dtype.numpy, left, right)

    def _check(self, step: Step) -> None:
        """Passes on the first input, unless the flag in the second is set: then the op raises its
        error.
        """
        value, flag = (self.locations[source] for source in step.inputs)
        self.locations[step] = value
        self.instructions.append(RaiseIf([step], value, flag))

    def _run_nested(self, step: Step) -> None:
        """Lowers a loop or branch to an instruction, which takes contiguous operands."""
        nested = self.nested[step]
        results = self.kernel_results[step] = self._results(step)
        for each in results:
            self._new(each)
        self.instructions.append(
            RunNested(
                [step],
                nested,
                self._contiguous_operands(step),
                tuple([self.locations[each] for each in results]),
                Location(Block("scratch", nested.program.scratch, None), 0, ()),
            )
        )

    def _repeats_matrix(self, step: Step) -> bool:
        """Whether the matrices of a step are a broadcast one, which `evaluate` factorises once."""
        source = step.inputs[0]
        strides = self.locations[source].strides
        return any(not step and n > 1 for n, step in zip(source.shape, strides, strict=True))

    def _run_routine(self, step: Step) -> None:
        """Lowers an op without a kernel to its native routine, which takes contiguous operands."""
        results = self.kernel_results[step] = self._results(step)
        for each in results:
            self._there(each, Block("result", each.nbytes, each))
        located = tuple([self.locations[each] for each in results])
        native = self.routines[step].native
        made = RunRoutine([step], native, self._contiguous_operands(step), located)
        self.instructions.append(made)

    def _contiguous_operands(self, step: Step) -> tuple[Location, ...]:
        """Where the operands of a step are, or contiguous copies of them."""
        sources = [
            source
            if self.locations[source].strides == contiguous(source.shape, source.dtype.size)
            else self._contiguous_copy(source)
            for source in step.inputs
        ]
        return tuple([self.locations[source] for source in sources])

    def _host(self, step: Step) -> None:
        if isinstance(step.dtype, tuple):
            sizes = [
                size_of(shape) * dtype.size
                for shape, dtype in zip(step.shape, step.dtype, strict=True)
            ]
            results = [Block("host", nbytes, step) for nbytes in sizes]
            self.host_results.update(((step, n), block) for n, block in enumerate(results))
        else:
            results = [self._there(step, Block("host", step.nbytes, step))]
        # Loops cut their operands into contiguous slices. NumPy would copy them more slowly than a
        # kernel does, to new memory.
        if isinstance(step.op, Control) and step.op.is_loop and self.repeats is not None:
            sources = self._contiguous_operands(step)
        else:
            sources = tuple([self.locations[source] for source in step.inputs])
        self.instructions.append(CallHost([step], sources, tuple(results)))


def _is_constant(step: Step) -> bool:
    return step.is_constant


def _takes_in_place(step: Step, source: Step) -> bool:
    """Whether a step reads of a value only the element that its own result replaces."""
    if isinstance(step.op, Scatter):
        return step.inputs.index(source) == 0 and step.inputs.count(source) == 1
    return isinstance(step.op, Map)
