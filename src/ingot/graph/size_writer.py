"""Size code: arithmetic on lengths as instructions that C runs (`_native.SizeCode`).

Input: operations, one by one, named like Python's operators. Output: code for registers, in which
the inputs come first, then constants, then the result of each instruction. Each register is a
64-bit int or a float; the types and the conversions between them are static. Running the code
reports where Python's ints would exceed 64 bits.
"""

from __future__ import annotations

from typing import Any

from ingot._native import SizeCode

__all__ = ["SizeWriter"]

_OF_INTS = ("pow", "lshift", "rshift", "and", "or", "xor", "invert", "max")
_TO_INTS = ("floor", "ceil", "round", "trunc")
_FLIPPED = {"gt": "lt", "ge": "le"}  # with swapped operands


class SizeWriter:
    """Writes size code. Constants have negative register numbers until all of them are known."""

    def __init__(self, inputs: str) -> None:
        """`inputs` has an "i" or an "f" for each input."""
        self._inputs = inputs
        self._constants: dict[tuple[type, Any], int] = {}
        self._instructions: list[tuple[str, int, int]] = []
        self._known: dict[tuple[str, int, int], int] = {}
        self._is_float = {number: kind == "f" for number, kind in enumerate(inputs)}

    def constant(self, value: Any) -> int:
        """The register of an int, a bool or a float."""
        value = value if type(value) is float else int(value)
        key = (type(value), value if type(value) is int else value.hex())
        if key not in self._constants:
            number = -1 - len(self._constants)
            self._constants[key] = number
            self._is_float[number] = type(value) is float
        return self._constants[key]

    def is_float(self, register: int) -> bool:
        """Whether a register holds a float."""
        return self._is_float[register]

    def result(self, name: str, left: int, right: int | None = None) -> int:
        """The register of the result of a Python operator or function, by its name."""
        right = left if right is None else right
        if name == "pow" and (self.is_float(left) or self.is_float(right)):
            return self.float_power(left, right)
        if name in _OF_INTS or name in _TO_INTS:
            return self._append(name, left, right)
        if name == "truediv":
            return self._append(name, self._as_float(left), self._as_float(right))
        if self.is_float(left) or self.is_float(right):
            return self._append(f"f{name}", self._as_float(left), self._as_float(right))
        return self._append(name, left, right)

    def float_power(self, left: int, right: int) -> int:
        """`left ** right` where Python gives a float."""
        return self._append("fpow", self._as_float(left), self._as_float(right))

    def require(self, name: str, left: int, right: int, outcome: bool = True) -> None:
        """Add the condition that `left name right` is `outcome`."""
        if name == "ne":
            name, outcome = "eq", not outcome
        if name in _FLIPPED:
            name, left, right = _FLIPPED[name], right, left
        if self.is_float(left) or self.is_float(right):
            name, left, right = f"f{name}", self._as_float(left), self._as_float(right)
        self._append(name if outcome else f"not {name}", left, right)

    def code(self) -> tuple[SizeCode, dict[int, int]]:
        """The code, and the final numbers of the registers returned so far. OverflowError if a
        constant needs more than 64 bits.
        """
        inputs, constants = len(self._inputs), len(self._constants)
        final = {number: number for number in range(inputs)}
        final |= {-1 - position: inputs + position for position in range(constants)}
        final |= {
            inputs + position: inputs + constants + position
            for position in range(len(self._instructions))
        }
        values = tuple(
            key[1] if key[0] is int else float.fromhex(key[1]) for key in self._constants
        )
        instructions = [(name, final[a], final[b]) for name, a, b in self._instructions]
        return SizeCode(self._inputs, values, instructions), final

    def _as_float(self, register: int) -> int:
        return register if self.is_float(register) else self._append("float", register, register)

    def _append(self, name: str, left: int, right: int) -> int:
        key = (name, left, right)
        if key not in self._known:
            number = self._known[key] = len(self._inputs) + len(self._instructions)
            self._instructions.append(key)
            self._is_float[number] = name.startswith("f") and name != "floor" and name != "floordiv"
            self._is_float[number] |= name == "truediv"
        return self._known[key]
