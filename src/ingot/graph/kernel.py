"""The kernel vocabulary: the operations that an op's `emit` rule may use for one element.

`emit(k, *values)` gets a `Kernel` and one `Value` per input and returns the `Value` of the result.
A value has the dtype of its node. Implementations compute half types in float32: they do not round
between the operations of one rule but round its result, as `evaluate` does; multiplications and
additions are not contracted. The operands and the result of an operation have equal dtypes, unless
it says otherwise. An operation supports only the dtypes that are named with it: what an op means
for others (say, the floor of an integer) is defined by its own rule.

Rules use this vocabulary only, so that `ops` needs no code generator and the code generator no list
of ops.
"""

from __future__ import annotations

from typing import Any, Protocol

from ingot.graph.dtype import Dtype

__all__ = ["WORDS", "Kernel", "Value"]

Value = Any  # opaque: the implementation's own expression type


class Kernel(Protocol):
    """Expressions over one element."""

    # Constants and types, of all dtypes.

    def constant(self, value: complex | bool, like: Value) -> Value:
        """A constant of the dtype of `like`."""

    def cast(self, x: Value, dtype: Dtype) -> Value:
        """The element converted as `astype` converts it.

        To bool: whether it is not zero. Complex to real: the real part. Floating-point to integer:
        toward zero, and by the table of `graph/numerics/casts.py` where that does not fit. Between
        integers: modulo the width. The rest is rounded to nearest, ties to even.
        """

    def dtype(self, x: Value) -> Dtype:
        """The dtype of a value."""

    # Arithmetic of numbers. Integers wrap around. On bool, add, maximum and largest are or,
    # multiply, minimum and smallest are and.

    def add(self, a: Value, b: Value) -> Value: ...
    def subtract(self, a: Value, b: Value) -> Value: ...
    def multiply(self, a: Value, b: Value) -> Value: ...
    def divide(self, a: Value, b: Value) -> Value:
        """The quotient of floating-point or complex values."""

    def fused_multiply_add(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c of float32 or float64 values, rounded once."""

    def floor_divide(self, a: Value, b: Value) -> Value:
        """The quotient of integers, rounded down; a // 0 is 0, the lowest one // -1 is itself."""

    def remainder(self, a: Value, b: Value) -> Value:
        """Of real values, with the sign of b or 0. a % 0 is a for integers, NaN for the others."""

    def power(self, a: Value, b: Value) -> Value:
        """a to the power of b.

        Of integers, by multiplication, and 0 for negative b; floating-point, as C's pow; complex,
        exp(b log(a)).
        """

    def negative(self, x: Value) -> Value: ...
    def absolute(self, x: Value) -> Value:
        """Of complex values the modulus, a float32; of the lowest integer, itself."""

    def maximum(self, a: Value, b: Value) -> Value:
        """The larger in the order of `less`; NaN if either is NaN. Of zeros with different signs
        the second.
        """

    def minimum(self, a: Value, b: Value) -> Value:
        """The smaller in the order of `less`; NaN if either is NaN. Of zeros with different signs
        the second.
        """

    def largest(self, a: Value, b: Value) -> Value:
        """Like `maximum`, but -0 is less than +0, so that the maximum of many real values does not
        depend on the order in which they are combined.
        """

    def smallest(self, a: Value, b: Value) -> Value:
        """Like `minimum`, but -0 is less than +0."""

    # Comparisons of all dtypes, with results of dtype bool. NaN is unequal to all and in no order.
    # False comes before True; complex values are ordered by their real parts and, where those are
    # equal, by their imaginary parts.

    def equal(self, a: Value, b: Value) -> Value: ...
    def not_equal(self, a: Value, b: Value) -> Value: ...
    def less(self, a: Value, b: Value) -> Value: ...
    def less_equal(self, a: Value, b: Value) -> Value: ...
    def greater(self, a: Value, b: Value) -> Value: ...
    def greater_equal(self, a: Value, b: Value) -> Value: ...
    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """a where the condition, a bool, is true, else b; both are computed."""

    def bits(self, x: Value) -> Value:
        """The bits of a float32, as a uint32."""

    # Bits of integers and bool; shifts are of integers only.

    def bitwise_and(self, a: Value, b: Value) -> Value: ...
    def bitwise_or(self, a: Value, b: Value) -> Value: ...
    def bitwise_xor(self, a: Value, b: Value) -> Value: ...
    def bitwise_invert(self, x: Value) -> Value: ...
    def left_shift(self, a: Value, b: Value) -> Value:
        """a << b; 0 if b is negative or not less than the number of bits."""

    def right_shift(self, a: Value, b: Value) -> Value:
        """a >> b, arithmetic for signed integers, logical for unsigned ones.

        If b is negative or not less than the number of bits, the result is all sign bits or 0.
        """

    def rotate_left(self, x: Value, count: int) -> Value:
        """The bits of an unsigned integer rotated left by less than its width."""

    # Rounding of floating-point values to whole numbers; `round` takes ties to even. Values of half
    # types are rounded to their dtype first: a float32 intermediate may lie on the other side of a
    # step.

    def floor(self, x: Value) -> Value: ...
    def ceil(self, x: Value) -> Value: ...
    def round(self, x: Value) -> Value: ...

    # Functions of floating-point values, and of complex ones: principal values, as NumPy has them.

    def exp(self, x: Value) -> Value: ...
    def log(self, x: Value) -> Value: ...
    def log2(self, x: Value) -> Value: ...
    def log10(self, x: Value) -> Value: ...
    def log1p(self, x: Value) -> Value: ...
    def sqrt(self, x: Value) -> Value: ...
    def rsqrt(self, x: Value) -> Value:
        """1 / sqrt(x)."""

    def sin(self, x: Value) -> Value: ...
    def cos(self, x: Value) -> Value: ...
    def tan(self, x: Value) -> Value: ...
    def arcsin(self, x: Value) -> Value: ...
    def arccos(self, x: Value) -> Value: ...
    def arctan(self, x: Value) -> Value: ...
    def sinh(self, x: Value) -> Value: ...
    def cosh(self, x: Value) -> Value: ...
    def tanh(self, x: Value) -> Value: ...
    def arcsinh(self, x: Value) -> Value: ...
    def arccosh(self, x: Value) -> Value: ...
    def arctanh(self, x: Value) -> Value: ...

    # Functions of floating-point values only.

    def c_log(self, x: Value) -> Value:
        """The natural logarithm of a float32, bit-identical to the GNU C library's."""

    def expm1(self, x: Value) -> Value: ...
    def erf(self, x: Value) -> Value: ...
    def erfinv(self, x: Value) -> Value: ...
    def arctan2(self, a: Value, b: Value) -> Value:
        """The angle of the point (b, a), between -pi and pi."""

    # Parts of complex values.

    def real(self, x: Value) -> Value:
        """The real part, a float32."""

    def imag(self, x: Value) -> Value:
        """The imaginary part, a float32."""

    def conjugate(self, x: Value) -> Value: ...
    def complex(self, real: Value, imag: Value) -> Value:
        """The complex value with these parts, which are float32."""


# The protocol's methods are the vocabulary: code generators and builders have no lists of their
# own.
WORDS = tuple(name for name in vars(Kernel) if not name.startswith("_"))
