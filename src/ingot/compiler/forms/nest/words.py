"""The words that a nest applies: the kernel vocabulary, and what builders of nests say besides.

Each word takes so many operands of equal dtypes and gives a result whose dtype follows from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingot._native import Dtype
from ingot.compiler.forms.nest.data import Apply, Value
from ingot.graph import kernel
from ingot.graph.dtype import bfloat16, bool_, complex64, float16, float32, int32, uint32

__all__ = [
    "ALIKE",
    "DOTS",
    "DTYPES",
    "OWN",
    "WORDS",
    "arity",
    "instructions",
    "operand_dtypes",
    "result_dtype",
]

DTYPES = {
    **dict.fromkeys("equal not_equal less less_equal greater greater_equal".split(), bool_),
    "bits": uint32,
    "real": float32,
    "imag": float32,
    "complex": complex64,
}
_OTHERS = ("absolute", "select", "cast", "rotate_left")  # results and parameters of their own
# The words whose result has the dtype of their first operand: all that are not said to differ.
ALIKE = tuple(word for word in kernel.WORDS if word not in (*DTYPES, *_OTHERS, "constant", "dtype"))
# Products of packed numbers, lane by lane added to the first operand: `dot_bfloat16` of two
# bfloat16 in each word, `dot_bytes` of four bytes, unsigned in the second operand and signed in the
# third. The words' own operands are uint32.
DOTS = {"dot_bfloat16": float32, "dot_bytes": int32}
# `from_bits`: the float32 whose bits a uint32 has. `lookup`: the one of sixteen float32, its
# parameter, that the lowest four bits of a uint32 say.
OWN = {**DOTS, "from_bits": float32}
WORDS = (*ALIKE, *DTYPES, *_OTHERS, *OWN, "lookup", "rounded", "taken_for")
# How many operands words have: what the vocabulary declares, but for what is no element.
_ARITIES = {word: getattr(kernel.Kernel, word).__code__.co_argcount - 1 for word in kernel.WORDS}
_ARITIES |= {"cast": 1, "rotate_left": 1, "rounded": 1, "taken_for": 1, **dict.fromkeys(DOTS, 3)}
_ARITIES |= {"from_bits": 1, "lookup": 1}


# Words that are an instruction or a few. All others are functions of dozens.
_SHORT = frozenset(
    "absolute add bits bitwise_and bitwise_invert bitwise_or bitwise_xor cast ceil complex "
    "conjugate divide equal floor from_bits fused_multiply_add greater greater_equal imag largest "
    "left_shift less less_equal lookup maximum minimum multiply negative not_equal real "
    "right_shift rotate_left round rounded rsqrt select smallest sqrt subtract taken_for".split()
)
_LONG = 30  # instructions of a function, as an exponential has
_HALF_CONVERSION = 10  # instructions of rounding to a half type
_COMPLEX = 4  # instructions for one of real numbers


def instructions(value: Apply) -> int:
    """About how many instructions a word becomes."""
    if value.word not in _SHORT:
        return _LONG
    if value.word in ("cast", "rounded") and value.operands[0].dtype in (float16, bfloat16):
        return _HALF_CONVERSION
    is_complex = complex64 in (value.dtype, value.operands[0].dtype)
    return _COMPLEX if is_complex else 1


def result_dtype(word: str, operands: Sequence[Value], parameter: Any = None) -> Dtype:
    """The dtype of what a word gives."""
    if word in ("cast", "taken_for"):
        dtype: Dtype = parameter
        return dtype
    if word == "select":
        return operands[1].dtype
    if word == "lookup":
        return float32
    if word == "absolute":
        return float32 if operands[0].dtype is complex64 else operands[0].dtype
    return DTYPES.get(word) or OWN.get(word) or operands[0].dtype


def arity(word: str) -> int:
    """How many operands a word takes."""
    return _ARITIES[word]


def operand_dtypes(word: str, operands: Sequence[Value]) -> list[Dtype]:
    """The dtypes that the operands of a word must have, given those that may differ."""
    if word == "select":
        return [bool_, operands[1].dtype, operands[1].dtype]
    if word in DOTS:
        return [DOTS[word], uint32, uint32]
    if word in ("from_bits", "lookup"):
        return [uint32]
    return [operands[0].dtype] * len(operands)
