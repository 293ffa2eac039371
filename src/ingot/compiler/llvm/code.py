"""Code: LLVM instructions written as text, one function at a time.

LLVM's assembly language is the shortest way from Python to LLVM: `jit.py` parses this text as it
is, and `explain` prints it as it is. A `Register` is the name of a value with its LLVM type.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ingot.tuning_vectors import MAX_LONG_CONSTANTS, MIN_INTERLEAVED_LINES, MIN_LONG_ROUNDINGS

__all__ = [
    "NO_UNROLLING",
    "WRITTEN_OUT",
    "Code",
    "Register",
    "float_bits",
    "lane_count",
    "lane_type",
    "like_lanes",
    "literal",
    "literal_value",
    "splat",
    "type_suffix",
]


# LLVM would fully unroll loops of this many iterations, although they are better vectorised.
_SHORT_LOOPS = range(9, 65)
# LLVM vectorises no loop of two iterations, and prints that it did not if a width was requested.
_TINY_LOOPS = range(1, 3)


STACK_ALIGNMENT = 64
SHORT_VECTOR = 4  # lanes of LLVM's loop for the remainder of wide vectors

ALONE = range(1, 2)  # one vector at a time

# Hints for loops
# the remainder as one more vector, with masked lanes
MASKED = '!"llvm.loop.vectorize.predicate.enable", i1 true'
NO_UNROLLING = '!"llvm.loop.unroll.disable"'
NO_VECTORS = '!"llvm.loop.vectorize.enable", i1 false'
ONE_VECTOR = '!"llvm.loop.interleave.count", i32 1'
# fully unrolled after vectorisation
WRITTEN_OUT = (
    NO_UNROLLING,
    '!"llvm.loop.vectorize.followup_vectorized", !{!"llvm.loop.unroll.enable"}',
)

_PURE = "nounwind willreturn memory(none)"  # attributes of functions

_FLOAT_BITS = re.compile("0x([0-9A-F]{16})")
_NUMBER = re.compile("%[a-z]+([0-9]+)")
# of instructions that only roundings to half types have (`conversions.py`)
_ENDS_OF_ROUNDINGS = (" to half", ", i32 -131072, i32 -65536")


def _folded(operation: str, a: Register, b: Register) -> Register | None:
    """A sum or product of integers that needs no instruction; None if it does."""
    if operation not in ("mul nsw", "add nsw"):
        return None
    numbers = [int(x.name) for x in (a, b) if x.name.lstrip("-").isdigit()]
    if len(numbers) == 2:
        x, y = numbers
        return literal("i64", x * y if operation == "mul nsw" else x + y)
    if operation == "mul nsw" and 0 in numbers:
        return literal("i64", 0)
    if numbers == [1 if operation == "mul nsw" else 0]:
        return a if b.name == str(numbers[0]) else b
    return None


def _interleaved(body: Sequence[str], counts: range) -> tuple[str, ...]:
    """The hint to compute several vectors at a time, instruction by instruction, if the body of a
    loop is one long chain of instructions: the processor overlaps too few of those that come one
    after the other. That holds for few registers, too: units that have nothing else to do load
    constants again. LLVM interleaves short bodies by itself. There is no hint if fewer than the
    first of `counts` would be.
    """
    most = counts[-1] if counts else 1
    if most < 2 or len(body) < MIN_INTERLEAVED_LINES:
        return ()
    constants = {bits for line in body for bits in _FLOAT_BITS.findall(line)}
    if len(constants) > MAX_LONG_CONSTANTS:
        count = 2
    else:
        roundings = sum(line.endswith(_ENDS_OF_ROUNDINGS) for line in body)
        count = 8 if roundings >= MIN_LONG_ROUNDINGS else 4
    count = min(most, count)
    if count not in counts:
        return ()
    return (f'!"llvm.loop.interleave.count", i32 {count}',)


class Register(NamedTuple):
    """A value in LLVM code: its name, or a literal, and its type."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


