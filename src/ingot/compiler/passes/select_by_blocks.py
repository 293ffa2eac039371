"""Select by blocks: the largest elements of rows that maps compute, without storing the rows.

The k largest elements of a row are in the k blocks of it that have the largest maxima. So a kernel
computes only the maxima of blocks, and the maps are computed again for the elements of those few
blocks (`Selection.by_blocks`). That replaces a selection which is the only reader of what maps
compute: the scores of a search, or logits divided by a temperature.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.options import Options
from ingot.graph.op import Op
from ingot.graph.roles import Map, Selection, View
from ingot.graph.roles.map import is_single

__all__ = ["select_by_blocks"]


def select_by_blocks(tape: Tape, options: Options) -> Tape:
    """The tape with selections among the elements of few blocks, where they pay."""
    if options.sizes is not None or not any(issubclass(kind, Selection) for kind in tape.kinds):
        return tape
    replaced: dict[Step, Step] = {}
    steps: list[Step] = []
    for step in tape.steps:
        kept = step.with_inputs([replaced.get(source, source) for source in step.inputs])
        if isinstance(step.op, Selection):
            selection = _Fused(tape, step, replaced)
            found = selection.rewritten()
            if found is not None:
                steps += selection.steps
                replaced[step] = found
                continue
        if kept is not step:
            replaced[step] = kept
        steps.append(kept)
    if not replaced:
        return tape
    return tape.with_steps(steps, [replaced.get(step, step) for step in tape.outputs])


class _Fused:
    """A selection, and the maps whose only reader it is."""

    def __init__(self, tape: Tape, selection: Step, replaced: dict[Step, Step]) -> None:
        self.selection = selection
        self.replaced = replaced  # steps of the tape that depend on earlier selections
        self.maps = _maps_before(tape, selection)
        self.steps: list[Step] = []  # new ones

    def rewritten(self) -> Step | None:
        """The replacement of the selection."""
        if not self.maps or not self._reads_rows():
            return None
        assert isinstance(self.selection.op, Selection)
        found: Step | None = self.selection.op.by_blocks(
            self._build, self._elements, self.selection.inputs[0]
        )
        return found

    def _reads_rows(self) -> bool:
        """Whether what the maps read can be cut into rows without a copy: broadcasts along some of
        several axes cannot.
        """
        if len(self.maps[-1].shape) <= 2:
            return True
        leaves = {source for step in self.maps for source in step.inputs}.difference(self.maps)
        return all(not isinstance(leaf.op, View) or is_single(leaf) for leaf in leaves)

    def _elements(self, view: Callable[[Step], Step]) -> Step:
        known: dict[Step, Step] = {}
        for step in self.maps:
            for source in step.inputs:
                if source not in known:
                    known[source] = view(self.replaced.get(source, source))
            assert step.op is not None
            known[step] = self._build(step.op, *[known[source] for source in step.inputs])
        return known[self.maps[-1]]

    def _build(self, op: Op, *inputs: Step) -> Step:
        if op.is_no_op(*inputs):
            return inputs[0]
        shape, dtype = op.infer(*inputs)
        stream, source = self.selection.stream, self.selection.source
        found = Step(op, inputs, shape, dtype, stream, source)
        self.steps.append(found)
        return found


def _maps_before(tape: Tape, selection: Step) -> list[Step]:
    """The maps that a selection reads, directly or through others of them, and that nothing else
    reads, in order.
    """
    source, live_out = selection.inputs[0], set(tape.outputs)
    found: set[Step] = set()
    readers = {selection}
    pending = [source]
    while pending:
        step = pending.pop()
        is_inside = (
            isinstance(step.op, Map)
            and step.shape == source.shape
            and step not in live_out
            and readers.issuperset(tape.users[step])
        )
        if is_inside and step not in found:
            found.add(step)
            readers.add(step)
            pending += step.inputs
    numbers = tape.numbers()
    return sorted(found, key=numbers.__getitem__) if source in found else []
