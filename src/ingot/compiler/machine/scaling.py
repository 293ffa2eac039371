"""Products with powers of two, for versions of LLVM that have no instruction for them.

Kernels call the intrinsic `ldexp` where the processor scales in one instruction. LLVM knows it from
version 22 on; before, it would call a library for each element. The text of a kernel does not
depend on the version, which is known when LLVM is loaded.
"""

from __future__ import annotations

import re

from ingot.compiler.llvm.code import Code, Register, like_lanes
from ingot.compiler.llvm.mathlib.exponential import scaled_in_two_steps
from ingot.compiler.llvm.mathlib.number import Bits, Number

__all__ = ["with_scaling"]

FIRST_VERSION = 22
_DECLARED = re.compile(r"^declare (.+) @llvm\.ldexp\.(\S+)\((.+), (.+)\)$", re.MULTILINE)


def with_scaling(text: str, version: int) -> str:
    """The text of a module for a version of LLVM."""
    if version >= FIRST_VERSION or "@llvm.ldexp." not in text:
        return text
    return _DECLARED.sub(_definition, text).replace("@llvm.ldexp.", "@ingot.ldexp.")


def _definition(declared: re.Match[str]) -> str:
    type, suffixes, _, exponent_type = declared.groups()
    code = Code()
    x = Number(code, Register("%x", type))
    exponent = Register("%exponent", exponent_type)
    if x.is_double:
        exponent = code.convert("sext", exponent, like_lanes("i64", exponent_type))
    found = scaled_in_two_steps(x, Bits(code, exponent))
    return "\n".join(
        [
            f"define internal {type} @ingot.ldexp.{suffixes}({type} %x, {exponent_type} %exponent)"
            " alwaysinline {",
            *code.lines,
            f"  ret {found.register}",
            "}",
        ]
    )