def float_bits(value: float) -> str:
    """A float or double constant in LLVM's notation, which has the bits of the double for both."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def literal(type: str, value: complex) -> Register:
    """A constant of an LLVM type, in all lanes of a vector. Floats are rounded to the type first,
    as LLVM demands.
    """
    if type[0] == "<":
        return splat(literal(lane_type(type), value), lane_count(type))
    if type == "i1":
        return Register("true" if value else "false", type)
    if type == "float":
        rounded = struct.unpack("<f", _pack_float(float(value.real)))[0]
        return Register(float_bits(rounded), type)
    if type == "double":
        return Register(float_bits(float(value.real)), type)
    return Register(str(int(value.real)), type)


def literal_value(x: Register) -> float | None:
    """The value of a float or double constant, in all lanes of a vector; None if it is none."""
    found = set(_FLOAT_BITS.findall(x.name))
    if len(found) != 1 or "%" in x.name:
        return None
    value: float = struct.unpack(">d", bytes.fromhex(found.pop()))[0]
    return value


def _pack_float(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))


# Types of vectors: "<16 x float>"


def lane_type(type: str) -> str:
    """The type of the lanes of a vector, or a scalar type itself."""
    return type[1:-1].split(" x ")[1] if type[0] == "<" else type


def lane_count(type: str) -> int:
    """How many lanes a type has."""
    return int(type[1:-1].split(" x ")[0]) if type[0] == "<" else 1


def like_lanes(type: str, other: str) -> str:
    """A scalar type widened to as many lanes as another type has; vector types stay as they are."""
    return f"<{lane_count(other)} x {type}>" if other[0] == "<" and type[0] != "<" else type


def splat(x: Register, lanes: int) -> Register:
    """A literal repeated in all lanes of a vector."""
    return Register(f"splat ({x})", f"<{lanes} x {x.type}>")


def type_suffix(type: str) -> str:
    """A type in the notation of intrinsics: "v16f32"."""
    scalar = lane_type(type)
    suffix = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16"}.get(scalar, scalar)
    return f"v{lane_count(type)}{suffix}" if type[0] == "<" else suffix


class Code:
    """The body of a function under construction."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}  # intrinsics and functions that the code calls
        # whether iterations of a loop access disjoint elements, which LLVM then need not prove
        self.parallel = False
        self._access_group = ""
        self._count = 0
        self.block = "entry"  # the label of the block that is being written
        # the vector width of the loop being written; 0 leaves it to LLVM, which otherwise warns on
        # standard error about loops that it cannot vectorise
        self.lanes = 0
        self._loops = 0  # number of loops written
        self._before = 0  # the number of names in use when the innermost loop began
        self.called = 0  # lines of the functions that are called
        self.metadata: list[str] = []  # appended after the functions

    def fresh(self, hint: str = "v") -> str:
        """A name that is not in use."""
        self._count += 1
        return f"%{hint}{self._count}"

    def is_invariant(self, x: Register) -> bool:
        """Whether a value was computed before the innermost loop began."""
        numbers = _NUMBER.findall(x.name)
        return bool(numbers) and all(int(number) <= self._before for number in numbers)

    def assign(self, type: str, text: str) -> Register:
        """Appends an instruction that has a result."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}")
        return Register(name, type)

    def do(self, text: str) -> None:
        """Appends an instruction without a result."""
        self.lines.append(f"  {text}")

    # Arithmetic: `operation` is LLVM's, with flags, such as "fadd reassoc" or "add nsw"

    def binary(self, operation: str, a: Register, b: Register) -> Register:
        """An operation on two values of one type."""
        found = _folded(operation, a, b) if a.type == "i64" else None
        if found is not None:
            return found
        return self.assign(a.type, f"{operation} {a.type} {a.name}, {b.name}")

    def fneg(self, x: Register) -> Register:
        """The negation of a floating-point value."""
        return self.assign(x.type, f"fneg {x.type} {x.name}")

    def compare(self, operation: str, a: Register, b: Register) -> Register:
        """A comparison such as "fcmp olt" or "icmp eq": an i1, or one for each lane."""
        return self.assign(like_lanes("i1", a.type), f"{operation} {a.type} {a.name}, {b.name}")

    def select(self, condition: Register, a: Register, b: Register) -> Register:
        """One of two values."""
        return self.assign(a.type, f"select {condition}, {a.type} {a.name}, {b.type} {b.name}")

    def convert(self, operation: str, x: Register, type: str) -> Register:
        """A conversion such as "sitofp", "zext" or "bitcast", lane by lane; the value itself if it
        already has the type.
        """
        type = like_lanes(type, x.type)
        if x.type == type:
            return x
        return self.assign(type, f"{operation} {x.type} {x.name} to {type}")

    def call(self, type: str, function: str, *arguments: Register, flags: str = "") -> Register:
        """A call of a function or intrinsic without side effects."""
        types = ", ".join(argument.type for argument in arguments)
        self.declarations[function] = f"declare {type} @{function}({types})"
        values = ", ".join(map(str, arguments))
        return self.assign(type, f"call {flags + ' ' if flags else ''}{type} @{function}({values})")

    def call_of_lanes(
        self,
        name: str,
        x: Register,
        widths: Sequence[int],
        write: Callable[[Code, Register], Register],
    ) -> Register:
        """A call of a function of one element, for which LLVM substitutes one of its variants for
        vectors of so many lanes when it vectorises the loop around the call. `write` writes the
        code of a variant, whose argument is `%x`, and returns its result.

        Variants are inlined by the last pass. The function itself, which is left in what remains of
        a loop, must not be inlined before. LLVM would drop variants that nothing calls yet.
        """
        variants = [f"{name}_{lanes}" for lanes in widths]
        for lanes, variant in zip((1, *widths), (name, *variants), strict=True):
            type = x.type if lanes == 1 else f"<{lanes} x {x.type}>"
            inlined = "noinline" if lanes == 1 else "alwaysinline"
            code = Code()
            found = write(code, Register("%x", type))
            self.declarations.update(code.declarations)
            text = " ".join((*code.lines, f"  ret {found}"))  # one line, as all declarations
            self.declarations[variant] = (
                f"define private {type} @{variant}({type} %x) {inlined} {_PURE} {{ {text} }}"
            )
            if lanes == 1:
                self.called += len(code.lines)
        kept = ", ".join(f"ptr @{variant}" for variant in variants)
        self.declarations["llvm.compiler.used"] = (
            f"@llvm.compiler.used = appending global [{len(variants)} x ptr] [{kept}], "
            'section "llvm.metadata"'
        )
        named = ",".join(
            f"_ZGV_LLVM_N{lanes}v_{name}({variant})"
            for lanes, variant in zip(widths, variants, strict=True)
        )
        attributes = f'{_PURE} "vector-function-abi-variant"="{named}"'
        return self.assign(x.type, f"call {x.type} @{name}({x}) {attributes}")

    def intrinsic(self, name: str, *arguments: Register) -> Register:
        """An LLVM intrinsic of floating-point or integer values, by its bare name: "fma", "floor",
        "smax".
        """
        type = arguments[0].type
        return self.call(type, f"llvm.{name}.{type_suffix(type)}", *arguments)

    def constant(self, value: complex, like: Register) -> Register:
        """A constant of the type of another value, in all lanes."""
        return literal(like.type, value)

    def broadcast(self, x: Register, lanes: int) -> Register:
        """A value in all lanes of a vector, or each lane of a vector in as many adjacent ones."""
        count = lane_count(x.type)
        if count > 1:
            type = x.type.replace(f"<{count} x", f"<{lanes} x", 1)
            mask = ", ".join(f"i32 {lane * count // lanes}" for lane in range(lanes))
            return self.assign(
                type, f"shufflevector {x}, {x.type} poison, <{lanes} x i32> <{mask}>"
            )
        type = f"<{lanes} x {x.type}>"
        first = self.assign(type, f"insertelement {type} poison, {x}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.assign(type, f"shufflevector {type} {first.name}, {type} poison, {zeros}")

    def load(self, type: str, address: Register, metadata: str = "") -> Register:
        """Loads from an address."""
        return self.assign(type, f"load {type}, ptr {address.name}{metadata}{self._access()}")

    def store(self, value: Register, address: Register, metadata: str = "") -> None:
        """Stores to an address."""
        self.do(f"store {value}, ptr {address.name}{metadata}{self._access()}")

    def prefetch(self, address: Register, locality: int) -> None:
        """Prefetches the cache line of an address: into L1 for a locality of 3, into L2 for 2."""
        name = "llvm.prefetch.p0"
        self.declarations[name] = f"declare void @{name}(ptr, i32, i32, i32)"
        self.do(f"call void @{name}({address}, i32 0, i32 {locality}, i32 1)")

    def number_node(self, number: int) -> str:
        """A metadata node that is a number."""
        node = f"!{len(self.metadata)}"
        self.metadata.append(f"{node} = !{{i32 {number}}}")
        return node

    def _access(self) -> str:
        if not self.parallel:
            return ""
        return f", !llvm.access.group {self._accesses()}"

    def _accesses(self) -> str:
        """The access group of all accesses in a kernel whose loops are parallel."""
        if not self._access_group:
            self._access_group = f"!{len(self.metadata)}"
            self.metadata.append(f"{self._access_group} = distinct !{{}}")
        return self._access_group

    def offset(self, address: Register, nbytes: Register) -> Register:
        """The address `nbytes` after another."""
        if nbytes.name == "0":
            return address
        return self.assign("ptr", f"getelementptr inbounds i8, ptr {address.name}, {nbytes}")

    def opaque(self, address: Register) -> Register:
        """The same address, but LLVM does not analyse how it was computed. Alias analysis still
        knows the array. It takes no instruction.
        """
        return self.call("ptr", "llvm.strip.invariant.group.p0", address)

    def stack(self, nbytes: int) -> Register:
        """The address of memory on the stack."""
        name = self.fresh("stack")
        self.do(f"{name} = alloca [{nbytes} x i8], align {STACK_ALIGNMENT}")
        return Register(name, "ptr")

    def element(self, type: str, address: Register, index: Register) -> Register:
        """The address of an element of a contiguous array."""
        return self.assign("ptr", f"getelementptr inbounds {type}, ptr {address.name}, {index}")

    # Control flow

    def label(self, name: str) -> None:
        """Begins a block named by `fresh`."""
        self.block = name.lstrip("%")
        self.lines.append(f"{self.block}:")

    def branch(self, target: str) -> None:
        """Ends a block with an unconditional branch."""
        self.do(f"br label {target}")

    def branch_if(self, condition: Register, then: str, otherwise: str) -> None:
        """Ends a block with a conditional branch."""
        self.do(f"br i1 {condition.name}, label {then}, label {otherwise}")

    def either(self, condition: Register) -> Iterator[bool]:
        """Writes code twice: for where a condition holds, and for where it does not."""
        holds, fails, done = (self.fresh(name) for name in ("holds", "fails", "done"))
        self.branch_if(condition, holds, fails)
        for label, value in ((holds, True), (fails, False)):
            self.label(label)
            yield value
            self.branch(done)
        self.label(done)

    @contextmanager
    def loop(
        self,
        begin: Register,
        end: Register,
        carried: Sequence[Register] = (),
        step: int = 1,
        hints: Sequence[str] = (),
        interleaved: range = ALONE,
        few: int = 0,
    ) -> Iterator[Loop]:
        """A loop over begin <= index < end. `carried` are the initial values of its carried values
        (see `Loop`); `hints` are loop metadata for LLVM. `interleaved` is how many vectors may be
        computed at a time: iterations that this leaves over matter little. `few` is the largest
        number of iterations, if they fill no vector of the usual width: LLVM would write a loop
        with such vectors that is never entered.
        """
        outside, self._before = self._before, self._count
        head, body, latch, done = (self.fresh(hint) for hint in ("head", "body", "latch", "done"))
        entry = self.block
        index, following = self.fresh("i"), self.fresh("next")
        current = [Register(self.fresh("c"), value.type) for value in carried]
        self.branch(head)
        self.label(head)
        position = len(self.lines)
        self.lines.append("")  # the phis, to be filled in when the latch is known
        inside = self.compare("icmp slt", Register(index, "i64"), end)
        self.branch_if(inside, body, done)
        self.label(body)
        loop = Loop(Register(index, "i64"), current)
        self.lanes = 0
        loops = self._loops
        yield loop
        self._before = outside
        if self._loops != loops:
            self.lanes = 0  # LLVM vectorises innermost loops
        elif few:
            self.lanes = SHORT_VECTOR if few >= SHORT_VECTOR else 0
            hints = (*hints, ONE_VECTOR if self.lanes else NO_VECTORS, NO_UNROLLING)
        else:
            filled = self._vectors(begin, end, step) or interleaved[-1]
            counts = range(interleaved[0], min(interleaved[-1], filled) + 1)
            hints = (*hints, *_interleaved(self.lines[position:], counts))
        self._loops += 1
        self.branch(latch)
        self.label(latch)
        self.do(f"{following} = add nuw nsw i64 {index}, {step}")
        self.do(f"br label {head}{self._hints(begin, end, step, hints)}")
        phis = [f"  {index} = phi i64 [{begin.name}, %{entry}], [{following}, {latch}]"]
        for now, first, later in zip(current, carried, loop.updated, strict=True):
            phis.append(
                f"  {now.name} = phi {now.type} [{first.name}, %{entry}], [{later.name}, {latch}]"
            )
        self.lines[position] = "\n".join(phis)
        self.label(done)

    def _vectors(self, begin: Register, end: Register, step: int) -> int:
        """How many vectors of the requested width a loop fills, if both are known; else 0. LLVM
        would never enter a loop that computes more of them at a time.
        """
        if not self.lanes or not (begin.name.isdigit() and end.name.isdigit()):
            return 0
        return max(1, (int(end.name) - int(begin.name)) // (step * self.lanes))

    def _hints(self, begin: Register, end: Register, step: int, asked: Sequence[str]) -> str:
        """Loop metadata: that iterations are independent, the requested vector width, which applies
        to the innermost loop, and not to unroll short loops of known length before vectorisation,
        after which there would be no loop left to vectorise.
        """
        hints: list[str] = []
        known = begin.name.isdigit() and end.name.isdigit() and step == 1
        count = int(end.name) - int(begin.name) if known else 0
        if self.parallel:
            hints.append(f'!{{!"llvm.loop.parallel_accesses", {self._accesses()}}}')
        if self.lanes and count not in _TINY_LOOPS:
            hints.append(f'!{{!"llvm.loop.vectorize.width", i32 {self.lanes}}}')
        hints += [f"!{{{hint}}}" for hint in asked]
        is_short = count in _SHORT_LOOPS or (count > 1 and MASKED in asked)
        if is_short and not set(asked) - {MASKED}:
            hints.append(f"!{{{NO_UNROLLING}}}")
        self.lanes = 0
        if not hints:
            return ""
        first = len(self.metadata)
        slots = range(first + 1, first + 1 + len(hints))
        together = ", ".join(f"!{slot}" for slot in (first, *slots))
        self.metadata.append(f"!{first} = distinct !{{{together}}}")
        self.metadata += [f"!{slot} = {hint}" for slot, hint in zip(slots, hints, strict=True)]
        return f", !llvm.loop !{first}"


class Loop:
    """A loop whose body is being written: its index and its carried values."""

    def __init__(self, index: Register, carried: list[Register]) -> None:
        self.index = index
        self.carried = carried  # on entry to the iteration; after the loop, its results
        self.updated = list(carried)  # at the end of the iteration: replaced by the body
