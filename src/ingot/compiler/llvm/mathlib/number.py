"""Numbers: registers with operators, so that the formulas of the library read as formulas.

A `Number` is a register that knows the code it belongs to. Operators write plain instructions,
without flags that let LLVM reassociate or contract: compensated sums depend on every rounding being
where it is written. Python's numbers are constants of the other operand's type.
"""

from __future__ import annotations

from ingot.compiler.llvm.code import Code, Register, lane_type, literal, type_suffix
from ingot.graph.lazy_dataclass import dataclass

__all__ = [
    "Bits",
    "Condition",
    "Number",
    "absolute",
    "clamped",
    "copy_sign",
    "floor",
    "fma",
    "nearest",
    "scale",
    "select",
    "select_bits",
    "square_root",
]


@dataclass(frozen=True)
class Condition:
    """An i1."""

    code: Code
    register: Register

    def __and__(self, other: Condition) -> Condition:
        return Condition(self.code, self.code.binary("and", self.register, other.register))

    def __or__(self, other: Condition) -> Condition:
        return Condition(self.code, self.code.binary("or", self.register, other.register))

    def __xor__(self, other: Condition) -> Condition:
        return Condition(self.code, self.code.binary("xor", self.register, other.register))

    def __invert__(self) -> Condition:
        true = self.code.constant(True, self.register)
        return Condition(self.code, self.code.binary("xor", self.register, true))


@dataclass(frozen=True, eq=False)
class Number:
    """A float or double. Comparisons are false for NaN, except `!=`."""

    code: Code
    register: Register

    @property
    def is_double(self) -> bool:
        """Whether it has 53 bits of precision rather than 24."""
        return lane_type(self.register.type) == "double"

    def constant(self, value: float) -> Number:
        """A constant of the same type."""
        return Number(self.code, literal(self.register.type, value))

    def _operand(self, other: Number | float) -> Register:
        return other.register if isinstance(other, Number) else self.constant(other).register

    def _binary(self, operation: str, other: Number | float) -> Number:
        return Number(self.code, self.code.binary(operation, self.register, self._operand(other)))

    def _swapped(self, operation: str, other: float) -> Number:
        return Number(self.code, self.code.binary(operation, self._operand(other), self.register))

    def _compare(self, predicate: str, other: Number | float) -> Condition:
        found = self.code.compare(f"fcmp {predicate}", self.register, self._operand(other))
        return Condition(self.code, found)

    def __add__(self, other: Number | float) -> Number:
        return self._binary("fadd", other)

    def __radd__(self, other: float) -> Number:
        return self._swapped("fadd", other)

    def __sub__(self, other: Number | float) -> Number:
        return self._binary("fsub", other)

    def __rsub__(self, other: float) -> Number:
        return self._swapped("fsub", other)

    def __mul__(self, other: Number | float) -> Number:
        return self._binary("fmul", other)

    def __rmul__(self, other: float) -> Number:
        return self._swapped("fmul", other)

    def __truediv__(self, other: Number | float) -> Number:
        return self._binary("fdiv", other)

    def __rtruediv__(self, other: float) -> Number:
        return self._swapped("fdiv", other)

    def __neg__(self) -> Number:
        return Number(self.code, self.code.fneg(self.register))

    def __lt__(self, other: Number | float) -> Condition:
        return self._compare("olt", other)

    def __le__(self, other: Number | float) -> Condition:
        return self._compare("ole", other)

    def __gt__(self, other: Number | float) -> Condition:
        return self._compare("ogt", other)

    def __ge__(self, other: Number | float) -> Condition:
        return self._compare("oge", other)

    def equals(self, other: Number | float) -> Condition:
        """Whether both are equal."""
        return self._compare("oeq", other)

    def differs(self, other: Number | float) -> Condition:
        """Whether they differ; true for NaN."""
        return self._compare("une", other)

    def is_negative(self) -> Condition:
        """Whether its sign is set; true for -0."""
        return self.bits().less(0)

    def is_nan(self) -> Condition:
        """Whether it is NaN."""
        return self._compare("uno", self)

    def bits(self) -> Bits:
        """Its representation."""
        type = "i64" if self.is_double else "i32"
        return Bits(self.code, self.code.convert("bitcast", self.register, type))

    def double(self) -> Number:
        """The same value as a double."""
        return Number(self.code, self.code.convert("fpext", self.register, "double"))

    def single(self) -> Number:
        """Rounded to a float."""
        return Number(self.code, self.code.convert("fptrunc", self.register, "float"))


