"""Reductions: how a kernel combines many elements, in the order of `graph/reduction_order.py`.

Comes in: a writer at the first element of a row, and what computes the elements at a place. Goes
out: LLVM code that leaves the row's results in registers. The lanes of that order are the elements
of LLVM vectors: a loop over the lanes, which LLVM vectorises, computes the elements, and the
combination is written as instructions on vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot._native import Dtype
from ingot.compiler.code import NO_UNROLLING, WRITTEN_OUT, Code, Register, literal
from ingot.compiler.emit import Element, LLVMKernel, register_type
from ingot.compiler.loops import Pointers, Writer, flat, unflat
from ingot.compiler.tape import Step
from ingot.graph.dtype import bool_, complex64, float64
from ingot.graph.reduction_order import BLOCK, LANES, PART

__all__ = ["Accumulator", "Body", "Rows", "load_raw", "raw_size", "store_raw"]

SHORT_CODE = 4  # steps of a group
UNROLLED = '!"llvm.loop.unroll.count", i32 4'

# What is reduced at a place, one element for each reduction; also told is the position along the
# reduced axis, if there is one.
Body = Callable[[Pointers, Register | None], list[Element]]


class Accumulator:
    """A reduction's running result. Sums of float32 and half types are totalled in double."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.dtype: Dtype = step.dtype
        sums = getattr(step.op, "sums", False)
        widens = sums and register_type(self.dtype) == "float" and self.dtype is not complex64
        self.total: Dtype = float64 if widens else self.dtype

    @property
    def has_vectors(self) -> bool:
        """Whether vectors can be combined: of complex numbers not their order."""
        return self.dtype is not complex64 or self.step.op.depends_on_order()  # type: ignore[union-attr]

    def start(self, k: LLVMKernel, dtype: Dtype) -> Element:
        """The element to begin with."""
        k.code.notes.append(("start", self.step))
        return k.constant_of(self.step.op.start(self.dtype), dtype)  # type: ignore[union-attr]

    def combine(self, k: LLVMKernel, a: Element, b: Element) -> Element:
        """Two partial results as one."""
        found: Element = self.step.op.combine(k, a, b)  # type: ignore[union-attr]
        k.code.notes.append(("combine", self.step, b.register.name))
        return found

    def widened(self, k: LLVMKernel, x: Element) -> Element:
        """A partial result in the dtype of totals."""
        if self.total is self.dtype:
            return x
        return Element(k.code.convert("fpext", x.register, "double"), float64)

    def result(self, writer: Writer, x: Element) -> Element:
        """A total as the result of the reduction."""
        if self.total is not self.dtype:
            x = Element(writer.code.convert("fptrunc", x.register, "float"), self.dtype)
        return writer.rounded(x)


# Memory of the kernel's own, in which half types stay floats


def _raw_type(dtype: Dtype) -> str:
    return "i8" if dtype is bool_ else register_type(dtype)


def raw_size(dtype: Dtype) -> int:
    """The bytes of an element in memory of the kernel's own."""
    if dtype is complex64:
        return 8
    return {"i8": 1, "i16": 2, "i32": 4, "float": 4}.get(_raw_type(dtype), 8)


def store_raw(code: Code, x: Element, address: Register) -> None:
    """Puts an element as it is into memory."""
    if x.dtype is bool_:
        code.store(code.convert("zext", x.register, "i8"), address)
        return
    code.store(x.register, address)
    if x.imaginary is not None:
        code.store(x.imaginary, code.element("float", address, literal("i64", 1)))


def load_raw(code: Code, dtype: Dtype, address: Register) -> Element:
    """The opposite of `store_raw`."""
    if dtype is bool_:
        return Element(code.compare("icmp ne", code.load("i8", address), literal("i8", 0)), dtype)
    real = code.load(register_type(dtype), address)
    if dtype is not complex64:
        return Element(real, dtype)
    return Element(
        real, dtype, code.load("float", code.element("float", address, literal("i64", 1)))
    )


