"""Object files without LLVM: images that run, and files that are left to LLVM."""

from __future__ import annotations

import ctypes
import math
import platform
import struct

import pytest

from ingot.compiler.machine.jit import compile_object
from ingot.compiler.machine.object_file import Image, image_of, undefined_symbols
from ingot.graph.libraries import llvm_binding

read_here = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="only LLVM reads this machine's files"
)

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
# A load that needs its constants in memory, and a call that goes through a table on aarch64.
TABLE = """
@table = private constant [4 x double] [double 2.0, double 3.0, double 5.0, double 7.0]
define double @entry(i64 %i) {
  %place = getelementptr [4 x double], ptr @table, i64 0, i64 %i
  %x = load double, ptr %place
  ret double %x
}
"""
SIZES = """
@values = private constant [2 x i64] [i64 11, i64 13]
define i64 @second() noinline {
  %x = load volatile i64, ptr getelementptr ([2 x i64], ptr @values, i64 0, i64 1)
  ret i64 %x
}
"""
POINTER = """
declare double @cos(double)
define ptr @cosine() {
  ret ptr @cos
}
"""


@read_here
def test_images_run() -> None:
    image = image_of(compile_object(ADD))
    assert image is not None
    code = image.loaded("add")
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(code.address)
    assert function(40, 2) == 42


@read_here
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


@read_here
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


@read_here
def test_constants_and_addresses_are_found() -> None:
    entry, second, cosine = (image_of(compile_object(code)) for code in (TABLE, SIZES, POINTER))
    assert entry is not None
    assert second is not None
    assert cosine is not None
    code = entry.loaded("entry")
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(code.address)
    assert [function(i) for i in range(4)] == [2, 3, 5, 7]
    code = second.loaded("second")
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(code.address)() == 13
    code = cosine.loaded("cosine")
    address = ctypes.CFUNCTYPE(ctypes.c_size_t)(code.address)()
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)(0.5) == math.cos(0.5)


def _for_arm(code: str) -> bytes:
    """What LLVM makes of code for aarch64, which need not be this machine's processor."""
    binding = llvm_binding()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple("aarch64-unknown-linux-gnu")
    made: bytes = target.create_target_machine(opt=3, reloc="pic", codemodel="default").emit_object(
        binding.parse_assembly(code, binding.create_context())
    )
    return made


class _Arm:
    """The few instructions with addresses, as the architecture's manual encodes them: registers
    hold offsets in the image after `run`, and `calls` those of functions.
    """

    def __init__(self, image: Image, function: str) -> None:
        self.registers: dict[int, int] = {}
        self.loads: list[int] = []
        self.calls: list[int] = []
        for place in range(image.functions[function], len(image.data) - 3, 4):
            (word,) = struct.unpack_from("<I", image.data, place)
            self._run(place, word)
            if word == 0xD65F03C0:  # ret
                break

    def _run(self, place: int, word: int) -> None:
        first, second = word & 31, word >> 5 & 31
        if word & 0x9F000000 == 0x90000000:  # adrp
            pages = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
            pages -= (pages >> 20) << 21
            self.registers[first] = (place >> 12) + pages << 12
        elif word & 0xFFC00000 == 0x91000000:  # add with a number
            self.registers[first] = self.registers.get(second, 0) + (word >> 10 & 0xFFF)
        elif word & 0xFFC00000 == 0xF9400000 and second in self.registers:  # ldr of 8 bytes
            self.loads.append(self.registers[second] + (word >> 10 & 0xFFF) * 8)
        elif word & 0xFC000000 == 0x94000000:  # bl
            distance = word & 0x3FFFFFF
            self.calls.append(place + (distance - (distance >> 25 << 26)) * 4)


def test_arm_images() -> None:
    image = image_of(_for_arm(TABLE), "aarch64")
    assert image is not None
    (place,) = set(_Arm(image, "entry").registers.values())
    assert struct.unpack_from("<4d", image.data, place) == (2, 3, 5, 7)
    image = image_of(_for_arm(SIZES), "aarch64")
    assert image is not None
    (place,) = _Arm(image, "second").loads
    assert struct.unpack_from("<q", image.data, place) == (13,)


def test_arm_images_call_and_name_what_is_elsewhere() -> None:
    image = image_of(_for_arm(CALL), "aarch64")
    assert image is not None
    run = _Arm(image, "twice")
    ((place, name),) = image.external
    assert name == "cos"
    assert set(run.calls) == {place - 8}  # a jump to the address behind it
    assert image.data[place - 8 : place] == bytes.fromhex("50000058 00021fd6")  # ldr x16; br x16
    image = image_of(_for_arm(POINTER), "aarch64")
    assert image is not None
    assert image.external == ((*_Arm(image, "cosine").loads, "cos"),)


def test_files_of_other_processors_are_left_alone() -> None:
    other = "x86_64" if platform.machine() == "aarch64" else "aarch64"
    assert image_of(compile_object(ADD), other) is None
    assert image_of(compile_object(ADD), "s390x") is None