@dataclass(frozen=True, eq=False)
class Bits:
    """An i32 or i64, which wraps around. `>>` brings in zeros, `shift_signed` the sign."""

    code: Code
    register: Register

    def _operand(self, other: Bits | int) -> Register:
        if isinstance(other, Bits):
            return other.register
        return literal(self.register.type, other)

    def _binary(self, operation: str, other: Bits | int) -> Bits:
        return Bits(self.code, self.code.binary(operation, self.register, self._operand(other)))

    def _compare(self, predicate: str, other: Bits | int) -> Condition:
        found = self.code.compare(f"icmp {predicate}", self.register, self._operand(other))
        return Condition(self.code, found)

    def __add__(self, other: Bits | int) -> Bits:
        return self._binary("add", other)

    def __sub__(self, other: Bits | int) -> Bits:
        return self._binary("sub", other)

    def __rsub__(self, other: int) -> Bits:
        left = literal(self.register.type, other)
        return Bits(self.code, self.code.binary("sub", left, self.register))

    def minimum(self, other: int) -> Bits:
        """The lesser as signed integers."""
        found = self.code.intrinsic("smin", self.register, self._operand(other))
        return Bits(self.code, found)

    def maximum(self, other: int) -> Bits:
        """The greater as signed integers."""
        found = self.code.intrinsic("smax", self.register, self._operand(other))
        return Bits(self.code, found)

    def constant(self, value: int) -> Bits:
        """A constant of the same width."""
        return Bits(self.code, literal(self.register.type, value))

    def __mul__(self, other: Bits | int) -> Bits:
        return self._binary("mul", other)

    def __and__(self, other: Bits | int) -> Bits:
        return self._binary("and", other)

    def __or__(self, other: Bits | int) -> Bits:
        return self._binary("or", other)

    def __xor__(self, other: Bits | int) -> Bits:
        return self._binary("xor", other)

    def __lshift__(self, other: Bits | int) -> Bits:
        return self._binary("shl", other)

    def __rshift__(self, other: Bits | int) -> Bits:
        return self._binary("lshr", other)

    def shift_signed(self, other: Bits | int) -> Bits:
        """Shifted right, keeping the sign."""
        return self._binary("ashr", other)

    def equals(self, other: Bits | int) -> Condition:
        """Whether all bits are equal."""
        return self._compare("eq", other)

    def differs(self, other: Bits | int) -> Condition:
        """Whether any bit differs."""
        return self._compare("ne", other)

    def below(self, other: Bits | int) -> Condition:
        """Whether it is less as unsigned integers."""
        return self._compare("ult", other)

    def less(self, other: Bits | int) -> Condition:
        """Whether it is less as signed integers."""
        return self._compare("slt", other)

    def number(self) -> Number:
        """The float or double of the same width that has these bits."""
        type = "double" if lane_type(self.register.type) == "i64" else "float"
        return Number(self.code, self.code.convert("bitcast", self.register, type))

    def converted(self) -> Number:
        """The signed integer as a float or double of the same width, rounded."""
        type = "double" if lane_type(self.register.type) == "i64" else "float"
        return Number(self.code, self.code.convert("sitofp", self.register, type))

    def widened(self) -> Bits:
        """An i32 as an i64 with zeros above."""
        return Bits(self.code, self.code.convert("zext", self.register, "i64"))

    def narrowed(self) -> Bits:
        """The low 32 bits."""
        return Bits(self.code, self.code.convert("trunc", self.register, "i32"))


def _intrinsic(name: str, *arguments: Number) -> Number:
    code = arguments[0].code
    return Number(code, code.intrinsic(name, *(x.register for x in arguments)))


def fma(a: Number, b: Number | float, c: Number | float) -> Number:
    """a * b + c, rounded once."""
    b = b if isinstance(b, Number) else a.constant(b)
    c = c if isinstance(c, Number) else a.constant(c)
    return _intrinsic("fma", a, b, c)


def absolute(x: Number) -> Number:
    """The absolute value."""
    return _intrinsic("fabs", x)


def copy_sign(x: Number, sign: Number) -> Number:
    """The modulus of one with the sign of the other."""
    return _intrinsic("copysign", x, sign)


def floor(x: Number) -> Number:
    """Rounded down to a whole number."""
    return _intrinsic("floor", x)


def nearest(x: Number) -> Number:
    """Rounded to the nearest whole number."""
    return _intrinsic("roundeven", x)


def square_root(x: Number) -> Number:
    """Correctly rounded."""
    return _intrinsic("sqrt", x)


def scale(x: Number, exponent: Bits) -> Number:
    """x * 2^exponent, rounded once, for processors that have an instruction (`scaling.py`)."""
    code, bits = x.code, (exponent.narrowed() if x.is_double else exponent).register
    suffixes = f"{type_suffix(x.register.type)}.{type_suffix(bits.type)}"
    return Number(code, code.call(x.register.type, f"llvm.ldexp.{suffixes}", x.register, bits))


def select_bits(condition: Condition, a: Bits, b: Bits) -> Bits:
    """a where the condition is true, else b."""
    return Bits(a.code, a.code.select(condition.register, a.register, b.register))


def select(condition: Condition, a: Number, b: Number | float) -> Number:
    """a where the condition is true, else b."""
    b = b if isinstance(b, Number) else a.constant(b)
    return Number(a.code, a.code.select(condition.register, a.register, b.register))


def clamped(x: Number, low: float, high: float) -> Number:
    """x where it is between two constants, else the nearer of them; NaN stays NaN."""
    x = select(x > high, x.constant(high), x)
    return select(x < low, x.constant(low), x)
