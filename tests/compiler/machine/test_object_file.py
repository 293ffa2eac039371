"""Object files without LLVM: images that run, and files that are left to LLVM."""

from __future__ import annotations

import ctypes
import platform

import pytest

from ingot._native import MachineCode
from ingot.compiler.machine.jit import compile_object
from ingot.compiler.machine.object_file import image_of, undefined_symbols

x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 files are read here")

ADD = """
define i64 @add(i64 %a, i64 %b) {
  %c = add i64 %a, %b
  ret i64 %c
}
"""
CALL = """
declare double @cos(double)
define double @twice(double %x) {
  %y = call double @cos(double %x)
  %z = call double @cos(double %y)
  ret double %z
}
"""


@x86
def test_images_run() -> None:
    image = image_of(compile_object(ADD))
    assert image is not None
    code = MachineCode(image.data, image.places, image.functions["add"])
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(code.address)
    assert function(40, 2) == 42


@x86
def test_functions_from_elsewhere_are_found() -> None:
    data = compile_object(CALL)
    assert undefined_symbols(data) == ["cos"]
    asked: list[str] = []

    def nowhere(name: str) -> None:
        asked.append(name)

    assert image_of(data, nowhere) is None
    assert asked == ["cos"]
    assert image_of(data) is not None


def test_other_files_are_left_to_llvm() -> None:
    assert image_of(b"no object file") is None
    assert image_of(b"\x7fELF" + bytes(200)) is None
