"""Powers of integers."""

from __future__ import annotations

from ingot.compiler.llvm.code import Code, Register, literal

__all__ = ["integer_power"]


def integer_power(code: Code, a: Register, b: Register, unsigned: bool) -> Register:
    """a to the power of b modulo the width, by squaring; 0 for negative b.

    One step for each bit of b that can matter: odd numbers to the power of 2^(width - 2) are 1, and
    those of even ones with an exponent of at least the width are 0, which the squares say by
    themselves.
    """
    width = int(a.type[1:])
    one, zero = literal(a.type, 1), literal(a.type, 0)
    result, square = one, a
    for bit in range(width):
        if bit == width - 1 and not unsigned:
            break  # the sign
        selected = code.binary("and", b, Register(str(1 << bit), b.type))
        taken = code.compare("icmp ne", selected, zero)
        result = code.binary("mul", result, code.select(taken, square, one))
        square = code.binary("mul", square, square)
    if unsigned:
        return result
    return code.select(code.compare("icmp slt", b, zero), zero, result)
