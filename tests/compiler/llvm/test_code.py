"""LLVM code as text: what becomes of loops of known length."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.machine.jit import assembly


def machine_code(function: Any, *arrays: mx.array) -> str:
    """The machine code of the one kernel that a function becomes, as text."""
    compiled = mx.compile(function)
    np.testing.assert_allclose(np.array(compiled(*arrays)), np.array(function(*arrays)), rtol=1e-6)
    (text,) = compiled.explain(*arrays).code
    return assembly(text)


# LLVM would write these loops out, and then read the columns of many rows at once, far apart.
@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the assembly of x86")
@pytest.mark.parametrize("length", [14, 16, 22, 30, 32])
def test_short_loops_are_vectorised(length: int) -> None:
    x = mx.array(np.random.rand(6007, length).astype(np.float32))
    text = machine_code(lambda x, bias: x - bias, x, x[7])
    assert "subps" in text
    assert text.count("subss") < length // 2
