"""Materialise: the op of copies that lowering inserts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot.compiler.forms.tape import Step
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import no_rule
from ingot.graph.roles import Map

__all__ = ["Materialise", "copy_of"]


@dataclass(frozen=True)
class Materialise(Map):
    """The elements of a value, contiguous in memory of their own."""

    def infer(self, x: Any) -> Any:
        return x.shape, x.dtype

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(x)

    def emit(self, k: Any, x: Any) -> Any:
        return x

    vjp = no_rule("only planned programs hold it")
    jvp = no_rule("only planned programs hold it")
    vmap = no_rule("only planned programs hold it")


def copy_of(source: Step, made_for: Step | None = None) -> Step:
    """A step that copies a value, for one step or for all that need it contiguous."""
    line = None if made_for is None else made_for.source
    return Step(Materialise(), [source], source.shape, source.dtype, source=line)
