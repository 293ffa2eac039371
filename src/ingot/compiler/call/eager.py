"""Fusion without `compile`: evaluation runs large graphs as one program.

The native evaluation loop offers every unevaluated graph with enough elements. The graph's
structure (ops, shapes, dtypes and connections) is the key of a program; values that are already
computed are its inputs. `fusion_policy.py` decides when one is compiled; until then the ops run one
by one. Structures that differ only in numbers are of one kind, which one symbolic program serves
(`examples.py`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from ingot import _native
from ingot._native import Dtype, NativeProgram, Node, UseCounter
from ingot.compiler.call.examples import Dimensions, Numbers, generalised, skeleton
from ingot.compiler.call.fusion_policy import Family, pays
from ingot.compiler.forms.tape import (
    Step,
    Tape,
    add_steps,
    composed_step,
    only_carries_rules,
    passed_input,
)
from ingot.compiler.programs import program_of
from ingot.compiler.run.program import Program
from ingot.graph.deferred import Deferred
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.roles import Composite, View
from ingot.runtime.compile_mode import CompileMode
from ingot.runtime.numerics import numerics_key
from ingot.runtime.profile.profiler import is_profiling, profiled, set_graph_origins
from ingot.runtime.progress import compiling
from ingot.tuning import MAX_FUSED_STRUCTURES, MAX_SYMBOLIC_PROGRAMS, MIN_SYMBOLIC_EXAMPLES

if TYPE_CHECKING:
    from ingot.compiler.call import symbolic_program
    from ingot.compiler.call.symbolic_program import SymbolicProgram
    from ingot.compiler.run.shaped_program import ShapedProgram
else:
    symbolic_program = Deferred("ingot.compiler.call.symbolic_program")

__all__ = ["eager_fusion_info", "evaluate_whole"]


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A program, and the family that its runs are credited to."""

    program: Program | ShapedProgram
    family: Family


class _Kind:
    """Structures that differ only in numbers."""

    __slots__ = ("examples", "family", "programs")

    def __init__(self) -> None:
        self.examples: list[Numbers] = []  # the latest, all different
        self.family = Family()  # of symbolic programs
        self.programs: list[tuple[Dimensions, SymbolicProgram]] = []  # most recent first

    def shaped(self, numbers: Numbers) -> ShapedProgram | None:
        """A program for these numbers, if one of the symbolic ones covers them."""
        for dimensions_of, symbolic in tuple(self.programs):
            values = dimensions_of(numbers)
            found = None if values is None else symbolic.program(values)
            if found is not None:
                return found
        return None

    def is_due(self, numbers: Numbers) -> bool:
        """Records numbers without a program; whether a symbolic one should be made."""
        if numbers in self.examples:
            return False
        self.examples.append(numbers)
        del self.examples[:-MIN_SYMBOLIC_EXAMPLES]
        return len(self.examples) == MIN_SYMBOLIC_EXAMPLES and self.family.may_have_more()

    def add(self, dimensions_of: Dimensions, program: SymbolicProgram) -> None:
        """Adds a symbolic program; may evict the oldest."""
        self.programs.insert(0, (dimensions_of, program))
        del self.programs[MAX_SYMBOLIC_PROGRAMS:]
        self.family.programs += 1


