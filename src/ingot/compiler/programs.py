"""The programs of tapes: from disk, if an earlier process compiled an equal tape, or through the
pipeline, which is loaded only then.
"""

from __future__ import annotations

import importlib
import time
from functools import cached_property
from typing import TYPE_CHECKING

from ingot.compiler.call.cache_info import PHASES, Account
from ingot.compiler.forms.tape import Tape
from ingot.compiler.options import Strides
from ingot.compiler.run.program import ForLayout, Program
from ingot.compiler.run.stored import Key, StoredExecutable, has_programs, key_of, version
from ingot.graph.deferred import Deferred
from ingot.runtime.compile_mode import CompileMode

if TYPE_CHECKING:
    from ingot.compiler import pipeline
    from ingot.compiler.forms.schedule import Schedule
    from ingot.compiler.machine.generate import Executable
else:
    pipeline = Deferred("ingot.compiler.pipeline")

__all__ = ["prepare", "program_of"]


def program_of(
    tape: Tape, mode: CompileMode, name: str = "graph", account: Account | None = None
) -> Program:
    """The program of a tape without symbolic sizes. `account` is charged with the time of all
    passes. If there is none on disk, the passes that do not depend on layouts run now.
    """
    account = account or Account()
    started = time.perf_counter()
    key = key_of(tape, mode)
    if key is None:
        return pipeline.run_pipeline(tape, mode, name, account).program
    source = _Source(tape, mode, name, key)
    if source.has_stored():
        for phase in PHASES[1:]:  # all have an entry, and the last is charged
            account.spend(phase, 0.0)
        account.spend(PHASES[-1], time.perf_counter() - started)
    else:
        source.compiled = pipeline.run_pipeline(tape, mode, name, account).program
    return Program(tape, source.schedule, source.finish, name, account)


def prepare() -> None:
    """Loads what the first program will need, so that a program that compiles its functions when it
    starts answers its first call sooner: what the keys of stored programs have in common, or the
    pipeline if nothing is stored.
    """
    if has_programs():
        version()
    else:
        importlib.import_module("ingot.compiler.pipeline")


class _Source:
    """Where the program of a tape comes from."""

    def __init__(self, tape: Tape, mode: CompileMode, name: str, key: Key) -> None:
        self._tape = tape
        self._mode = mode
        self._name = name
        self._key = key
        self._contiguous: StoredExecutable | None = None  # until it is asked for

    def has_stored(self) -> bool:
        """Whether there is a program for contiguous inputs on disk. It is kept, so that nobody
        removes it before it is asked for.
        """
        self._contiguous = self._stored(None)
        return self._contiguous is not None

    def schedule(self) -> Schedule:
        """The fused groups."""
        return self.compiled.schedule

    def finish(self, strides: Strides | None) -> ForLayout:
        """The program for a layout of the inputs."""
        found = None
        if strides is None:
            found, self._contiguous = self._contiguous, None
        found = found or self._stored(strides)
        if found is not None:
            return ForLayout(found, lambda: self.compiled.finish(strides).forms, {})
        made = self.compiled.finish(strides)
        self._key.write(strides, made.executable)
        return made

    @cached_property
    def compiled(self) -> Program:
        """The program through the pipeline."""
        return pipeline.run_pipeline(self._tape, self._mode, self._name).program

    def _stored(self, strides: Strides | None) -> StoredExecutable | None:
        def made() -> Executable:
            return self.compiled.finish(strides).executable

        return self._key.read(strides, made)
