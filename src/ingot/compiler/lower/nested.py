"""Loops and branches in the bodies of loops: which are instructions of the body's program.

Input: the steps of a body. Output: the native program of each loop and branch among them that has
one. What these compute is compiled here, so that lowering knows whether anything is left to the
host: a body without host steps is repeated by native code.
"""

from __future__ import annotations

from collections.abc import Iterable

from ingot._native import NestedProgram
from ingot.compiler.forms.tape import Step
from ingot.compiler.options import Options
from ingot.graph.roles import Control, Host, Tiled

__all__ = ["has_host", "nested_programs"]


def nested_programs(steps: Iterable[Step], options: Options) -> dict[Step, NestedProgram]:
    """The native programs of loops and branches. With symbolic sizes they stay on the host, where
    each shape has its own program.
    """
    if options.varying is None or options.sizes is not None:
        return {}
    found = {step: step.op.nested() for step in steps if isinstance(step.op, Control)}
    return {step: program for step, program in found.items() if program is not None}


def has_host(steps: Iterable[Step], nested: dict[Step, NestedProgram]) -> bool:
    """Whether a step runs on the host: loops around it are not native."""
    return any(
        isinstance(step.op, Host) and not isinstance(step.op, Tiled) and step not in nested
        for step in steps
    )
