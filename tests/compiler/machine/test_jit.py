"""The JIT refuses code that would end the process when it is loaded."""

from __future__ import annotations

import ctypes
import math
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from ingot import _native
from ingot.compiler.llvm.module import IN_VECTORS
from ingot.compiler.machine import jit
from ingot.compiler.machine.llvm_library import llvm
from ingot.compiler.machine.object_file import image_of, undefined_symbols

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
    with pytest.raises(RuntimeError, match="calls no_such_function, which no library defines"):
        jit.load_object(data, "stranger")


def test_other_code_is_loaded() -> None:
    data = jit.compile_object(CALLS_NOTHING)
    assert undefined_symbols(data) == []
    assert jit.load_object(data, "nothing").address > 0
    assert "nothing" in jit.assembly(CALLS_NOTHING)


def test_code_that_llvm_rejects_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"rejects the code: .*expected"):
        jit.compile_object("define nonsense")
    with pytest.raises(RuntimeError, match=r"rejects the code: .*PHI"):
        jit.compile_object(
            "define i64 @f(i64 %x) {\nentry: br label %next\n"
            "next: %y = phi i64 [%x, %next]\n ret i64 %y }"
        )
    assert jit.compile_object(CALLS_NOTHING)  # goes on


@pytest.mark.parametrize("mark", ["", f"{IN_VECTORS}\n"])
@pytest.mark.parametrize("branch", ["", "  br label %next\nnext:\n"])
def test_all_modules_are_optimised(mark: str, branch: str) -> None:
    """A sum on the stack is kept in a register, whatever the passes."""
    text = jit.assembly(
        f"{mark}define i64 @f(i64 %x) {{\n %a = alloca i64\n store i64 %x, ptr %a\n{branch}"
        " %y = load i64, ptr %a\n %z = add i64 %y, %x\n ret i64 %z }"
    )
    assert "rsp" not in text
    assert "[sp" not in text


def test_every_function_of_straight_code_is_simplified() -> None:
    """Also functions that are inlined, and those that call them."""
    text = jit.assembly(
        "define private i64 @g(i64 %x) alwaysinline { %y = mul i64 %x, 3\n ret i64 %y }\n"
        "define i64 @f(i64 %x) { %a = alloca i64\n store i64 %x, ptr %a\n"
        " %y = load i64, ptr %a\n %z = call i64 @g(i64 %y)\n ret i64 %z }\n"
        "define i64 @h(i64 %x) { %a = alloca i64\n store i64 %x, ptr %a\n"
        " %y = load i64, ptr %a\n ret i64 %y }"
    )
    assert "rsp" not in text
    assert "[sp" not in text
    assert "call" not in text


def test_loops_of_vectors_need_fewer_passes() -> None:
    """Unless they store numbers, which LLVM would vectorise, or it is to unroll them."""
    loop = "  br label %head\nhead:\n  store <4 x i32> %v1, ptr %a0\n  br label %head"
    assert jit._is_simple("  store i32 %v1, ptr %a0\n  ret void")
    assert jit._is_simple(f"{IN_VECTORS}\n{loop}")
    assert not jit._is_simple(f"\n{loop}")
    assert not jit._is_simple(f"{IN_VECTORS}\n{loop}\n  store i32 %v1, ptr %a0")
    assert not jit._is_simple(f'{IN_VECTORS}\n{loop}\n!1 = !{{!"llvm.loop.unroll.count", i32 4}}')
    assert not jit._is_simple(
        f'{IN_VECTORS}\n{loop}\n!1 = !{{!"llvm.loop.vectorize.width", i32 8}}'
    )


def test_builders_of_passes_are_used_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """llvmlite adds callbacks to a builder in each run, which would make later ones slower."""
    library, alive = llvm(), set[int]()
    created: list[int] = []
    create, dispose = library.CreatePassBuilder, library.DisposePassBuilder

    def creating(*arguments: object) -> int:
        builder: int = create(*arguments)
        created.append(builder)
        alive.add(builder)
        return builder

    def disposing(builder: int) -> None:
        alive.remove(builder)
        dispose(builder)

    monkeypatch.setattr(library, "CreatePassBuilder", creating)
    monkeypatch.setattr(library, "DisposePassBuilder", disposing)
    loop = "define void @f() {\nentry:\n  br label %head\nhead:\n  br label %head }"
    for text in (CALLS_NOTHING, loop, CALLS_NOTHING):
        jit.compile_object(text)
    assert len(created) == 3
    assert not alive


def test_files_of_other_formats_have_none() -> None:
    assert undefined_symbols(b"MZ") == []


# A constant in memory, a call of the C library, a table of addresses and a table of jumps.
_PROGRAM = """
declare double @cos(double)
@table = private constant [2 x ptr] [ptr @one, ptr @two]
@numbers = private constant [4 x double] [double 1.5, double 2.5, double 3.5, double 4.5]
define private double @one(double %x) noinline { ret double %x }
define private double @two(double %x) noinline {
  %y = call double @cos(double %x)
  ret double %y
}
define double @chosen(i64 %which, double %x) {
  %place = getelementptr ptr, ptr @table, i64 %which
  %function = load ptr, ptr %place
  %y = call double %function(double %x)
  %at = getelementptr double, ptr @numbers, i64 %which
  %n = load double, ptr %at
  %sum = fadd double %y, %n
  ret double %sum
}
define i64 @switched(i64 %x) {
  switch i64 %x, label %other [ i64 0, label %a
    i64 1, label %b
    i64 2, label %c
    i64 3, label %d
    i64 4, label %e ]
a: ret i64 7
b: ret i64 1
c: ret i64 9
d: ret i64 3
e: ret i64 5
other: ret i64 -1
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="LLVM loads code for other machines")
def test_code_runs_without_llvm_loading_it() -> None:
    image = image_of(jit.compile_object(_PROGRAM))
    assert image is not None
    code = image.loaded("chosen")
    chosen = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_double)(code.address)
    assert chosen(0, 0.25) == 0.25 + 1.5
    assert chosen(1, 0.25) == math.cos(0.25) + 2.5
    other = image.loaded("switched")
    switched = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(other.address)
    assert [switched(i) for i in range(6)] == [7, 1, 9, 3, 5, -1]


def test_code_that_only_llvm_can_load_is_left_to_it() -> None:
    written = "@counter = global i64 5\ndefine ptr @where() { ret ptr @counter }"
    data = jit.compile_object(written)
    assert image_of(data) is None  # memory that is written cannot be part of the code
    assert jit.load_object(data, "where").address > 0
    assert image_of(b"MZ") is None


def test_relocations_outside_the_image_are_refused() -> None:
    with pytest.raises(ValueError, match="outside of the image"):
        _native.MachineCode(b"\x00" * 16, (9,), 0)
    with pytest.raises(ValueError, match="outside of the image"):
        _native.MachineCode(b"\x00" * 16, (), 16)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="reads it")
def test_a_second_process_does_not_load_llvm(tmp_path: Path) -> None:
    program = (
        "import ingot.core as mx\n"
        "f = mx.compile(lambda x: mx.exp(x) @ mx.sin(x).T)\n"
        "print(f(mx.ones((64, 64)))[0, 0].item(), 'llvmlite' in open('/proc/self/maps').read())"
    )
    environment = {**os.environ, "INGOT_CACHE_DIR": str(tmp_path), "INGOT_CACHE": "1"}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            check=True,
            text=True,
            capture_output=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert outputs[0][0] == outputs[1][0]
    assert outputs[0][1] == "True"
    assert outputs[1][1] == "False" or platform.machine() != "x86_64"
