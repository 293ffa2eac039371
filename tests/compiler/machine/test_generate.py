"""Plans as programs: what each instruction is, and that all kernels have code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.compiler.lower.nests_of_calls import numbers

import ingot.core as mx
from ingot.compiler.forms.nest.scope import NestError
from ingot.compiler.machine.generate import Executable, _text


def executable_of(function: Any, *args: Any) -> Executable:
    found: Executable = mx.compile(function).explain(*args).stages.executable
    return found


def test_every_instruction_is_described() -> None:
    found = executable_of(lambda x: mx.sort(mx.exp(x @ x.T)) + 1, numbers(8, 8))
    assert [work.kind for work in found.work if work.kind != "kernel"] == ["gemm", "host"] or {
        work.kind for work in found.work
    } >= {"kernel", "host"}
    assert len(found.work) == len(found.plan.nests.instructions)
    found.verify()


def test_kernels_are_text_and_machine_code() -> None:
    found = executable_of(lambda x: (mx.exp(x).sum(axis=0), mx.sin(x)), numbers(40, 50))
    assert len(found.codes) == len(found.loaded.codes) == len(found.plan.nests.kernels)
    assert found.text().count("define void @KERNEL(") == len(found.codes)
    assert all(code.parts >= 1 and code.grain >= 1 for code in found.codes)


def test_programs_without_code_are_found() -> None:
    found = executable_of(mx.exp, numbers(40))
    found.loaded.codes = []
    with pytest.raises(AssertionError):
        found.verify()


def test_the_native_program_runs() -> None:
    x = numbers(40)
    stages = mx.compile(lambda x: mx.exp(x) * 2).explain(x).stages
    (result,) = stages.program.run((np.array(x),))
    np.testing.assert_allclose(result, np.exp(np.array(x)) * 2, rtol=1e-6)


def test_keys_shared_by_different_kernels_are_found() -> None:
    first, second = (
        replace(executable_of(function, numbers(40)).plan.nests.kernels[0], code_key=("a", "test"))
        for function in (mx.exp, mx.sin)
    )
    assert _text(first, frozenset()) == _text(first, frozenset())
    with pytest.raises(NestError, match="same key"):
        _text(second, frozenset())
