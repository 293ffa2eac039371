"""Options: what the passes of a compilation take besides their input form."""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple

from ingot.compiler.forms.sizes import Sizes
from ingot.compiler.forms.tape import Step
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.reporting.source import Source
from ingot.runtime.compile_mode import CompileMode

__all__ = ["Iteration", "Options", "SimplifyReport", "SparseUpdate", "Strides"]

Strides = tuple[tuple[int, ...], ...]  # of each input, in bytes


class SparseUpdate(NamedTuple):
    """An update of a table of which only some rows change."""

    source: Source | int | None  # the user's line of the lookup
    touched: int  # rows at most
    rows: int


@dataclass
class SimplifyReport:
    """A record of simplification for `explain`, in terms of steps of its input."""

    merged: list[tuple[Step, Step]] = field(default_factory=list)  # (gone, stays)
    folded: list[Step] = field(default_factory=list)  # into constants
    no_ops: list[Step] = field(default_factory=list)
    unused: list[Step] = field(default_factory=list)
    sparse: list[SparseUpdate] = field(default_factory=list)


class Iteration(NamedTuple):
    """What varies between the iterations of a loop: the first inputs of its body are carried
    values, which the first outputs replace, then slices. The other outputs are stacked, except that
    the last may be a flag: whether to go on.
    """

    carries: int
    slices: int = 0
    has_flag: bool = False

    @property
    def varying(self) -> int:
        """The number of inputs that vary."""
        return self.carries + self.slices


@dataclass(frozen=True)
class Options:
    """The mode, the numerics, and, for passes that run at an evaluation, the layout of the inputs:
    None if they are contiguous. With `sizes`, lengths are symbolic, and the program serves all
    shapes that satisfy their conditions. In the body of a loop, `iteration` tells what changes from
    iteration to iteration. Simplification reports here what it did.
    """

    mode: CompileMode = CompileMode.enabled
    excess_precision: bool = False
    strides: Strides | None = None
    sizes: Sizes | None = None
    iteration: Iteration | None = None
    report: SimplifyReport = field(default_factory=SimplifyReport)
