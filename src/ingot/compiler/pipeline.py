"""The pipeline: from a tape to a program, stage by stage."""

from __future__ import annotations

import time
from dataclasses import field

from ingot.compiler.call.cache_info import Account
from ingot.compiler.forms.schedule import Schedule
from ingot.compiler.forms.tape import Tape
from ingot.compiler.passes.expand import expand
from ingot.compiler.passes.fuse import fuse, separate
from ingot.compiler.passes.late_casts import late_casts
from ingot.compiler.passes.simplify import SimplifyReport, simplify
from ingot.compiler.run.program import Program
from ingot.graph.lazy_dataclass import dataclass
from ingot.runtime.compile_mode import CompileMode
from ingot.runtime.numerics import excess_precision
from ingot.runtime.progress import working

__all__ = ["Stages", "run_pipeline"]


@dataclass
class Stages:
    """Everything that the pipeline made on the way, for `explain`."""

    traced: Tape
    simplified: Tape
    schedule: Schedule
    program: Program
    report: SimplifyReport = field(default_factory=SimplifyReport)
    seconds: dict[str, float] = field(default_factory=dict)


def run_pipeline(
    tape: Tape, mode: CompileMode, name: str = "graph", account: Account | None = None
) -> Stages:
    """All stages after the trace; `name` is what profiles call the program, and `account` is
    charged with the time of the stages and, later, of machine code.
    """
    account = account or Account()
    started = time.perf_counter()
    seconds: dict[str, float] = {}

    def finished(stage: str) -> None:
        nonlocal started
        now = time.perf_counter()
        seconds[stage] = now - started
        account.spend(stage, now - started)
        started = now

    working(f"simplifying {len(tape.steps):,} operations")
    simplified, report = tape, SimplifyReport()
    if mode is not CompileMode.no_simplify:
        simplified, report = simplify(tape)
    finished("simplify")
    working(f"fusing {len(simplified.steps):,} operations")
    if mode is CompileMode.no_fuse:
        schedule = separate(simplified)
    else:
        simplified = late_casts(expand(simplified))
        schedule = fuse(simplified)
    for group in schedule.groups:
        group.excess_precision = excess_precision()
    program = Program(schedule, name, account, tape)
    finished("fuse")
    return Stages(tape, simplified, schedule, program, report, seconds)
