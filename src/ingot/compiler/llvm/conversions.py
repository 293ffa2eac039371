"""Conversions: elements between memory and registers, and from one dtype to another, in LLVM.

An `Element` is one array element in registers. Half types are floats in registers: the words of one
rule compute in float32, and `rounded` rounds the result to the dtype. Bool is an i1 in registers
and a byte in memory; complex numbers are two floats.
"""

from __future__ import annotations

from typing import Any

from ingot._native import Dtype
from ingot.compiler.llvm.code import Code, Register, literal
from ingot.graph.dtype import (
    bfloat16,
    bool_,
    complex64,
    float16,
    float32,
    float64,
    is_inexact,
    is_unsigned_integer,
    uint32,
    uint64,
)
from ingot.graph.lazy_dataclass import dataclass

__all__ = ["Conversions", "Element", "is_unsigned", "memory_type", "register_type"]


@dataclass(frozen=True)
class Element:
    """One array element: its register, that of the imaginary part if it is complex, and its
    dtype.
    """

    register: Register
    dtype: Dtype
    imaginary: Register | None = None
    rounded: bool = False  # for half types: whether the float is representable in the dtype
    # For bfloat16: whether the low half of a NaN is zero, so that rounding cannot carry into the
    # exponent. Arithmetic propagates the NaNs of its operands.
    short_nan: bool = False
    scalar: Register | None = None  # what all lanes repeat

    @property
    def is_half(self) -> bool:
        """Whether the dtype is a half type."""
        return self.dtype is float16 or self.dtype is bfloat16


def register_type(dtype: Dtype) -> str:
    """The LLVM type in which elements of a dtype are computed."""
    if dtype is bool_:
        return "i1"
    if dtype is float64:
        return "double"
    if is_inexact(dtype):
        return "float"
    return f"i{8 * dtype.size}"


def memory_type(dtype: Dtype) -> str:
    """The LLVM type in which memory holds elements of a real dtype."""
    if dtype is bool_:
        return "i8"
    if dtype is float16:
        return "half"
    return "i16" if dtype is bfloat16 else register_type(dtype)


def is_unsigned(dtype: Dtype) -> bool:
    return dtype is bool_ or is_unsigned_integer(dtype)


