"""When a graph that is evaluated without `compile` is compiled and run as one program.

The rules, in the order in which they are applied; a graph that fails one runs op by op:

1.  Fusion is on (`mx.set_eager_fusion`), `mx.debug_nans` is not, and no transform that is running
    on this thread nor a background evaluation needs a node of the graph for itself.
2.  **It is large enough to consider.** Some result has at least MIN_FUSED_ELEMENTS elements, there
    are two ops or more, and results of at least MIN_FUSED_NODE_ELEMENTS have that many elements per
    op on average. Views, compiled functions and their outputs do not count.
3.  **Fusion can help**: at most MAX_FUSED_NODES nodes, of which two or more are
    elementwise or reductions, because nothing else is fused, and at least as many of these as of
    ops that are programs by themselves. A decoding step consists mostly of the latter: products,
    norms and attention over a cache that grows each time. They run one by one without Python,
    whereas one program for all of them would have to be compiled for each length.
4.  **A structure that has a program is run by it.** A structure is ops, shapes, dtypes and edges.
    After MIN_SYMBOLIC_EXAMPLES structures that differ only in numbers (lengths, parameters of ops),
    one symbolic program is made for all of them, if such programs are run as often as those of a
    family have to be.
5.  **Otherwise it is compiled if that pays** (`pays`): at once where its ops read and write at
    least MIN_BYTES_TO_FUSE_AT_ONCE, and MIN_BYTES_TO_FUSE_AT_ONCE_PER_NODE for each node; else
    when it is seen for the second time, unless its family has too many programs.
6.  A graph that is too small for rule 2 is considered after MIN_SMALL_GRAPH_RUNS runs, and after as
    many more each time that it was declined. ELEMENTS_PER_CALL elements per op, on average, count
    as one more run.

A map or a reduction in a graph that runs op by op gets a program of its own once its `evaluate`
rule has computed MIN_RECURRING_ELEMENTS for inputs of one layout (`dispatch_recurs` in
`_native/evaluate/dispatch.c`, `program_often` in `alone.py`).

A `Family` is all structures of the same ops in the same order. Where shapes change all the time, as
they do with a cache that grows by a token at each step, programs are seldom run again: after
MAX_TRIAL_PROGRAMS, a family gets another one only if its programs have been run
MIN_RUNS_PER_PROGRAM times each, on average.

Rules 1, 2, 3 and 6 apply to every evaluation, so they are in C (`offer_of_graph` and `recurs_often`
in `_native/evaluate/whole_graph.c`); the others are here. C also caches the programs that were run,
so that equal graphs do not reach Python again. The thresholds and their reasons are in `tuning.py`.
"""

from __future__ import annotations

from ingot._native import UseCounter
from ingot.tuning import (
    MAX_TRIAL_PROGRAMS,
    MIN_BYTES_TO_FUSE_AT_ONCE,
    MIN_BYTES_TO_FUSE_AT_ONCE_PER_NODE,
    MIN_RUNS_PER_PROGRAM,
)

__all__ = ["Family", "pays"]


class Family:
    """The record of compiling structures that have these ops in this order."""

    __slots__ = ("programs", "runs")

    def __init__(self, programs: int = 0, runs: int = 0) -> None:
        self.programs = programs
        self.runs = UseCounter()  # C counts the runs that do not come to Python
        self.runs.count = runs

    def may_have_more(self) -> bool:
        """Whether its programs are run often enough for one more."""
        if self.programs < MAX_TRIAL_PROGRAMS:
            return True
        return self.runs.count >= MIN_RUNS_PER_PROGRAM * self.programs


def pays(nbytes: int, node_count: int, seen: int, family: Family) -> bool:
    """Rule 5: whether to compile a structure without a program now.

    `nbytes` is what its ops read and write, `seen` how often it came before.
    """
    worth = max(MIN_BYTES_TO_FUSE_AT_ONCE, MIN_BYTES_TO_FUSE_AT_ONCE_PER_NODE * node_count)
    return nbytes >= worth or (seen > 0 and family.may_have_more())
