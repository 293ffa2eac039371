"""The pipeline: the ordered passes from a tape to a program.

`PASSES` is the table of contents of the compiler. Each pass maps one form to another; each form has
`text()` and `verify()`. The passes before `lower` run when a function is called with a new
signature, or when evaluation finds a graph worth fusing. `FIRST_AT_EVALUATION` and the passes after
it wait until a result is evaluated: loop nests are specialised to strides, and the layout of the
inputs is known only then. They run again for inputs with another layout (`Program`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any, Protocol

from ingot.compiler.call.cache_info import Account
from ingot.compiler.forms.nests import Nests
from ingot.compiler.forms.plan import Plan
from ingot.compiler.forms.schedule import Schedule
from ingot.compiler.forms.sizes import Sizes
from ingot.compiler.forms.tape import Tape
from ingot.compiler.lower.lowering import lower
from ingot.compiler.machine.generate import Executable, generate
from ingot.compiler.options import Iteration, Options, SimplifyReport, Strides
from ingot.compiler.passes.expand import expand
from ingot.compiler.passes.fuse import fuse
from ingot.compiler.passes.late_casts import late_casts
from ingot.compiler.passes.narrow import narrow
from ingot.compiler.passes.select_by_blocks import select_by_blocks
from ingot.compiler.passes.simplify import simplify
from ingot.compiler.passes.sparse_updates import sparse_updates
from ingot.compiler.plan.planning import plan
from ingot.compiler.run.program import ForLayout, Program
from ingot.graph.lazy_dataclass import dataclass
from ingot.runtime.collection import collection_paused
from ingot.runtime.compile_mode import CompileMode
from ingot.runtime.numerics import excess_precision
from ingot.runtime.verification import is_verifying

__all__ = ["FIRST_AT_EVALUATION", "PASSES", "Form", "Pass", "Stages", "run_pipeline"]


class Form(Protocol):
    """The interface of all forms."""

    def text(self) -> str:
        """The form as text, for people and for goldens."""

    def verify(self) -> None:
        """Raises unless the form is valid."""


@dataclass(frozen=True)
class Pass:
    """A pass: its name, input form, output form and function; `off_in` are the modes in which it is
    skipped, `phase` is the entry of `cache_info()` that its time is added to.
    """

    name: str
    takes: type
    gives: type
    run: Callable[[Any, Options], Any]
    phase: str
    off_in: tuple[CompileMode, ...] = ()


_NO_SIMPLIFY, _NO_FUSE = (CompileMode.no_simplify,), (CompileMode.no_fuse,)

PASSES = (
    Pass("simplify", Tape, Tape, simplify, "simplify", _NO_SIMPLIFY),
    Pass("sparse updates", Tape, Tape, sparse_updates, "simplify", _NO_SIMPLIFY),
    Pass("narrow", Tape, Tape, narrow, "simplify", _NO_SIMPLIFY),
    Pass("select by blocks", Tape, Tape, select_by_blocks, "fuse", _NO_FUSE),
    Pass("expand", Tape, Tape, expand, "fuse", _NO_FUSE),
    Pass("late casts", Tape, Tape, late_casts, "fuse", _NO_FUSE),
    Pass("fuse", Tape, Schedule, fuse, "fuse"),
    Pass("lower", Schedule, Nests, lower, "machine code"),
    Pass("plan", Nests, Plan, plan, "machine code"),
    Pass("generate", Plan, Executable, generate, "machine code"),
)
FIRST_AT_EVALUATION = "lower"


@dataclass
class Stages:
    """Every form of a compilation, by the name of the pass that produced it, and the seconds that
    each pass took. The forms of passes that wait for an evaluation are computed on demand.
    """

    program: Program
    report: SimplifyReport
    forms: dict[str, Any]
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def traced(self) -> Tape:
        """The tape as it was traced."""
        return self.form("trace")

    @property
    def simplified(self) -> Tape:
        """The tape after simplification."""
        return self.form("simplify")

    @property
    def schedule(self) -> Schedule:
        """The fused groups, in order."""
        return self.program.schedule

    @property
    def nests(self) -> Nests:
        """The loop nests for contiguous inputs."""
        return self.form("lower")

    @property
    def plan(self) -> Plan:
        """The assignment of memory."""
        return self.form("plan")

    @property
    def executable(self) -> Executable:
        """The machine code for contiguous inputs."""
        return self.program.executable

    def form(self, name: str) -> Any:
        """The output of a pass; "trace" is the input of the first."""
        if name not in self.forms:
            names = [each.name for each in PASSES]
            if name not in names:
                known = ", ".join(["trace", *names])
                raise ValueError(f"there is no pass {name!r}; the forms are those of {known}.")
            made = self.program.contiguous
            self.forms.update(made.forms)
            self.seconds.update(made.seconds)
        return self.forms[name]


def run_pipeline(
    tape: Tape,
    mode: CompileMode,
    name: str = "graph",
    account: Account | None = None,
    sizes: Sizes | None = None,
    iteration: Iteration | None = None,
) -> Stages:
    """Runs the passes that do not depend on layouts; the program runs the others.

    `name` is the program's name in profiles; `account` is charged with the time of all passes. With
    `sizes`, the lengths on the tape are symbolic. For the body of a loop, `iteration` says what
    changes between iterations.
    """
    account = account or Account()
    options = Options(mode, excess_precision(), sizes=sizes, iteration=iteration)
    if is_verifying() and sizes is None:
        tape.verify()
    number = [each.name for each in PASSES].index(FIRST_AT_EVALUATION)
    at_call, at_evaluation = PASSES[:number], PASSES[number:]
    forms, seconds = _run(at_call, tape, options)
    for each in at_call:
        account.spend(each.phase, seconds[each.name])
    schedule = forms[at_call[-1].name]

    def finish(strides: Strides | None) -> ForLayout:
        made, spent = _run(at_evaluation, schedule, replace(options, strides=strides))
        return ForLayout(made[at_evaluation[-1].name], lambda: made, spent)

    program = Program(tape, lambda: schedule, finish, name, account)
    return Stages(program, options.report, {"trace": tape, **forms}, seconds)


def _run(
    passes: tuple[Pass, ...], form: Any, options: Options
) -> tuple[dict[str, Any], dict[str, float]]:
    """The output of each of some passes, by name, and the seconds that it took."""
    forms: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    with collection_paused():
        for each in passes:
            started = time.perf_counter()
            if options.mode not in each.off_in:
                form = each.run(form, options)
            seconds[each.name] = time.perf_counter() - started
            if is_verifying():
                made: Any = form
                assert isinstance(made, each.gives), f"{each.name} gave a {type(form).__name__}"
                _verify(form, options)
            forms[each.name] = form
    return forms, seconds


def _verify(form: Any, options: Options) -> None:
    """Raises unless a form is valid. Comparing symbolic sizes would add conditions on shapes, so
    with symbolic sizes only loop nests are verified, whose proofs hold for all shapes.
    """
    if options.sizes is None:
        form.verify()
    elif isinstance(form, Nests):
        form.verify_kernels()
