"""LLVM's functions, called without llvmlite's modules, against what llvmlite declares."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import llvmlite.binding
import pytest

from ingot.compiler.machine import llvm_library
from ingot.compiler.machine.llvm_library import SIGNATURES, SIZED, llvm

# declared without types by llvmlite, which relies on what ctypes makes of Python's objects
UNDECLARED = {"DisposeString"}


def _is_pointer(type: object) -> bool:
    return type in (ctypes.c_void_p, ctypes.c_char_p) or issubclass(type, ctypes._Pointer)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(SIGNATURES.keys() - UNDECLARED))
def test_signatures_are_those_of_llvmlite(name: str) -> None:
    theirs = getattr(llvmlite.binding.ffi.lib, f"LLVMPY_{name}")
    result, *ours = SIGNATURES[name]
    if name in SIZED:
        ours = ours[: len(theirs.argtypes)]  # a later version takes one less
    assert len(theirs.argtypes or ()) == len(ours)
    for mine, other in zip(ours, theirs.argtypes or (), strict=True):
        assert _is_pointer(mine) == _is_pointer(other)
        assert ctypes.sizeof(mine) == ctypes.sizeof(other)
    if result is not None:
        assert ctypes.sizeof(result) == ctypes.sizeof(theirs.restype)


def test_the_version_is_that_of_llvmlite() -> None:
    assert llvm().version == llvmlite.binding.llvm_version_info


def test_unknown_versions_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_library, "_KNOWN_VERSIONS", ())
    assert llvm.__wrapped__().version == llvm().version
    wrong = (ctypes.c_void_p, ctypes.c_void_p)
    monkeypatch.setitem(SIGNATURES, "ParseAssembly", wrong)
    with pytest.raises(ImportError, match="has another function ParseAssembly than ingot knows"):
        llvm.__wrapped__()


def test_compiling_does_not_import_llvmlite() -> None:
    program = (
        "import sys, ingot.core as mx\n"
        "mx.eval(mx.compile(lambda x: mx.exp(x) + x)(mx.ones((300,))))\n"
        "print('llvmlite' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
