"""The pipeline: from a tape to a program, stage by stage, and the modes that switch stages off."""

from __future__ import annotations

import enum
import os
import time
from dataclasses import dataclass, field

from ingot import _native
from ingot.compiler.fuse import Schedule, fuse, separate
from ingot.compiler.program import Program
from ingot.compiler.simplify import SimplifyReport, simplify
from ingot.compiler.tape import Tape

__all__ = [
    "CompileMode",
    "Stages",
    "compile_mode",
    "disable_compile",
    "enable_compile",
    "run_pipeline",
    "set_compile_mode",
]


class CompileMode(enum.Enum):
    """Which stages run."""

    disabled = "disabled"
    no_simplify = "no_simplify"
    no_fuse = "no_fuse"
    enabled = "enabled"


def _mode_from_environment() -> CompileMode:
    if "MLX_DISABLE_COMPILE" in os.environ or "INGOT_DISABLE_COMPILE" in os.environ:
        return CompileMode.disabled
    return CompileMode.enabled


_mode = _mode_from_environment()
_native.enable_fast_calls(_mode is CompileMode.enabled)


def compile_mode() -> CompileMode:
    """The mode that compiled functions are called in now."""
    return _mode


def set_compile_mode(mode: CompileMode | str) -> None:
    """Choose which stages of `compile` run: "enabled", "no_fuse", "no_simplify" or "disabled"."""
    global _mode
    try:
        _mode = CompileMode(mode)
    except ValueError:
        modes = ", ".join(known.value for known in CompileMode)
        raise ValueError(
            f"[set_compile_mode] there is no mode {mode!r}; the modes are {modes}."
        ) from None
    _native.enable_fast_calls(_mode is CompileMode.enabled)


def disable_compile() -> None:
    """Make compiled functions run uncompiled, for example to print inside them."""
    set_compile_mode(CompileMode.disabled)


def enable_compile() -> None:
    """Undo `disable_compile`, also when it came from the environment."""
    set_compile_mode(CompileMode.enabled)


@dataclass
class Stages:
    """Everything that the pipeline made on the way, for `explain`."""

    traced: Tape
    simplified: Tape
    schedule: Schedule
    program: Program
    report: SimplifyReport = field(default_factory=SimplifyReport)
    seconds: dict[str, float] = field(default_factory=dict)


def run_pipeline(tape: Tape, mode: CompileMode) -> Stages:
    """All stages after the trace."""
    started = time.perf_counter()
    seconds: dict[str, float] = {}

    def finished(stage: str) -> None:
        nonlocal started
        now = time.perf_counter()
        seconds[stage] = now - started
        started = now

    simplified, report = tape, SimplifyReport()
    if mode is not CompileMode.no_simplify:
        simplified, report = simplify(tape)
    finished("simplify")
    schedule = separate(simplified) if mode is CompileMode.no_fuse else fuse(simplified)
    finished("fuse")
    program = Program(schedule)
    finished("program")
    return Stages(tape, simplified, schedule, program, report, seconds)