class _Structures:
    """Programs by structure; a number counts how often a structure was seen before it is
    compiled.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.found: OrderedDict[Hashable, _Compiled | int] = OrderedDict()
        self.families: OrderedDict[Hashable, Family] = OrderedDict()
        self.kinds: OrderedDict[Hashable, _Kind] = OrderedDict()
        self.runs = 0  # those that came to Python
        self.runs_before = _native.graph_runs()

    def get(self, key: Hashable) -> _Compiled | None:
        """The program of a structure, which is run now."""
        with self.lock:
            entry = self.found.get(key)
            if not isinstance(entry, _Compiled):
                return None
            self.found.move_to_end(key)
            entry.family.runs.used()
            return entry

    def family_if_due(
        self, key: Hashable, nodes: list[Node], nbytes: int, is_frequent: bool
    ) -> Family | None:
        """Notes that a structure without a program has come; its family if one should be made."""
        with self.lock:
            entry = self.found.get(key)
            seen = entry if isinstance(entry, int) else int(is_frequent)
            self.found[key] = seen + 1
            _keep_latest(self.found, key)
            kind = tuple([type(node.op) for node in nodes])
            family = self.families.setdefault(kind, Family())
            _keep_latest(self.families, kind)
            return family if pays(nbytes, len(nodes), seen, family) else None

    def kind(self, skeleton: Hashable) -> _Kind:
        """The structures of one skeleton."""
        with self.lock:
            found = self.kinds.setdefault(skeleton, _Kind())
            _keep_latest(self.kinds, skeleton)
            return found

    def put(self, key: Hashable, program: Program | ShapedProgram, family: Family) -> _Compiled:
        """Keeps a program."""
        with self.lock:
            made = self.found[key] = _Compiled(program, family)
            _keep_latest(self.found, key)
            return made


def _keep_latest(entries: OrderedDict[Hashable, Any], key: Hashable) -> None:
    """Makes `key` the most recent and evicts the oldest."""
    entries.move_to_end(key)
    while len(entries) > MAX_FUSED_STRUCTURES:
        entries.popitem(last=False)
        _native.forget_graphs()  # the table in C would keep the programs of evicted entries


_structures = _Structures()


def eager_fusion_info() -> dict[str, int]:
    """The number of known structures, how many of them are compiled, and how often those ran."""
    entries = list(_structures.found.values())
    return {
        "structures": len(entries),
        "programs": sum(isinstance(entry, _Compiled) for entry in entries),
        "runs": _structures.runs + _native.graph_runs() - _structures.runs_before,
    }


def evaluate_whole(
    nodes: list[Node], wanted: list[int], is_frequent: bool = False
) -> bool | tuple[NativeProgram, UseCounter]:
    """Evaluates a graph, whose nodes are in topological order, as one program, and returns that
    program, which C runs for equal graphs from now on, with the counter of its runs. False if the
    ops are to run one by one.

    A graph that `is_frequent` is small and has come often enough to be compiled at once.
    """
    try:
        found = _program(nodes, wanted, is_frequent)
    except (AttributeError, IndexError, KeyError):
        if _overtaken(nodes):
            return False
        raise
    if found is None:
        return False
    compiled, leaves = found
    if is_profiling():
        set_graph_origins(nodes)
    inputs = tuple([leaf.data for leaf in leaves])
    results = compiled.program.run(inputs)
    for position, result in zip(wanted, results, strict=True):
        try:
            _native.set_data(nodes[position], result)
        except TypeError:
            if nodes[position].op is not None:  # else another thread was faster
                raise
    _structures.runs += 1
    native = compiled.program.native_if_known(inputs)
    return True if native is None else (native, compiled.family.runs)


def _program(
    nodes: list[Node], wanted: list[int], is_frequent: bool
) -> tuple[_Compiled, list[Node]] | None:
    """The program of the graph, compiled now if it should be, and its input values; else None.

    Other threads may evaluate nodes of the graph at the same time, so what was read of them is used
    only once it is clear that none did.
    """
    key, leaves, nbytes = _structure(nodes, wanted)
    if key is None or _overtaken(nodes):
        return None
    compiled = _structures.get(key) or _symbolic(key, nodes, wanted, leaves)
    if compiled is None:
        family = _structures.family_if_due(key, nodes, nbytes, is_frequent)
        if family is None:
            return None
        tape = _tape(nodes, wanted, leaves)
        if _overtaken(nodes):
            return None
        with compiling("graph"), profiled("compile", "graph: simplify, fuse"):
            program = program_of(tape, CompileMode.enabled)
        family.programs += 1
        compiled = _structures.put(key, program, family)
    return compiled, leaves


def _symbolic(
    key: Hashable, nodes: list[Node], wanted: list[int], leaves: list[Node]
) -> _Compiled | None:
    """A program for the graph that shares its machine code with those of graphs like it, if there
    were enough of them.
    """
    structure, numbers = skeleton(nodes, wanted, leaves)
    if _overtaken(nodes):
        return None
    kind = _structures.kind((structure, numerics_key()))
    program = kind.shaped(numbers)
    if program is None:
        with _structures.lock:
            is_due = kind.is_due(numbers)
        if not is_due:
            return None
        dimensions_of, sizes, tape = generalised(kind.examples, nodes, wanted, leaves)
        if _overtaken(nodes):
            return None
        values = dimensions_of(numbers)
        assert values is not None
        with compiling("graph"), profiled("compile", "graph: simplify, fuse"):
            made = symbolic_program.SymbolicProgram(sizes, tape, values)
        with _structures.lock:
            kind.add(dimensions_of, made)
        program = made.first(values)
    kind.family.runs.used()
    return _structures.put(key, program, kind.family)


def _overtaken(nodes: list[Node]) -> bool:
    """Whether another thread evaluated a node, which dropped its op and its inputs."""
    return any(node.op is None for node in nodes)


def _structure(nodes: list[Node], wanted: list[int]) -> tuple[Hashable | None, list[Node], int]:
    """The key of the graph, its input values, and the bytes that its ops read and write."""
    number: dict[Node, int] = {}
    leaves: list[Node] = []
    parts: list[Any] = []
    nbytes = 0
    for node in nodes:
        sources = []
        for source in node.inputs:
            if source not in number:
                number[source] = -1 - len(leaves)
                leaves.append(source)
                parts.append(source.shape)
                parts.append(source.dtype)
            sources.append(number[source])
        op = node.op
        passed = passed_input(node)
        if passed is not None:
            number[node] = number[passed]
            continue
        number[node] = len(number)
        if only_carries_rules(node):
            continue
        parts.append(type(op))
        parts.append(op)
        parts.append(tuple(sources))
        parts.append(node.shape)
        parts.append(node.dtype)
        if type(node.dtype) is Dtype and not isinstance(op, View):
            nbytes += node.dtype.size * _elements(node.shape) * (1 + len(sources))
    if any(type(leaf.dtype) is not Dtype for leaf in leaves):
        return None, leaves, nbytes
    parts.append(tuple(wanted))
    parts.append(numerics_key())
    return tuple(parts), leaves, nbytes


def _elements(shape: tuple[int, ...]) -> int:
    count = 1
    for length in shape:
        count *= length
    return count


def _tape(nodes: list[Node], wanted: list[int], leaves: list[Node]) -> Tape:
    made: dict[Node, Step] = {leaf: Step(None, (), leaf.shape, leaf.dtype) for leaf in leaves}
    inputs = list(made.values())

    def step_of(position: int, node: Node) -> Step:
        sources = [made[source] for source in node.inputs]
        if isinstance(node.op, Composite):
            return composed_step(made, node.op, sources, position)
        return Step(node.op, sources, node.shape, node.dtype, node.stream, position)

    add_steps(made, nodes, step_of)
    steps = list(dict.fromkeys(made.values()))
    return Tape(inputs, [made[nodes[position]] for position in wanted], steps)
