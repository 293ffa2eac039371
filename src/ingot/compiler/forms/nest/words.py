"""The words of nests: the kernel vocabulary, and some that only builders of nests use.

Each word has a fixed number of operands, usually of equal dtypes, which determine the dtype of its
result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ingot._native import Dtype
from ingot.compiler.forms.nest.data import Apply, Value
from ingot.graph import kernel
from ingot.graph.dtype import (
    bfloat16,
    bool_,
    complex64,
    float16,
    float32,
    float64,
    int32,
    uint16,
    uint32,
    uint64,
)

__all__ = [
    "ALIKE",
    "CASTS",
    "DOTS",
    "DTYPES",
    "OWN",
    "RANKS",
    "WORDS",
    "arity",
    "instructions",
    "is_function",
    "operand_dtypes",
    "rank_offset",
    "result_dtype",
]

DTYPES = {
    **dict.fromkeys("equal not_equal less less_equal greater greater_equal".split(), bool_),
    "bits": uint32,
    "real": float32,
    "imag": float32,
    "complex": complex64,
}
_OTHERS = ("absolute", "select", "cast", "rotate_left")  # differ in dtypes or parameters
# Words whose result has the dtype of their first operand.
ALIKE = tuple(word for word in kernel.WORDS if word not in (*DTYPES, *_OTHERS, "constant", "dtype"))
# Dot products of packed numbers, added lane by lane to the first operand: `dot_bfloat16` of two
# bfloat16 per uint32, `dot_bytes` of four bytes per uint32, which are unsigned in the second
# operand and signed in the third. `dot_pairs` adds those of two bytes to each half of a uint32;
# neither they nor the sums may exceed an int16. `add_pairs` adds both halves to an int32.
DOTS = {"dot_bfloat16": float32, "dot_bytes": int32, "dot_pairs": uint32}
# `from_bits` reinterprets a uint32 as a float32. `lookup` indexes a table of sixteen float32, its
# parameter, with the lowest four bits of a uint32.
OWN = {**DOTS, "add_pairs": int32, "from_bits": float32}
# `rank` maps floating-point numbers to unsigned integers in the same order, with -0 below +0. NaNs
# of both signs are above all numbers if its parameter is "largest", and below if "smallest", so
# that the largest or smallest rank is that of a NaN if there is one. `from_rank` is its inverse,
# with the dtype as one more parameter.
RANKS = {float16: uint16, bfloat16: uint16, float32: uint32, float64: uint64}
_MANTISSA = {float16: 10, bfloat16: 7, float32: 23, float64: 52}  # bits
# `taken_for` and `represented` only change the dtype of what is a float32 in registers.
CASTS = ("cast", "taken_for", "represented")
WORDS = (*ALIKE, *DTYPES, *_OTHERS, *OWN, *CASTS[1:], "lookup", "rank", "from_rank", "rounded")
# Numbers of operands: those of the vocabulary's methods, less parameters that are not values.
_ARITIES = {word: getattr(kernel.Kernel, word).__code__.co_argcount - 1 for word in kernel.WORDS}
_ARITIES |= {**dict.fromkeys(CASTS, 1), "rotate_left": 1, "rounded": 1, **dict.fromkeys(DOTS, 3)}
_ARITIES |= {"add_pairs": 2, "from_bits": 1, "lookup": 1, "rank": 1, "from_rank": 1}


# Words that become one or a few instructions. Others are functions of dozens of instructions.
_SHORT = frozenset(
    "absolute add bits bitwise_and bitwise_invert bitwise_or bitwise_xor cast ceil complex "
    "conjugate divide equal floor from_bits from_rank fused_multiply_add greater greater_equal "
    "imag largest left_shift less less_equal lookup maximum minimum multiply negative not_equal "
    "rank real represented right_shift rotate_left round rounded rsqrt select smallest sqrt "
    "subtract taken_for".split()
)
_LONG = 30  # instructions of such a function; an exponential has about as many
_HALF_CONVERSION = 10  # instructions that round to half precision
_COMPLEX = 4  # instructions per instruction on real numbers


def is_function(value: Apply) -> bool:
    """Whether a word is a function of many instructions."""
    return value.word not in _SHORT


def instructions(value: Apply) -> int:
    """An estimate of the number of instructions of a word."""
    if is_function(value):
        return _LONG
    if value.word in ("cast", "rounded") and value.operands[0].dtype in (float16, bfloat16):
        return _HALF_CONVERSION
    is_complex = complex64 in (value.dtype, value.operands[0].dtype)
    return _COMPLEX if is_complex else 1


def result_dtype(word: str, operands: Sequence[Value], parameter: Any = None) -> Dtype:
    """The dtype of a word's result."""
    if word in CASTS:
        dtype: Dtype = parameter
        return dtype
    if word == "select":
        return operands[1].dtype
    if word == "lookup":
        return float32
    if word == "rank":
        return RANKS[operands[0].dtype]
    if word == "from_rank":
        return cast(Dtype, parameter[0])
    if word == "absolute":
        return float32 if operands[0].dtype is complex64 else operands[0].dtype
    return DTYPES.get(word) or OWN.get(word) or operands[0].dtype


def rank_offset(dtype: Dtype, order: str) -> int:
    """What makes a rank of the bits of a number in ascending order, from the NaNs with a sign up to
    those without: adding it moves the NaNs of one end past the other, because integers wrap.
    """
    nans = (1 << _MANTISSA[dtype]) - 1  # of each sign
    return nans if order == "smallest" else (1 << 8 * dtype.size) - nans


def arity(word: str) -> int:
    """The number of operands of a word."""
    return _ARITIES[word]


def operand_dtypes(word: str, operands: Sequence[Value]) -> list[Dtype]:
    """The dtypes that the operands of a word must have."""
    if word == "select":
        return [bool_, operands[1].dtype, operands[1].dtype]
    if word in DOTS:
        return [DOTS[word], uint32, uint32]
    if word == "add_pairs":
        return [int32, uint32]
    if word in ("from_bits", "lookup"):
        return [uint32]
    return [operands[0].dtype] * len(operands)
