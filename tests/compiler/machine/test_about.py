"""Descriptions of programs are made when they are asked for, once."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import ingot.core as mx
from ingot.compiler.machine.about import About

X = mx.array([1.0, 2.0])


def test_work_is_described_on_demand_once() -> None:
    asked: list[list[Any]] = []

    def describe() -> list[Any]:
        asked.append([])
        return asked[-1]

    about = About("f", describe)
    assert asked == []
    assert about.work is about.work
    assert len(asked) == 1


def test_native_programs_carry_theirs() -> None:
    executable = mx.compile(lambda x: mx.exp(x) + 1).explain(X).stages.executable
    about = executable.native.about
    assert isinstance(about, About)
    assert about.work is executable.work


def test_they_keep_no_program_alive() -> None:
    executable = mx.compile(lambda x: mx.exp(x) + 2).explain(X).stages.executable
    about = executable.native.about
    code = weakref.ref(executable.loaded.codes[0])
    del executable
    gc.collect()
    assert about.work
    assert code() is None
