"""Emit: the kernel vocabulary of `graph/kernel.py` in LLVM instructions.

No instruction here allows LLVM to contract a product and a sum: an op gives the same bits whatever
it is fused with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ingot._native import Dtype
from ingot.compiler.forms.nest.words import RANKS, rank_offset
from ingot.compiler.llvm import mathlib
from ingot.compiler.llvm.code import Register, lane_count, lane_type, literal, literal_value
from ingot.compiler.llvm.conversions import (
    Conversions,
    Element,
    is_unsigned,
    memory_type,
    register_type,
)
from ingot.compiler.llvm.extremes import extreme
from ingot.graph.deferred import Deferred
from ingot.graph.dtype import bool_, complex64, float16, float32, int32, is_inexact, uint32
from ingot.graph.kernel import WORDS
from ingot.graph.numerics.division import exact_reciprocal

if TYPE_CHECKING:
    from ingot.compiler.llvm import complex_math, dots
    from ingot.compiler.llvm import lookup as tables
    from ingot.compiler.llvm.mathlib import c_logarithm, powers
else:
    c_logarithm = Deferred("ingot.compiler.llvm.mathlib.c_logarithm")
    complex_math = Deferred("ingot.compiler.llvm.complex_math")
    dots = Deferred("ingot.compiler.llvm.dots")
    powers = Deferred("ingot.compiler.llvm.mathlib.powers")
    tables = Deferred("ingot.compiler.llvm.lookup")

__all__ = ["Element", "LLVMKernel", "register_type"]


class LLVMKernel(Conversions):
    """Writes expressions into `code`."""

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
        are_halves = a.is_half and a.rounded and b.rounded
        divisor = literal_value(b.register) if are_halves else None
        reciprocal = None if divisor is None else exact_reciprocal(a.dtype, divisor)
        if reciprocal is not None:
            return self._binary(
                "fmul", a, replace(b, register=literal(b.register.type, reciprocal))
            )
        if are_halves and a.dtype is float16:
            if b.scalar is not None:
                return Element(self._quotient(a.register, b.scalar), float16)
            if self.code.is_invariant(b.register):
                return Element(self._quotient(a.register, b.register), float16)
        return self._binary("fdiv", a, b)

    def _quotient(self, a: Register, b: Register) -> Register:
        """The quotient of two float16, as float32, by one that a loop divides all its elements by,
        or a bundle all its lanes: the product with its reciprocal as the sum of two float32, which
        are computed once. Both have the sign of the divisor, and neither is zero unless the divisor
        is infinite, so that zeros and infinities keep their signs. A quotient that is a midpoint of
        two float16 has few bits and comes out exactly; others are further from all midpoints than
        the error.
        """
        code = self.code
        one = code.constant(1.0, b)
        nearest = code.binary("fdiv", one, b)
        rest = code.intrinsic("fma", code.fneg(nearest), b, one)
        bits = code.convert("bitcast", nearest, "i32")
        below = code.convert("bitcast", code.binary("sub", bits, code.constant(1, bits)), "float")
        zero = code.constant(0.0, b)
        high = code.select(code.compare("fcmp olt", rest, zero), below, nearest)  # toward zero
        rest = code.intrinsic("fma", code.fneg(high), b, one)
        has_rest = code.compare("fcmp ogt", rest, zero)
        factor = code.select(has_rest, rest, code.constant(2.0**-40, b))
        low = code.binary("fmul", factor, high)
        if a.type != b.type:
            high, low = (code.broadcast(each, lane_count(a.type)) for each in (high, low))
        return code.intrinsic("fma", a, high, code.binary("fmul", a, low))

    def fused_multiply_add(self, a: Element, b: Element, c: Element) -> Element:
        found = self.code.intrinsic("fma", a.register, b.register, c.register)
        return Element(found, a.dtype)

    # Products of packed numbers (`forms/nest/words.py`)

    def dot_bfloat16(self, total: Element, a: Element, b: Element) -> Element:
        return Element(dots.bfloat16(self.code, total.register, a.register, b.register), float32)

    def dot_bytes(self, total: Element, a: Element, b: Element) -> Element:
        return Element(dots.bytes(self.code, total.register, a.register, b.register), int32)

    def dot_pairs(self, total: Element, a: Element, b: Element) -> Element:
        return Element(dots.pairs(self.code, total.register, a.register, b.register), uint32)

    def add_pairs(self, total: Element, pairs: Element) -> Element:
        return Element(dots.add_pairs(self.code, total.register, pairs.register), int32)

    def _safe_divisor(self, a: Element, b: Element) -> Register:
        """b, or 1 where dividing by b could trap: b is 0, or -1 and a the lowest integer."""
        code = self.code
        zero, one = code.constant(0, b.register), code.constant(1, b.register)
        bad = code.compare("icmp eq", b.register, zero)
        if not is_unsigned(a.dtype):
            bad = code.binary(
                "or", bad, code.compare("icmp eq", b.register, code.constant(-1, b.register))
            )
        return code.select(bad, one, b.register)

    def floor_divide(self, a: Element, b: Element) -> Element:
        code = self.code
        divisor = self._safe_divisor(a, b)
        zero = code.constant(0, b.register)
        if is_unsigned(a.dtype):
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
        divisor = self._safe_divisor(a, b)
        zero = code.constant(0, b.register)
        if is_unsigned(a.dtype):
            rest = code.binary("urem", a.register, divisor)
        else:
            rest = code.binary("srem", a.register, divisor)
            signs = code.compare("icmp slt", code.binary("xor", rest, divisor), zero)
            uneven = code.binary("and", code.compare("icmp ne", rest, zero), signs)
            rest = code.select(uneven, code.binary("add", rest, divisor), rest)
        by_zero = code.compare("icmp eq", b.register, zero)
        return Element(code.select(by_zero, a.register, rest), a.dtype)

    def power(self, a: Element, b: Element) -> Element:
        if a.imaginary is not None:
            return complex_math.power(self.code, a, b)
        if is_inexact(a.dtype):
            return Element(mathlib.power(self.code, a.register, b.register), a.dtype)
        return Element(
            powers.integer_power(self.code, a.register, b.register, is_unsigned(a.dtype)), a.dtype
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
        if is_unsigned(x.dtype):
            return x
        negative = code.compare("icmp slt", x.register, code.constant(0, x.register))
        return Element(code.select(negative, self.negative(x).register, x.register), x.dtype)

    def _extreme(self, is_maximum: bool, orders_zeros: bool, a: Element, b: Element) -> Element:
        code = self.code
        if a.imaginary is not None:
            return complex_math.extreme(self, is_maximum, a, b)
        if a.dtype is bool_:
            return self._binary("or" if is_maximum else "and", a, b)
        name = "max" if is_maximum else "min"
        if not is_inexact(a.dtype):
            prefix = "u" if is_unsigned(a.dtype) else "s"
            return Element(code.intrinsic(prefix + name, a.register, b.register), a.dtype)
        if orders_zeros:
            return self._either(extreme(code, is_maximum, a.register, b.register), a, b)
        # LLVM combines the comparison and the select into one instruction
        is_first = code.compare(f"fcmp {'ogt' if is_maximum else 'olt'}", a.register, b.register)
        found = code.select(is_first, a.register, b.register)
        is_nan = code.compare("fcmp uno", a.register, a.register)
        return self._either(code.select(is_nan, a.register, found), a, b)

    def _either(self, register: Register, a: Element, b: Element) -> Element:
        """A register that holds either of two real elements."""
        return Element(
            register,
            a.dtype,
            rounded=a.rounded and b.rounded,
            short_nan=a.short_nan and b.short_nan,
        )

    def maximum(self, a: Element, b: Element) -> Element:
        return self._extreme(True, False, a, b)

    def minimum(self, a: Element, b: Element) -> Element:
        return self._extreme(False, False, a, b)

    def largest(self, a: Element, b: Element) -> Element:
        return self._extreme(True, True, a, b)

    def smallest(self, a: Element, b: Element) -> Element:
        return self._extreme(False, True, a, b)

    # Comparisons

    def _compare(self, floating: str, integer: str, a: Element, b: Element) -> Element:
        if a.imaginary is not None:
            return complex_math.compare(self.code, floating, a, b)
        if is_inexact(a.dtype):
            operation = f"fcmp {floating}"
        elif integer in ("eq", "ne"):
            operation = f"icmp {integer}"
        else:
            operation = f"icmp {'u' if is_unsigned(a.dtype) else 's'}{integer}"
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

    def from_bits(self, x: Element) -> Element:
        return Element(self.code.convert("bitcast", x.register, "float"), float32)

    def rank(self, x: Element, order: str) -> Element:
        code, type = self.code, RANKS[x.dtype]
        bits = code.convert("bitcast", self.in_memory(x), f"i{8 * x.dtype.size}")
        flipped = code.binary("or", self._sign(bits), self._top(bits))
        ordered = code.binary("xor", bits, flipped)
        offset = code.constant(rank_offset(x.dtype, order), bits)
        return Element(code.binary("add", ordered, offset), type)

    def from_rank(self, x: Element, parameters: tuple[Dtype, str]) -> Element:
        code, (dtype, order) = self.code, parameters
        offset = code.constant(rank_offset(dtype, order), x.register)
        ordered = code.binary("sub", x.register, offset)
        # the top bit is set where the number has no sign
        inverted = code.binary("xor", self._sign(ordered), code.constant(-1, ordered))
        bits = code.binary("xor", ordered, code.binary("or", inverted, self._top(ordered)))
        return self.from_memory(code.convert("bitcast", bits, memory_type(dtype)), dtype)

    def _sign(self, bits: Register) -> Register:
        """The top bit in all bits."""
        width = int(lane_type(bits.type)[1:])
        return self.code.binary("ashr", bits, self.code.constant(width - 1, bits))

    def _top(self, bits: Register) -> Register:
        return self.code.constant(1 << int(lane_type(bits.type)[1:]) - 1, bits)

    def lookup(self, x: Element, table: tuple[float, ...]) -> Element:
        return Element(tables.lookup(self.code, x.register, table), float32)

    def bits(self, x: Element) -> Element:
        return Element(self.code.convert("bitcast", x.register, "i32"), uint32)

    def bitwise_and(self, a: Element, b: Element) -> Element:
        return self._binary("and", a, b)

    def bitwise_or(self, a: Element, b: Element) -> Element:
        return self._binary("or", a, b)

    def bitwise_xor(self, a: Element, b: Element) -> Element:
        return self._binary("xor", a, b)

    def bitwise_invert(self, x: Element) -> Element:
        ones = self.code.constant(-1, x.register)
        return Element(self.code.binary("xor", x.register, ones), x.dtype)

    def _shift_amount(self, a: Element, b: Element) -> tuple[Register, Register]:
        """Whether b is a valid shift amount for a (as unsigned, a negative one is too large), and
        b, or 0 if it is not.
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
        if is_unsigned(a.dtype):
            shifted = code.binary("lshr", a.register, amount)
            return Element(code.select(inside, shifted, code.constant(0, shifted)), a.dtype)
        most = code.constant(8 * a.dtype.size - 1, a.register)
        return Element(code.binary("ashr", a.register, code.select(inside, amount, most)), a.dtype)

    def rotate_left(self, x: Element, count: int) -> Element:
        amount = self.code.constant(count, x.register)
        return Element(self.code.intrinsic("fshl", x.register, x.register, amount), x.dtype)

    # Rounding

    def _whole(self, intrinsic: str, x: Element) -> Element:
        # Rounding a half-type value to an integer gives a value of that type.
        x = self.rounded(x)
        if x.dtype is float16:
            return replace(x, register=self._whole_float16(intrinsic, x.register))
        return replace(x, register=self.code.intrinsic(intrinsic, x.register))

    def _whole_float16(self, intrinsic: str, x: Register) -> Register:
        """The same by arithmetic: LLVM narrows an intrinsic between conversions to one of float16,
        which it then computes element by element.
        """
        code = self.code
        # Above 2**23, floats are integers: the sum is rounded to the nearest one, ties to even.
        beyond = code.constant(1.5 * 2**23, x)
        whole = code.binary("fsub", code.binary("fadd", x, beyond), beyond)
        if intrinsic != "roundeven":
            comparison, sign = ("fcmp ogt", -1.0) if intrinsic == "floor" else ("fcmp olt", 1.0)
            step = code.select(
                code.compare(comparison, whole, x), code.constant(sign, x), code.constant(0.0, x)
            )
            whole = code.binary("fadd", whole, step)
        return code.intrinsic("copysign", whole, x)  # of zeros

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
        return Element(c_logarithm.c_log(self.code, x.register), x.dtype)

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
        register = mathlib.function(name, x.is_half)(self.code, x.register)
        return Element(register, x.dtype, short_nan=x.short_nan)

    word.__name__ = name
    return word


# Functions of one operand in the math library; the other words are methods above.
for _name in WORDS:
    if not hasattr(LLVMKernel, _name):
        setattr(LLVMKernel, _name, _function_word(_name))
