"""Bundles of elements side by side, as LLVM vectors.

They are filled element by element in memory, by a loop that LLVM vectorises and writes out, after
which nothing is left of the memory. Bool is a byte there, and complex numbers are two bundles.
"""

from __future__ import annotations

from ingot._native import Dtype
from ingot.compiler.llvm.code import Code, Register, literal
from ingot.compiler.llvm.emit import Element, register_type
from ingot.graph.dtype import bool_, complex64

__all__ = ["BundleMemory", "repeated", "some_lanes"]

ALIGNMENT = 64


def _lane_type(dtype: Dtype) -> str:
    return "i8" if dtype is bool_ else register_type(dtype)


class BundleMemory:
    """Where a bundle is filled."""

    def __init__(self, code: Code, dtype: Dtype, lanes: int) -> None:
        self.dtype = dtype
        self.type = _lane_type(dtype)
        self.lanes = lanes
        self.planes: list[Register] = []
        for _ in range(2 if dtype is complex64 else 1):
            name = code.fresh("bundle")
            code.do(f"{name} = alloca <{lanes} x {self.type}>, align {ALIGNMENT}")
            self.planes.append(Register(name, "ptr"))

    def store(self, code: Code, x: Element, lane: Register) -> None:
        """Puts an element into a lane."""
        real = code.convert("zext", x.register, "i8") if self.dtype is bool_ else x.register
        for plane, register in zip(self.planes, (real, x.imaginary), strict=False):
            assert register is not None
            code.store(register, code.element(self.type, plane, lane))

    def load(self, code: Code) -> Element:
        """All lanes."""
        type = f"<{self.lanes} x {self.type}>"
        real, *imaginary = [code.load(type, plane, f", align {ALIGNMENT}") for plane in self.planes]
        return Element(real, self.dtype, imaginary[0] if imaginary else None)


def repeated(x: Element, lanes: int) -> Element:
    """A constant in all lanes."""
    if x.dtype is bool_:
        x = Element(literal("i8", int(x.register.name == "true")), bool_)
    imaginary = None if x.imaginary is None else _repeated(x.imaginary, lanes)
    return Element(_repeated(x.register, lanes), x.dtype, imaginary)


def _repeated(x: Register, lanes: int) -> Register:
    return Register(f"<{', '.join([str(x)] * lanes)}>", f"<{lanes} x {x.type}>")


def some_lanes(code: Code, x: Element, first: int, lanes: int) -> Element:
    """Some lanes of a bundle; one is an element."""
    imaginary = None if x.imaginary is None else _some(code, x.imaginary, first, lanes)
    real = _some(code, x.register, first, lanes)
    if x.dtype is bool_ and lanes == 1:
        real = code.compare("icmp ne", real, literal("i8", 0))
    return Element(real, x.dtype, imaginary)


def _some(code: Code, x: Register, first: int, lanes: int) -> Register:
    scalar = x.type[1:-1].split(" x ")[1]
    if lanes == 1:
        return code.assign(scalar, f"extractelement {x}, i64 {first}")
    mask = ", ".join(f"i32 {lane}" for lane in range(first, first + lanes))
    return code.assign(
        f"<{lanes} x {scalar}>",
        f"shufflevector {x}, {x.type} poison, <{lanes} x i32> <{mask}>",
    )
