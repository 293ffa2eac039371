"""Bundles: the lanes of a nest's vectors, as LLVM vectors.

A bundle is filled element by element in stack memory, by a loop that LLVM vectorises and fully
unrolls, after which the memory is optimised away. Bools are bytes there, and complex numbers are
two bundles.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot._native import Dtype
from ingot.compiler.llvm.code import (
    Code,
    Register,
    lane_count,
    literal,
    splat,
    type_suffix,
)
from ingot.compiler.llvm.conversions import memory_type
from ingot.compiler.llvm.emit import Element, LLVMKernel, register_type
from ingot.graph.dtype import bool_, complex64

__all__ = [
    "BundleMemory",
    "are_aligned",
    "fence",
    "in_all_lanes",
    "load_lanes",
    "prefetch",
    "repeated",
    "some_lanes",
    "store_lanes",
]

ALIGNMENT = 64
LINE = 64  # bytes of the cache


def _lane_type(dtype: Dtype) -> str:
    return "i8" if dtype is bool_ else register_type(dtype)


class BundleMemory:
    """The stack memory in which a bundle is filled."""

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
        """Stores an element into a lane."""
        real = code.convert("zext", x.register, "i8") if self.dtype is bool_ else x.register
        for plane, register in zip(self.planes, (real, x.imaginary), strict=False):
            assert register is not None
            code.store(register, code.element(self.type, plane, lane))

    def load(self, code: Code) -> Element:
        """Loads all lanes."""
        type = f"<{self.lanes} x {self.type}>"
        real, *imaginary = [code.load(type, plane, f", align {ALIGNMENT}") for plane in self.planes]
        return Element(real, self.dtype, imaginary[0] if imaginary else None)


def repeated(x: Element, lanes: int) -> Element:
    """A constant repeated in all lanes."""
    if x.dtype is bool_:
        x = Element(literal("i8", int(x.register.name == "true")), bool_)
    imaginary = None if x.imaginary is None else splat(x.imaginary, lanes)
    return Element(splat(x.register, lanes), x.dtype, imaginary)


def some_lanes(code: Code, bundles: Sequence[Element], picks: Sequence[int]) -> Element:
    """Some lanes of one or two bundles, by their numbers; a scalar if it is a single one."""
    first, imaginary = bundles[0], None
    if first.imaginary is not None:
        planes = [each.imaginary for each in bundles if each.imaginary is not None]
        imaginary = _some(code, planes, picks)
    real = _some(code, [each.register for each in bundles], picks)
    if first.dtype is bool_ and len(picks) == 1:
        real = code.compare("icmp ne", real, literal("i8", 0))
    return Element(real, first.dtype, imaginary)


def _some(code: Code, bundles: Sequence[Register], picks: Sequence[int]) -> Register:
    first, *others = bundles
    scalar = first.type[1:-1].split(" x ")[1]
    count = sum(pick < len(picks) for pick in picks)
    if others and list(picks) == [
        lane + (lane >= count) * len(picks) for lane in range(len(picks))
    ]:
        # As a shuffle, LLVM would blend lanes in pairs where it can, in more instructions.
        return code.select(
            _mask(code, len(picks), _hidden(code, literal("i64", count))), first, others[0]
        )
    if len(picks) == 1:
        number, lane = divmod(picks[0], lane_count(first.type))
        return code.assign(scalar, f"extractelement {bundles[number]}, i64 {lane}")
    second = f"{others[0]}" if others else f"{first.type} poison"
    mask = ", ".join(f"i32 {pick}" for pick in picks)
    return code.assign(
        f"<{len(picks)} x {scalar}>",
        f"shufflevector {first}, {second}, <{len(picks)} x i32> <{mask}>",
    )


# Bundles in memory. `below` is the number of valid lanes, if not all are.


def load_lanes(
    k: LLVMKernel, dtype: Dtype, lanes: int, address: Register, below: Register | None
) -> Element:
    """Loads adjacent elements of a real dtype; invalid lanes are 0."""
    code, type = k.code, f"<{lanes} x {memory_type(dtype)}>"
    if below is None:
        return k.from_memory(code.load(type, address, f", align {dtype.size}"), dtype)
    zeros = Register("zeroinitializer", type)
    size, mask = literal("i32", dtype.size), _mask(code, lanes, below)
    name = f"llvm.masked.load.{type_suffix(type)}.p0"
    return k.from_memory(code.call(type, name, address, size, mask, zeros), dtype)


def prefetch(code: Code, address: Register, ahead: int, nbytes: int) -> None:
    """Prefetches `nbytes` bytes into L2, starting `ahead` bytes after an address."""
    for line in range(0, nbytes, LINE):
        code.prefetch(code.offset(address, literal("i64", ahead + line)), 2)


def are_aligned(code: Code, addresses: Sequence[Register]) -> Register:
    """Whether all addresses are those of cache lines."""
    found = literal("i64", 0)
    for address in addresses:
        found = code.binary("or", found, code.assign("i64", f"ptrtoint {address} to i64"))
    low = code.binary("and", found, literal("i64", LINE - 1))
    return code.compare("icmp eq", low, literal("i64", 0))


def fence(code: Code) -> None:
    """Orders non-temporal stores before all later ones, such as those that end a loop's share."""
    code.declarations["llvm.x86.sse.sfence"] = "declare void @llvm.x86.sse.sfence()"
    code.do("call void @llvm.x86.sse.sfence()")