class _Lanes:
    """One reduction's elements side by side in memory, from where they are read as a vector."""

    def __init__(self, code: Code, accumulator: Accumulator, count: int) -> None:
        self.code = code
        self.dtype = accumulator.dtype
        self.accumulator = accumulator
        self.type = _raw_type(self.dtype)
        self.count = count
        planes = 2 if self.dtype is complex64 else 1
        self.planes = [code.reserve(8 * count) for _ in range(planes)]

    def put(self, x: Element, lane: Register) -> None:
        """An element into its lane."""
        real = self.code.convert("zext", x.register, "i8") if self.dtype is bool_ else x.register
        for plane, register in zip(self.planes, (real, x.imaginary), strict=False):
            assert register is not None
            self.code.store(register, self.code.element(self.type, plane, lane))

    def vector(self) -> Element:
        """All lanes."""
        type = f"<{self.count} x {self.type}>"
        loaded = [self.code.load(type, plane, ", align 64") for plane in self.planes]
        return Element(loaded[0], self.dtype, loaded[1] if len(loaded) > 1 else None)

    def start(self) -> Element:
        """A vector of what reductions begin with."""
        k = LLVMKernel(self.code)
        one = self.accumulator.start(k, self.dtype)
        if self.dtype is bool_:
            one = Element(literal("i8", 1 if one.register.name == "true" else 0), bool_)
        imaginary = None if one.imaginary is None else self._repeated(one.imaginary)
        return Element(self._repeated(one.register), self.dtype, imaginary)

    def _repeated(self, x: Register) -> Register:
        return Register(f"<{', '.join([str(x)] * self.count)}>", f"<{self.count} x {self.type}>")

    def combined(self, k: LLVMKernel, x: Element) -> Element:
        """The lanes of a vector combined: upper halves with lower ones."""
        count = self.count
        while count > 1:
            low, high = (
                self._part(x, range(first, first + count // 2)) for first in (0, count // 2)
            )
            x = self.accumulator.combine(k, low, high)
            count //= 2
        code = self.code
        parts = [
            code.assign(self.type, f"extractelement {each}, i64 0")
            for each in (x.register, x.imaginary)
            if each is not None
        ]
        if self.dtype is bool_:
            parts[0] = code.compare("icmp ne", parts[0], literal("i8", 0))
        return Element(parts[0], self.dtype, parts[1] if len(parts) > 1 else None)

    def _part(self, x: Element, lanes: range) -> Element:
        type = f"<{len(lanes)} x {self.type}>"
        places = ", ".join(f"i32 {lane}" for lane in lanes)
        parts = [
            self.code.assign(
                type,
                f"shufflevector {each}, {each.type} poison, <{len(lanes)} x i32> <{places}>",
            )
            for each in (x.register, x.imaginary)
            if each is not None
        ]
        return Element(parts[0], self.dtype, parts[1] if len(parts) > 1 else None)


class Rows:
    """Reduces rows: all elements of the reduced axes at one place of the others."""

    def __init__(self, writer: Writer, accumulators: Sequence[Accumulator], body: Body) -> None:
        self.writer = writer
        self.accumulators = list(accumulators)
        self.body = body
        domain = writer.domain
        self.inner = domain.inner
        self.outer = tuple(axis for axis in domain.reduced if axis not in domain.inner)
        self.length = domain.size(self.inner)
        # Where the order is free, the fewer blocks the better.
        in_order = any(x.step.op.depends_on_order() for x in self.accumulators)  # type: ignore[union-attr]
        self.block, self.in_part = (BLOCK, PART) if in_order else (BLOCK * PART, 1)
        self.in_row = -(-self.length // self.block)  # blocks along the inner axes
        self.blocks = self.in_row * domain.size(self.outer)
        self.count = min(LANES, 1 << max(self.length - 1, 0).bit_length())
        self.has_vectors = all(x.has_vectors for x in self.accumulators)
        self.lanes = [_Lanes(writer.code, x, self.count) for x in self.accumulators]

    @property
    def parts(self) -> int:
        """The groups of blocks whose totals are combined in the end."""
        return -(-self.blocks // self.in_part)

    def row(self, here: Pointers) -> list[Element]:
        """The totals of a whole row."""
        if self.parts <= 1:
            return self._range(here, self.writer.i64(0), self.writer.i64(self.blocks))
        starts = self._starts()
        with self.writer.code.loop(
            self.writer.i64(0), self.writer.i64(self.parts), flat(starts)
        ) as loop:
            loop.updated = flat(
                self._joined(unflat(loop.carried, starts), self.part(here, loop.index))
            )
        return unflat(loop.carried, starts)

    def part(self, here: Pointers, part: Register) -> list[Element]:
        """The totals of a group of blocks."""
        w, code = self.writer, self.writer.code
        first = code.binary("mul nsw", part, w.i64(self.in_part))
        past = code.binary("add nsw", first, w.i64(self.in_part))
        return self._range(here, first, code.intrinsic("smin", past, w.i64(self.blocks)))

    def _starts(self) -> list[Element]:
        return [x.start(self.writer.k, x.total) for x in self.accumulators]

    def _joined(self, totals: list[Element], more: list[Element]) -> list[Element]:
        return [
            x.combine(self.writer.k, total, each)
            for x, total, each in zip(self.accumulators, totals, more, strict=True)
        ]

    def _range(self, here: Pointers, first: Register, past: Register) -> list[Element]:
        """The totals of blocks one after the other."""
        starts = self._starts()
        if self.blocks == 1:
            return self._joined(starts, self._block(here, self.writer.i64(0)))
        with self.writer.code.loop(first, past, flat(starts), hints=[NO_UNROLLING]) as loop:
            loop.updated = flat(
                self._joined(unflat(loop.carried, starts), self._block(here, loop.index))
            )
        return unflat(loop.carried, starts)

    def _block(self, here: Pointers, number: Register) -> list[Element]:
        """The results of one block, in the dtype of totals."""
        w, code = self.writer, self.writer.code
        if self.outer:
            row = code.binary("udiv", number, w.i64(self.in_row)) if self.in_row > 1 else number
            here = w.placed(here, row, self.outer)
            number = (
                code.binary("urem", number, w.i64(self.in_row)) if self.in_row > 1 else w.i64(0)
            )
        first = w.i64(0) if self.in_row == 1 else code.binary("mul nsw", number, w.i64(self.block))
        found = (self._by_lanes if self.has_vectors else self._in_order)(here, number, first)
        return [x.widened(w.k, each) for x, each in zip(self.accumulators, found, strict=True)]

    def _in_order(self, here: Pointers, number: Register, first: Register) -> list[Element]:
        """A block whose elements are combined one by one."""
        w, code = self.writer, self.writer.code
        past = code.intrinsic(
            "smin", code.binary("add nsw", first, w.i64(self.block)), w.i64(self.length)
        )
        starts = [x.start(w.k, x.dtype) for x in self.accumulators]
        with code.loop(first, past, flat(starts)) as loop:
            added = self.body(w.placed(here, loop.index, self.inner), loop.index)
            loop.updated = flat(
                [
                    x.combine(w.k, a, b)
                    for x, a, b in zip(
                        self.accumulators, unflat(loop.carried, starts), added, strict=True
                    )
                ]
            )
            code.lanes = 0  # choices between complex numbers are no reduction to LLVM
        return unflat(loop.carried, starts)

    def _by_lanes(self, here: Pointers, number: Register, first: Register) -> list[Element]:
        """A block by lanes: whole vectors, and what is left at the end of the last block."""
        w, code = self.writer, self.writer.code
        running = [lanes.start() for lanes in self.lanes]
        whole, rest = divmod(self.length, self.count)
        in_block = self.block // self.count
        if whole:
            steps = w.i64(min(whole, in_block))
            if self.in_row > 1 and self.length % self.block:
                before = code.binary("mul nsw", number, w.i64(in_block))
                left = code.binary("sub nsw", w.i64(whole), before)
                steps = code.intrinsic("smin", left, w.i64(in_block))
            with code.loop(w.i64(0), steps, flat(running), hints=[self._unrolling()]) as loop:
                at = code.binary(
                    "add nsw", first, code.binary("mul nsw", loop.index, w.i64(self.count))
                )
                self._fill(here, at)
                loop.updated = flat(self._with_lanes(unflat(loop.carried, running)))
            running = unflat(loop.carried, running)
        if rest:
            count = w.i64(rest)
            if self.in_row > 1:
                last = code.compare("icmp eq", number, w.i64(self.in_row - 1))
                count = code.select(last, count, w.i64(0))
            self._fill(here, w.i64(whole * self.count), count)
            running = self._with_lanes(running)
        return [lanes.combined(w.k, x) for lanes, x in zip(self.lanes, running, strict=True)]

    def _unrolling(self) -> str:
        """How often the loop over vectors is written out: for short code, its own costs count."""
        return NO_UNROLLING if len(self.writer.members) > SHORT_CODE else UNROLLED

    def _fill(self, here: Pointers, first: Register, past: Register | None = None) -> None:
        """Computes elements into the lanes; lanes from `past` on get what has no effect."""
        w, code = self.writer, self.writer.code
        aligned = len(self.inner) > 1 and w.domain.lengths[self.inner[-1]] % self.count == 0
        if aligned:  # the lanes are neighbours along the last axis
            here = w.placed(here, first, self.inner)

        def elements(lane: Register) -> list[Element]:
            at = code.binary("add nsw", first, lane)
            spot = (
                w.moved(here, lane, self.inner[-1]) if aligned else w.placed(here, at, self.inner)
            )
            return self.body(spot, at)

        with code.loop(w.i64(0), w.i64(self.count), hints=WRITTEN_OUT) as loop:
            if past is None:
                found = elements(loop.index)
            else:
                found = self._below(loop.index, past, elements)
            for lanes, x in zip(self.lanes, found, strict=True):
                lanes.put(x, loop.index)

    def _below(
        self, lane: Register, past: Register, compute: Callable[[Register], list[Element]]
    ) -> list[Element]:
        """What is computed for lanes below `past`, and for others what has no effect."""
        code, k = self.writer.code, self.writer.k
        inside = code.compare("icmp slt", lane, past)
        then, join, before = code.fresh("then"), code.fresh("join"), code.block
        code.branch_if(inside, then, join)
        code.label(then)
        code.notes.append(("if", lane.name, past.name))
        found = compute(lane)
        code.notes.append(("end",))
        after = code.block
        code.branch(join)
        code.label(join)
        starts = [k.constant_of(x.step.op.start(x.dtype), x.dtype) for x in self.accumulators]  # type: ignore[union-attr]
        merged = [
            code.assign(a.type, f"phi {a.type} [{a.name}, %{after}], [{b.name}, %{before}]")
            for a, b in zip(flat(found), flat(starts), strict=True)
        ]
        return unflat(merged, found)

    def _with_lanes(self, running: list[Element]) -> list[Element]:
        return [
            lanes.accumulator.combine(self.writer.k, x, lanes.vector())
            for lanes, x in zip(self.lanes, running, strict=True)
        ]
