"""Object files without LLVM: images that run, and files that are left to LLVM."""

from __future__ import annotations

import ctypes
import math
import platform

import pytest

from ingot.compiler.machine.jit import compile_object
from ingot.compiler.machine.object_file import Image, image_of, undefined_symbols

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
    code = image.loaded("add")
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(code.address)
    assert function(40, 2) == 42


@x86
@pytest.mark.parametrize("is_packed", [False, True])
def test_functions_from_elsewhere_are_found(is_packed: bool) -> None:
    data = compile_object(CALL)
    assert undefined_symbols(data) == ["cos"]
    image = image_of(data)
    assert image is not None
    assert {name for _, name in image.external} == {"cos"}
    if is_packed:
        image = Image.unpacked(image.packed())
        assert image is not None
    assert image.missing() == []
    code = image.loaded("twice")
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.address)
    assert function(0.5) == math.cos(math.cos(0.5))


@x86
def test_functions_that_are_nowhere_are_missing() -> None:
    image = image_of(compile_object(CALL.replace("@cos", "@no_such_cosine")))
    assert image is not None
    assert set(image.missing()) == {"no_such_cosine"}


def test_only_packed_images_are_unpacked() -> None:
    assert Image.unpacked(b"") is None
    assert Image.unpacked(compile_object(ADD)) is None


def test_other_files_are_left_to_llvm() -> None:
    assert image_of(b"no object file") is None
    assert image_of(b"\x7fELF" + bytes(200)) is None
