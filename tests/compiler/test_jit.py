"""The JIT refuses code that would end the process when it is loaded."""

from __future__ import annotations

import pytest

from ingot.compiler import jit
from ingot.compiler.object_file import undefined_symbols

CALLS_NOTHING = "define void @nothing(ptr %a) { ret void }"
CALLS_A_STRANGER = """
declare double @no_such_function(double)
define void @stranger(ptr %a) {
  %r = call double @no_such_function(double 1.0)
  store double %r, ptr %a
  ret void
}
"""


def test_unknown_functions_are_an_error() -> None:
    data = jit.compile_object(CALLS_A_STRANGER)
    assert undefined_symbols(data) == ["no_such_function"]
    with pytest.raises(RuntimeError, match="machine code calls no_such_function, which is nowhere"):
        jit.load_object(data, "stranger")


def test_other_code_is_loaded() -> None:
    data = jit.compile_object(CALLS_NOTHING)
    assert undefined_symbols(data) == []
    assert jit.load_object(data, "nothing") > 0
    assert "nothing" in jit.assembly(CALLS_NOTHING)


def test_files_of_other_formats_have_none() -> None:
    assert undefined_symbols(b"MZ") == []
