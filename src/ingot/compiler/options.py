"""Options: what the passes of a compilation take besides their input form."""

from __future__ import annotations

from dataclasses import field

from ingot.compiler.forms.sizes import Sizes
from ingot.compiler.forms.tape import Step
from ingot.graph.lazy_dataclass import dataclass
from ingot.runtime.compile_mode import CompileMode

__all__ = ["Options", "SimplifyReport", "Strides"]

Strides = tuple[tuple[int, ...], ...]  # of each input, in bytes


@dataclass
class SimplifyReport:
    """A record of simplification for `explain`, in terms of steps of its input."""

    merged: list[tuple[Step, Step]] = field(default_factory=list)  # (gone, stays)
    folded: list[Step] = field(default_factory=list)  # into constants
    no_ops: list[Step] = field(default_factory=list)
    unused: list[Step] = field(default_factory=list)


@dataclass(frozen=True)
class Options:
    """The mode, the numerics, and, for passes that run at an evaluation, the layout of the inputs:
    None if they are contiguous. With `sizes`, lengths are symbolic, and the program serves all
    shapes that satisfy their conditions. In the body of a loop, the first `varying` inputs change
    from iteration to iteration, the others do not. Simplification reports here what it did.
    """

    mode: CompileMode = CompileMode.enabled
    excess_precision: bool = False
    strides: Strides | None = None
    sizes: Sizes | None = None
    varying: int | None = None
    report: SimplifyReport = field(default_factory=SimplifyReport)