def store_lanes(
    k: LLVMKernel,
    x: Element,
    address: Register,
    below: Register | None,
    nontemporal: bool = False,
) -> None:
    """Stores the lanes of a real bundle to adjacent elements. Non-temporal stores are aligned."""
    code, value = k.code, k.in_memory(x)
    if nontemporal:
        aligned = min(ALIGNMENT, x.dtype.size * lane_count(value.type))
        code.store(value, address, f", align {aligned}, !nontemporal {code.number_node(1)}")
        return
    if below is None:
        code.store(value, address, f", align {x.dtype.size}")
        return
    lanes = int(value.type[1:].split(" x ")[0])
    name = f"llvm.masked.store.{type_suffix(value.type)}.p0"
    code.declarations[name] = f"declare void @{name}({value.type}, ptr, i32, <{lanes} x i1>)"
    if x.dtype.size == 2:
        # LLVM miscompiles the masked store of elements truncated from four bytes under a mask that
        # is known to have one lane: it writes four bytes. Hide the mask from it.
        below = _hidden(code, below)
    size, mask = literal("i32", x.dtype.size), _mask(code, lanes, below)
    code.do(f"call void @{name}({value}, {address}, {size}, {mask})")


def _hidden(code: Code, x: Register) -> Register:
    """A number whose value LLVM does not know, but may compute before a loop."""
    return code.assign("i64", f'call i64 asm "", "=r,0"({x}) nounwind willreturn memory(none)')


def _mask(code: Code, lanes: int, below: Register) -> Register:
    """The mask of the lanes whose number is below a limit. It is compared in 32 bits, of which
    registers hold all lanes.
    """
    numbers = ", ".join(f"i32 {lane}" for lane in range(lanes))
    most = code.call("i64", "llvm.smin.i64", below, literal("i64", lanes))
    count = code.call("i64", "llvm.smax.i64", most, literal("i64", 0))
    limit = code.broadcast(code.assign("i32", f"trunc {count} to i32"), lanes)
    return code.compare("icmp slt", Register(f"<{numbers}>", limit.type), limit)


def in_all_lanes(code: Code, x: Element, lanes: int) -> Element:
    """An element broadcast to all lanes, or each lane of a bundle repeated in adjacent lanes."""
    return Element(
        code.broadcast(x.register, lanes),
        x.dtype,
        None if x.imaginary is None else code.broadcast(x.imaginary, lanes),
        rounded=x.rounded,
        short_nan=x.short_nan,
        scalar=None if lane_count(x.register.type) > 1 else x.register,
    )
