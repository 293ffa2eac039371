"""Emit: the kernel vocabulary of `graph/kernel.py` in LLVM instructions.

An `Element` is one element of an array in registers. Half types are floats in registers: the words
of one rule compute in float32, and `rounded` makes of its result what the dtype can hold. Bool is
an i1 in registers and a byte in memory; complex numbers are two floats.

No instruction here lets LLVM contract a product and a sum: an op gives the same bits whatever it is
fused with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ingot._native import Dtype
from ingot.compiler import complex_math, mathlib
from ingot.compiler.code import Code, Register, literal
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

__all__ = ["Element", "LLVMKernel"]


@dataclass(frozen=True)
class Element:
    """One element: its register, the imaginary part's for complex numbers, and the dtype it stands
    for.
    """

    register: Register
    dtype: Dtype
    imaginary: Register | None = None
    rounded: bool = False  # of half types: whether the float in the register is one of theirs
    # Of bfloat16: whether a NaN in the register has no bits in its low half, from which rounding
    # could carry into the exponent. Arithmetic hands the NaNs of its operands on.
    short_nan: bool = False

    @property
    def is_half(self) -> bool:
        """Whether it is of a half type."""
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


def _unsigned(dtype: Dtype) -> bool:
    return dtype is bool_ or is_unsigned_integer(dtype)


class LLVMKernel:
    """Writes expressions into `code`."""

    def __init__(self, code: Code) -> None:
        self.code = code

    # Memory

    def load(self, dtype: Dtype, address: Register, metadata: str = "") -> Element:
        """The element at an address."""
        element = self._loaded(dtype, address, metadata)
        self.code.notes.append(("load", element.register.name, address.name))
        return element

    def _loaded(self, dtype: Dtype, address: Register, metadata: str) -> Element:
        code = self.code
        if dtype is complex64:
            real = code.load("float", address, metadata)
            other = code.element("float", address, literal("i64", 1))
            return Element(real, dtype, code.load("float", other, metadata))
        if dtype is bool_:
            byte = code.load("i8", address, metadata)
            return Element(code.compare("icmp ne", byte, literal("i8", 0)), dtype)
        if dtype is float16:
            half = code.load("half", address, metadata)
            return Element(code.convert("fpext", half, "float"), dtype, rounded=True)
        if dtype is bfloat16:
            wide = code.convert("zext", code.load("i16", address, metadata), "i32")
            shifted = code.binary("shl", wide, literal("i32", 16))
            number = code.convert("bitcast", shifted, "float")
            return Element(number, dtype, rounded=True, short_nan=True)
        return Element(code.load(register_type(dtype), address, metadata), dtype)

    def store(self, x: Element, address: Register, metadata: str = "") -> None:
        """Puts an element at an address."""
        code = self.code
        register = x.register
        code.notes.append(("store", register.name, address.name))
        if x.imaginary is not None:
            code.store(register, address, metadata)
            code.store(x.imaginary, code.element("float", address, literal("i64", 1)), metadata)
            return
        if x.dtype is bool_:
            register = code.convert("zext", register, "i8")
        elif x.dtype is float16:
            register = code.convert("fptrunc", register, "half")
        elif x.dtype is bfloat16:
            bits = code.convert("bitcast", self.rounded(x).register, "i32")
            register = code.convert("trunc", code.binary("lshr", bits, literal("i32", 16)), "i16")
        code.store(register, address, metadata)

    # Half types

    def rounded(self, x: Element) -> Element:
        """An element as its dtype holds it: the result of an op of a half type is rounded."""
        if not x.is_half or x.rounded:
            return x
        if x.dtype is float16:
            return self._rounded_float16(x.register)
        return self._rounded_bfloat16(x.register, x.short_nan)

    def _rounded_float16(self, x: Register) -> Element:
        half = self.code.convert("fptrunc", x, "half")
        return Element(self.code.convert("fpext", half, "float"), float16, rounded=True)

    def _rounded_bfloat16(self, x: Register, short_nan: bool = False) -> Element:
        """A float rounded to nearest, ties to even; a NaN stays one."""
        code = self.code
        bits = code.convert("bitcast", x, "i32")
        up = code.binary("add", bits, literal("i32", 0x8000))
        if not short_nan:
            quiet = code.binary("or", bits, literal("i32", 0x400001))
            up = code.select(code.compare("fcmp uno", x, x), quiet, up)
        # Ties went up, too: where nothing is left below, the last bit is taken back.
        rest = code.binary("and", up, literal("i32", 0xFFFF))
        tie = code.compare("icmp eq", rest, literal("i32", 0))
        kept = code.select(tie, literal("i32", -0x20000), literal("i32", -0x10000))
        number = code.convert("bitcast", code.binary("and", up, kept), "float")
        return Element(number, bfloat16, rounded=True, short_nan=True)

    def _rounded_to_odd(self, x: Register) -> Register:
        """A double as a float whose last bit tells that something was lost: rounding it again
        rounds the double right.
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
            return self.not_equal(x, self.constant(0, x))
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
        """A real element in the register type of another dtype; for half types, a float that is
        still to be rounded.
        """
        code = self.code
        type = register_type(dtype)
        if is_inexact(x.dtype) and is_inexact(dtype):
            if x.register.type == "double" and dtype.size == 2:
                return self._rounded_to_odd(x.register)
            widens = type == "double"
            return code.convert("fpext" if widens else "fptrunc", x.register, type)
        if is_inexact(x.dtype):
            return self._integer(x.register, dtype)
        if is_inexact(dtype):
            operation = "uitofp" if _unsigned(x.dtype) else "sitofp"
            return code.convert(operation, x.register, type)
        old, new = x.dtype.size if x.dtype is not bool_ else 0, dtype.size
        if new < old:
            return code.convert("trunc", x.register, type)
        return code.convert("zext" if _unsigned(x.dtype) else "sext", x.register, type)

    def _integer(self, x: Register, dtype: Dtype) -> Register:
        """A float as an integer, by the rule of `graph/casts.py`."""
        code = self.code
        if dtype is not uint64:
            way = "i64" if dtype.size == 8 or dtype is uint32 else "i32"
            return code.convert("trunc", self._signed(x, way), register_type(dtype))
        middle = code.constant(2.0**63, x)
        high = code.compare("fcmp oge", x, middle)
        near = self._signed(code.select(high, code.binary("fsub", x, middle), x), "i64")
        return code.select(high, code.binary("xor", near, literal("i64", -(2**63))), near)

    def _signed(self, x: Register, way: str) -> Register:
        """A float rounded toward zero; the lowest integer for what is out of range, and for NaN."""
        code = self.code
        lowest = -(2.0 ** (int(way[1:]) - 1))
        above = code.compare("fcmp oge", x, code.constant(lowest, x))
        inside = code.binary("and", above, code.compare("fcmp olt", x, code.constant(-lowest, x)))
        safe = code.select(inside, x, code.constant(lowest, x))
        return code.convert("fptosi", safe, way)

    # Arithmetic

    def _arithmetic(
        self, floating: str, integer: str, logical: str, a: Element, b: Element
    ) -> Element:
        if a.dtype is bool_:
            return self._binary(logical, a, b)
        return self._binary(floating if is_inexact(a.dtype) else integer, a, b)

    def _binary(self, operation: str, a: Element, b: Element) -> Element:
        found = self.code.binary(operation, a.register, b.register)
        return Element(found, a.dtype, short_nan=a.short_nan and b.short_nan)

    def add(self, a: Element, b: Element) -> Element:
        if a.imaginary is not None:
            return complex_math.add(self.code, a, b)
        return self._arithmetic("fadd", "add", "or", a, b)

    def subtract(self, a: Element, b: Element) -> Element:
        if a.imaginary is not None:
            return complex_math.subtract(self.code, a, b)
        return self._arithmetic("fsub", "sub", "xor", a, b)

    def multiply(self, a: Element, b: Element) -> Element:
        if a.imaginary is not None:
            return complex_math.multiply(self.code, a, b)
        return self._arithmetic("fmul", "mul", "and", a, b)

    def divide(self, a: Element, b: Element) -> Element:
        if a.imaginary is not None:
            return complex_math.divide(self.code, a, b)
        return self._binary("fdiv", a, b)

    def fused_multiply_add(self, a: Element, b: Element, c: Element) -> Element:
        found = self.code.intrinsic("fma", a.register, b.register, c.register)
        return Element(found, a.dtype)

    def _safe_divisor(self, a: Element, b: Element) -> tuple[Register, Register]:
        """Whether dividing would trap (b is 0, or the lowest one / -1), and a divisor that does
        not.
        """
        code = self.code
        zero, one = code.constant(0, b.register), code.constant(1, b.register)
        bad = code.compare("icmp eq", b.register, zero)
        if not _unsigned(a.dtype):
            bad = code.binary(
                "or", bad, code.compare("icmp eq", b.register, code.constant(-1, b.register))
            )
        return bad, code.select(bad, one, b.register)

    def floor_divide(self, a: Element, b: Element) -> Element:
        code = self.code
        _, divisor = self._safe_divisor(a, b)
        zero = code.constant(0, b.register)
        if _unsigned(a.dtype):
            quotient = code.binary("udiv", a.register, divisor)
        else:
            quotient = code.binary("sdiv", a.register, divisor)
            rest = code.binary("sub", a.register, code.binary("mul", quotient, divisor))
            signs = code.compare("icmp slt", code.binary("xor", rest, divisor), zero)
            uneven = code.binary("and", code.compare("icmp ne", rest, zero), signs)
            down = code.binary("sub", quotient, code.constant(1, quotient))
            quotient = code.select(uneven, down, quotient)
            minus_one = code.compare("icmp eq", b.register, code.constant(-1, b.register))
            quotient = code.select(minus_one, code.binary("sub", zero, a.register), quotient)
        by_zero = code.compare("icmp eq", b.register, zero)
        return Element(code.select(by_zero, zero, quotient), a.dtype)

    def remainder(self, a: Element, b: Element) -> Element:
        code = self.code
        if is_inexact(a.dtype):
            return Element(mathlib.remainder(code, a.register, b.register), a.dtype)
        bad, divisor = self._safe_divisor(a, b)
        zero = code.constant(0, b.register)
        if _unsigned(a.dtype):
            rest = code.binary("urem", a.register, divisor)
        else:
            rest = code.binary("srem", a.register, divisor)
            signs = code.compare("icmp slt", code.binary("xor", rest, divisor), zero)
            uneven = code.binary("and", code.compare("icmp ne", rest, zero), signs)
            rest = code.select(uneven, code.binary("add", rest, divisor), rest)
        return Element(code.select(bad, zero, rest), a.dtype)

    def power(self, a: Element, b: Element) -> Element:
        if a.imaginary is not None:
            return complex_math.power(self.code, a, b)
        if is_inexact(a.dtype):
            return Element(mathlib.power(self.code, a.register, b.register), a.dtype)
        return Element(
            mathlib.integer_power(self.code, a.register, b.register, _unsigned(a.dtype)), a.dtype
        )

    def negative(self, x: Element) -> Element:
        code = self.code
        if x.imaginary is not None:
            return Element(code.fneg(x.register), x.dtype, code.fneg(x.imaginary))
        if is_inexact(x.dtype):
            return replace(x, register=code.fneg(x.register))
        return Element(code.binary("sub", code.constant(0, x.register), x.register), x.dtype)

    def absolute(self, x: Element) -> Element:
        code = self.code
        if x.imaginary is not None:
            return Element(complex_math.modulus(code, x), float32)
        if is_inexact(x.dtype):
            return replace(x, register=code.intrinsic("fabs", x.register))
        if _unsigned(x.dtype):
            return x
        negative = code.compare("icmp slt", x.register, code.constant(0, x.register))
        return Element(code.select(negative, self.negative(x).register, x.register), x.dtype)

    def _extreme(
        self, floating: str, integer: str, logical: str, a: Element, b: Element
    ) -> Element:
        code = self.code
        if a.imaginary is not None:
            return complex_math.extreme(self, floating == "maximum", a, b)
        if a.dtype is bool_:
            return self._binary(logical, a, b)
        if is_inexact(a.dtype):
            return self._either(code.intrinsic(floating, a.register, b.register), a, b)
        name = ("u" if _unsigned(a.dtype) else "s") + integer
        return Element(code.intrinsic(name, a.register, b.register), a.dtype)

    def _either(self, register: Register, a: Element, b: Element) -> Element:
        """A register that holds one of two real elements."""
        return Element(
            register,
            a.dtype,
            rounded=a.rounded and b.rounded,
            short_nan=a.short_nan and b.short_nan,
        )

    def maximum(self, a: Element, b: Element) -> Element:
        return self._extreme("maximum", "max", "or", a, b)

    def minimum(self, a: Element, b: Element) -> Element:
        return self._extreme("minimum", "min", "and", a, b)

    # Comparisons

    def _compare(self, floating: str, integer: str, a: Element, b: Element) -> Element:
        if a.imaginary is not None:
            return complex_math.compare(self.code, floating, a, b)
        if is_inexact(a.dtype):
            operation = f"fcmp {floating}"
        elif integer in ("eq", "ne"):
            operation = f"icmp {integer}"
        else:
            operation = f"icmp {'u' if _unsigned(a.dtype) else 's'}{integer}"
        return Element(self.code.compare(operation, a.register, b.register), bool_)

    def equal(self, a: Element, b: Element) -> Element:
        return self._compare("oeq", "eq", a, b)

    def not_equal(self, a: Element, b: Element) -> Element:
        return self._compare("une", "ne", a, b)

    def less(self, a: Element, b: Element) -> Element:
        return self._compare("olt", "lt", a, b)

    def less_equal(self, a: Element, b: Element) -> Element:
        return self._compare("ole", "le", a, b)

    def greater(self, a: Element, b: Element) -> Element:
        return self._compare("ogt", "gt", a, b)

    def greater_equal(self, a: Element, b: Element) -> Element:
        return self._compare("oge", "ge", a, b)

    def select(self, condition: Element, a: Element, b: Element) -> Element:
        chosen = self.code.select(condition.register, a.register, b.register)
        if a.imaginary is None or b.imaginary is None:
            return self._either(chosen, a, b)
        return Element(
            chosen, a.dtype, self.code.select(condition.register, a.imaginary, b.imaginary)
        )

    # Bits

    def bits(self, x: Element) -> Element:
        return Element(self.code.convert("bitcast", x.register, "i32"), uint32)

    def bitwise_and(self, a: Element, b: Element) -> Element:
        return self._binary("and", a, b)

    def bitwise_or(self, a: Element, b: Element) -> Element:
        return self._binary("or", a, b)

    def bitwise_xor(self, a: Element, b: Element) -> Element:
        return self._binary("xor", a, b)

    def bitwise_invert(self, x: Element) -> Element:
        ones = Register("true", "i1") if x.dtype is bool_ else self.code.constant(-1, x.register)
        return Element(self.code.binary("xor", x.register, ones), x.dtype)

    def _shift_amount(self, a: Element, b: Element) -> tuple[Register, Register]:
        """Whether b is a number of bits that a has (as unsigned, a negative one is too large), and
        b, or 0 if not.
        """
        code = self.code
        width = code.constant(8 * a.dtype.size, b.register)
        inside = code.compare("icmp ult", b.register, width)
        return inside, code.select(inside, b.register, code.constant(0, b.register))

    def left_shift(self, a: Element, b: Element) -> Element:
        inside, amount = self._shift_amount(a, b)
        shifted = self.code.binary("shl", a.register, amount)
        return Element(self.code.select(inside, shifted, self.code.constant(0, shifted)), a.dtype)

    def right_shift(self, a: Element, b: Element) -> Element:
        code = self.code
        inside, amount = self._shift_amount(a, b)
        if _unsigned(a.dtype):
            shifted = code.binary("lshr", a.register, amount)
            return Element(code.select(inside, shifted, code.constant(0, shifted)), a.dtype)
        most = code.constant(8 * a.dtype.size - 1, a.register)
        return Element(code.binary("ashr", a.register, code.select(inside, amount, most)), a.dtype)

    def rotate_left(self, x: Element, count: int) -> Element:
        amount = self.code.constant(count, x.register)
        return Element(self.code.intrinsic("fshl", x.register, x.register, amount), x.dtype)

    # Rounding

    def _whole(self, intrinsic: str, x: Element) -> Element:
        # Whole numbers below a number of a half type are numbers of that type.
        x = self.rounded(x)
        return replace(x, register=self.code.intrinsic(intrinsic, x.register))

    def floor(self, x: Element) -> Element:
        return self._whole("floor", x)

    def ceil(self, x: Element) -> Element:
        return self._whole("ceil", x)

    def round(self, x: Element) -> Element:
        return self._whole("roundeven", x)

    def sqrt(self, x: Element) -> Element:
        if x.imaginary is not None:
            return complex_math.sqrt(self.code, x)
        found = self.code.intrinsic("sqrt", x.register)
        return Element(found, x.dtype, short_nan=x.short_nan)

    def c_log(self, x: Element) -> Element:
        return Element(mathlib.c_log(self.code, x.register), x.dtype)

    def arctan2(self, a: Element, b: Element) -> Element:
        return Element(mathlib.arctan2(self.code, a.register, b.register), a.dtype)

    # Parts of complex values

    def real(self, x: Element) -> Element:
        return Element(x.register, float32)

    def imag(self, x: Element) -> Element:
        return Element(x.imaginary or literal("float", 0.0), float32)

    def conjugate(self, x: Element) -> Element:
        return Element(x.register, x.dtype, self.code.fneg(x.imaginary or literal("float", 0.0)))

    def complex(self, real: Element, imag: Element) -> Element:
        return Element(real.register, complex64, imag.register)


def _function_word(name: str) -> Any:
    def word(self: LLVMKernel, x: Element) -> Element:
        if x.imaginary is not None:
            found: Element = getattr(complex_math, name)(self.code, x)
            return found
        register: Register = getattr(mathlib, name)(self.code, x.register)
        return Element(register, x.dtype, short_nan=x.short_nan)

    word.__name__ = name
    return word


# Functions of one value that the two libraries have under the same name.
for _name in (
    "exp expm1 log log2 log10 log1p rsqrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh "
    "arccosh arctanh erf erfinv"
).split():
    setattr(LLVMKernel, _name, _function_word(_name))