class Conversions:
    """The part of the kernel vocabulary that concerns memory, constants and dtypes."""

    def __init__(self, code: Code) -> None:
        self.code = code

    def not_equal(self, a: Element, b: Element) -> Element:
        """Whether two elements differ."""
        raise NotImplementedError

    def load(self, dtype: Dtype, address: Register, metadata: str = "") -> Element:
        """The element at an address."""
        code = self.code
        if dtype is complex64:
            real = code.load("float", address, metadata)
            other = code.element("float", address, literal("i64", 1))
            return Element(real, dtype, code.load("float", other, metadata))
        return self.from_memory(code.load(memory_type(dtype), address, metadata), dtype)

    def _from_bfloat16(self, bits: Register) -> Element:
        code = self.code
        wide = code.convert("zext", bits, "i32")
        number = code.convert("bitcast", code.binary("shl", wide, code.constant(16, wide)), "float")
        return Element(number, bfloat16, rounded=True, short_nan=True)

    def in_memory(self, x: Element) -> Register:
        """A real element in its memory representation."""
        code, register = self.code, x.register
        if x.dtype is bool_:
            return code.convert("zext", register, "i8")
        if x.dtype is float16:
            return code.convert("fptrunc", register, "half")
        if x.dtype is bfloat16:
            bits = code.convert("bitcast", self.rounded(x).register, "i32")
            return code.convert("trunc", code.binary("lshr", bits, code.constant(16, bits)), "i16")
        return register

    def from_memory(self, register: Register, dtype: Dtype) -> Element:
        """A real element from its memory representation."""
        code = self.code
        if dtype is bool_:
            return Element(code.compare("icmp ne", register, code.constant(0, register)), dtype)
        if dtype is float16:
            return Element(code.convert("fpext", register, "float"), dtype, rounded=True)
        if dtype is bfloat16:
            return self._from_bfloat16(register)
        return Element(register, dtype)

    def store(self, x: Element, address: Register, metadata: str = "") -> None:
        """Stores an element at an address."""
        code = self.code
        if x.imaginary is not None:
            code.store(x.register, address, metadata)
            code.store(x.imaginary, code.element("float", address, literal("i64", 1)), metadata)
            return
        code.store(self.in_memory(x), address, metadata)

    # Half types

    def rounded(self, x: Element) -> Element:
        """An element rounded to its dtype, as the result of every op of a half type is."""
        if not x.is_half or x.rounded:
            return x
        if x.dtype is float16:
            return self._rounded_float16(x.register)
        return self._rounded_bfloat16(x.register, x.short_nan)

    def taken_for(self, x: Element, dtype: Dtype) -> Element:
        """A half-precision value as the float32 it is in registers, or the reverse."""
        return Element(x.register, dtype)

    def represented(self, x: Element, dtype: Dtype) -> Element:
        """A float32 that a half type represents exactly, as that type."""
        return Element(x.register, dtype, rounded=True, short_nan=True)

    def _rounded_float16(self, x: Register) -> Element:
        half = self.code.convert("fptrunc", x, "half")
        return Element(self.code.convert("fpext", half, "float"), float16, rounded=True)

    def _rounded_bfloat16(self, x: Register, short_nan: bool = False) -> Element:
        """A float rounded to nearest, ties to even; NaN stays NaN."""
        code = self.code
        bits = code.convert("bitcast", x, "i32")
        up = code.binary("add", bits, code.constant(0x8000, bits))
        if not short_nan:
            quiet = code.binary("or", bits, code.constant(0x400001, bits))
            up = code.select(code.compare("fcmp uno", x, x), quiet, up)
        # Ties were rounded up as well: if the discarded bits are zero now, clear the last bit.
        rest = code.binary("and", up, code.constant(0xFFFF, bits))
        tie = code.compare("icmp eq", rest, code.constant(0, rest))
        kept = code.select(tie, code.constant(-0x20000, bits), code.constant(-0x10000, bits))
        number = code.convert("bitcast", code.binary("and", up, kept), "float")
        return Element(number, bfloat16, rounded=True, short_nan=True)

    def _rounded_to_odd(self, x: Register) -> Register:
        """A double rounded to odd as a float: rounding that again gives the correctly rounded
        double.
        """
        code = self.code
        single = code.convert("fptrunc", x, "float")
        back = code.convert("fpext", single, "double")
        bits = code.convert("bitcast", single, "i32")
        beyond = code.compare("fcmp ogt", code.intrinsic("fabs", back), code.intrinsic("fabs", x))
        toward_zero = code.select(beyond, code.binary("sub", bits, literal("i32", 1)), bits)
        inexact = code.compare("fcmp one", back, x)
        odd = code.select(inexact, code.binary("or", toward_zero, literal("i32", 1)), bits)
        return code.convert("bitcast", odd, "float")

    # Constants and types

    def constant(self, value: complex | bool, like: Element) -> Element:
        return self.constant_of(value, like.dtype)

    def constant_of(self, value: Any, dtype: Dtype) -> Element:
        """A constant of a dtype."""
        type = register_type(dtype)
        if dtype is complex64:
            number = complex(value)
            return Element(literal(type, number.real), dtype, literal(type, number.imag))
        if dtype is bool_:
            return Element(Register("true" if value else "false", "i1"), dtype)
        if dtype is float16 or dtype is bfloat16:
            number = float(value.real)
            held = number != number or float(dtype.numpy.type(number)) == number
            return Element(literal(type, number), dtype, rounded=held, short_nan=True)
        return Element(literal(type, value), dtype)

    def dtype(self, x: Element) -> Dtype:
        return x.dtype

    def cast(self, x: Element, dtype: Dtype) -> Element:
        if x.dtype is dtype:
            return x
        x = self.rounded(x)
        if dtype is bool_:
            zero = self.code.constant(0, x.register)
            imaginary = None if x.imaginary is None else zero
            return self.not_equal(x, Element(zero, x.dtype, imaginary, rounded=True))
        if dtype is complex64:
            real = self.cast(x, float32).register
            return Element(real, dtype, literal("float", 0.0))
        source = Element(x.register, float32) if x.imaginary is not None else x
        converted = self._converted(source, dtype)
        if dtype is float16:
            return self._rounded_float16(converted)
        if dtype is bfloat16:
            return self._rounded_bfloat16(converted)
        return Element(converted, dtype)

    def _converted(self, x: Element, dtype: Dtype) -> Register:
        """A real element in the register type of another dtype; for half types, a float that is not
        rounded yet.
        """
        code = self.code
        type = register_type(dtype)
        if is_inexact(x.dtype) and is_inexact(dtype):
            if x.register.type == "double" and dtype.size == 2:
                return self._rounded_to_odd(x.register)
            is_upcast = type == "double"
            return code.convert("fpext" if is_upcast else "fptrunc", x.register, type)
        if is_inexact(x.dtype):
            return self._integer(x.register, dtype)
        if is_inexact(dtype):
            operation = "uitofp" if is_unsigned(x.dtype) else "sitofp"
            return code.convert(operation, x.register, type)
        old, new = x.dtype.size if x.dtype is not bool_ else 0, dtype.size
        if new < old:
            return code.convert("trunc", x.register, type)
        return code.convert("zext" if is_unsigned(x.dtype) else "sext", x.register, type)

    def _integer(self, x: Register, dtype: Dtype) -> Register:
        """A float as an integer, by the rule of `graph/numerics/casts.py`."""
        code = self.code
        if dtype is not uint64:
            way = "i64" if dtype.size == 8 or dtype is uint32 else "i32"
            return code.convert("trunc", self._signed(x, way), register_type(dtype))
        middle = code.constant(2.0**63, x)
        high = code.compare("fcmp oge", x, middle)
        near = self._signed(code.select(high, code.binary("fsub", x, middle), x), "i64")
        return code.select(high, code.binary("xor", near, literal("i64", -(2**63))), near)

    def _signed(self, x: Register, way: str) -> Register:
        """A float truncated to an integer; the lowest integer if it is out of range or NaN."""
        code = self.code
        lowest = -(2.0 ** (int(way[1:]) - 1))
        above = code.compare("fcmp oge", x, code.constant(lowest, x))
        inside = code.binary("and", above, code.compare("fcmp olt", x, code.constant(-lowest, x)))
        safe = code.select(inside, x, code.constant(lowest, x))
        return code.convert("fptosi", safe, way)
