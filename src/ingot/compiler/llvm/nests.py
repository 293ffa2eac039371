"""Loop nests as LLVM code.

Addresses are computed loop by loop: a loop advances the pointers of the accesses inside it along
its index, so that the innermost loop adds one product to each, and LLVM sees plain strides. The
symbols of a nest are read from one more argument, a table of int64.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import reduce
from typing import Any

from ingot.compiler.forms.affine import Affine, affine, size_of_extent
from ingot.compiler.forms.nest.data import (
    Apart,
    Apply,
    Body,
    Buffer,
    Bundle,
    Carried,
    Checked,
    Constant,
    CopyBlock,
    Indices,
    Joined,
    Lanes,
    Load,
    Loop,
    Mask,
    Multiple,
    Nest,
    Parallel,
    Position,
    Prefetch,
    Repeated,
    Splat,
    Split,
    Store,
    Value,
    When,
)
from ingot.compiler.forms.nest.traversal import is_in_vectors, nontemporal, statements
from ingot.compiler.llvm.addresses import Address, Pointers, hide_moved
from ingot.compiler.llvm.bundles import (
    BundleMemory,
    are_aligned,
    fence,
    in_all_lanes,
    load_lanes,
    prefetch,
    repeated,
    some_lanes,
    store_lanes,
)
from ingot.compiler.llvm.code import ALONE, Code, Register, literal
from ingot.compiler.llvm.code import Loop as CodeLoop
from ingot.compiler.llvm.copies import copy_block
from ingot.compiler.llvm.emit import Element, LLVMKernel, register_type
from ingot.compiler.llvm.loops import (
    few_iterations,
    flat,
    interleaved,
    loop_hints,
    runs_once,
    unflat,
    unknown,
    writes_stack,
)
from ingot.compiler.llvm.module import module_text, work_grain
from ingot.compiler.llvm.whole_vectors import Run, runs
from ingot.runtime.processor import stores_masked_slowly

__all__ = ["nest_code", "nest_module"]

_ZERO = literal("i64", 0)


def nest_code(nest: Nest, is_sharing: bool = False) -> Code:
    """The body of a nest's function, with arguments %a0, %a1 ... and the range %begin, %end of the
    parallel loop.
    """
    return _Writer(nest, is_sharing).code


def nest_module(nest: Nest, shared: Collection[int] = ()) -> str:
    """The text of a module with the kernel of a nest. Arguments in `shared` may alias. Sets the
    grain of the parallel loops.
    """
    written = _Writer(nest, bool(shared))
    code = written.code
    for region in nest.parallel:
        if not region.grain:
            region.grain = work_grain(code, size_of_extent(region.work))
    alone = [number not in shared for number in range(nest.arguments)]
    if nest.symbols:
        alone.append(True)
    return module_text(code, alone, written.in_vectors)


class _Writer(Pointers):
    def __init__(self, nest: Nest, is_sharing: bool) -> None:
        self.nest, self.in_vectors = nest, is_in_vectors(nest)
        super().__init__(Code())
        # whether to write runs with limits twice
        self.has_versions = self.in_vectors and stores_masked_slowly()
        self.is_streaming = False  # whether non-temporal stores are to whole cache lines
        self.is_whole = False  # whether all lanes are known to be within limits
        self.code.parallel = nest.independent or (is_sharing and nest.elementwise)
        self.k = LLVMKernel(self.code)
        self.elements: dict[Value, Element] = {}
        self.addresses: dict[Value | Store | Prefetch, tuple[Address, int]] = {}
        self.corners: dict[CopyBlock, tuple[tuple[Address, int], tuple[Address, int]]] = {}
        self._inside: dict[Loop | Parallel | Split | Multiple, list[Address]] = {}
        for number, symbol in enumerate(nest.symbols):
            table = Register(f"%a{nest.arguments}", "ptr")
            entry = self.code.element("i64", table, literal("i64", number))
            self.numbers[symbol] = self.code.load("i64", entry)
        self.bundles: dict[Buffer, BundleMemory] = {}
        for region in nest.parallel:
            for statement in statements(region.body):
                if isinstance(statement, Bundle) and statement.buffer not in self.bundles:
                    found = BundleMemory(self.code, statement.dtype, statement.lanes)
                    self.bundles[statement.buffer] = found
        for buffer in nest.buffers:
            if buffer not in self.bundles:
                self.memory[buffer] = self._address(buffer)
        for parallel in nest.parallel:
            addresses: dict[Address, None] = {}
            self._collect(parallel.body, addresses)
            self._inside[parallel] = list(addresses)
        for address in self.table.known.values():
            self.pointers[address] = self.first(address)
        self._regions()

    # Addresses

    def _address(self, buffer: Buffer) -> Register:
        if buffer.argument is not None:
            return Register(f"%a{buffer.argument}", "ptr")
        nbytes = buffer.dtype.size
        for length in buffer.shape:
            assert isinstance(length, int), "memory on the stack has a known size"
            nbytes *= length
        return self.code.stack(nbytes)

    def _collect(self, body: Body, addresses: dict[Address, None]) -> None:
        """Collects the addresses of all accesses in a body, for the loops around it."""
        named: list[Split | Multiple] = []
        for statement in body:
            kind = type(statement)
            if kind is Apply:
                continue
            if isinstance(statement, (Load, Store, Prefetch)):
                if statement.buffer in self.bundles:
                    continue
                address = self.table.address_of(statement.buffer, statement.index)
                self.addresses[statement] = address
                addresses[address[0]] = None
            elif isinstance(statement, Loop):
                inside: dict[Address, None] = {}
                self._collect(statement.body, inside)
                self._inside[statement] = list(inside)
                addresses.update(inside)
            elif isinstance(statement, (When, Mask, Apart)):
                self._collect(statement.body, addresses)
            elif isinstance(statement, CopyBlock):
                pair = (
                    self.table.address_of(statement.target, statement.index),
                    self.table.address_of(statement.source, statement.source_index),
                )
                self.corners[statement] = pair
                addresses.update(dict.fromkeys([address for address, _ in pair]))
            elif isinstance(statement, (Split, Multiple)):
                named.append(statement)
        for each in named:
            self._inside[each] = list(addresses)

    # Loops

    def _regions(self) -> None:
        """The parallel loops, which share one range of iterations, one after the other."""
        begin, end = Register("%begin", "i64"), Register("%end", "i64")
        streamed = [self.memory[buffer] for buffer in nontemporal(self.nest)]
        if not streamed:
            self._ranges(begin, end)
            return
        for is_aligned in self.code.either(are_aligned(self.code, streamed)):
            self.is_streaming = is_aligned
            self._ranges(begin, end)
            if is_aligned:
                fence(self.code)

    def _ranges(self, begin: Register, end: Register) -> None:
        if len(self.nest.parallel) == 1:
            self._parallel(self.nest.parallel[0], begin, end)
            return
        past = affine(0)
        for region in self.nest.parallel:
            (length,) = region.lengths
            before, past = past, past + length
            first, last = self.number(before), self.number(past)
            low = self.code.binary("sub nsw", self.code.intrinsic("smax", begin, first), first)
            high = self.code.binary("sub nsw", self.code.intrinsic("smin", end, last), first)
            self._parallel(region, low, high)

    def _parallel(self, region: Parallel, begin: Register, end: Register) -> None:
        if not region.indices:
            self._body(region.body)
            return
        outside = self.pointers
        # LLVM makes no vectors across iterations that compute with vectors
        few = 0 if self.in_vectors else few_iterations(region)
        several = ALONE if self.in_vectors else interleaved(region)
        with self.code.loop(begin, end, interleaved=several, few=few) as loop:
            self.pointers = dict(outside)
            at = loop.index
            for number in range(len(region.indices) - 1, -1, -1):
                index, length = region.indices[number], region.lengths[number]
                if number == 0:
                    self.numbers[index] = at
                elif length == 1:
                    self.numbers[index] = _ZERO
                    continue
                else:
                    count = self.number(length)
                    self.numbers[index] = self.code.binary("urem", at, count)
                    at = self.code.binary("udiv", at, count)
                self.move(self._inside[region], index)
            self.code.lanes = region.lanes  # some functions ask for fewer lanes
            self._body(region.body)
        self.pointers = outside

    def _loop(self, loop: Loop) -> None:
        if loop.kind == "unroll" or runs_once(loop):
            self._unrolled(loop)
            return
        starts = [self._element(c.start) for c in loop.carried]
        begin, end = self.number(loop.begin), self.least(loop.ends)
        outside, is_parallel = self.pointers, self.code.parallel
        if is_parallel and writes_stack(loop.body):
            self.code.parallel = False  # the parallel iterations share stack memory
        with self.code.loop(
            begin, end, flat(starts), loop.step, loop_hints(loop), interleaved(loop)
        ) as written:
            self._carry(loop.carried, starts, written)
            self.code.lanes = loop.lanes
            self.numbers[loop.index] = written.index
            self.pointers = dict(outside)
            self.move(self._inside[loop], loop.index)
            self._body(loop.body)
            written.updated = flat([self._updated(c) for c in loop.carried])
        self._carry(loop.carried, starts, written)
        self.pointers, self.code.parallel = outside, is_parallel

    def _carry(
        self, carried: Sequence[Carried], starts: Sequence[Element], written: CodeLoop
    ) -> None:
        self.elements.update(zip(carried, unflat(written.carried, starts), strict=True))

    def _updated(self, carried: Carried) -> Element:
        assert carried.update is not None
        return self._element(carried.update)

    def _unrolled(self, loop: Loop) -> None:
        """Unrolls a loop of known bounds."""
        begin = loop.begin.constant
        end = min(end.constant for end in loop.ends)
        for carried in loop.carried:
            self.elements[carried] = self._element(carried.start)
        outside = self.pointers
        for at in range(begin, end, loop.step):
            self.numbers[loop.index] = literal("i64", at)
            self.pointers = dict(outside)
            self.move(self._inside[loop], loop.index)
            self._body(loop.body)
            updated = [self._updated(carried) for carried in loop.carried]
            self.elements.update(zip(loop.carried, updated, strict=True))
        self.pointers = outside

    def _when(self, when: When) -> None:
        code = self.code
        value = self._element(when.value).register
        above = code.compare("icmp sge", value, self.number(when.low))
        inside = code.binary("and", above, code.compare("icmp slt", value, self.number(when.high)))
        self._branch(inside, when.body)

    def _branch(self, condition: Register, body: Body) -> None:
        """Runs a body if a condition holds."""
        code = self.code
        then, done = code.fresh("then"), code.fresh("done")
        code.branch_if(condition, then, done)
        code.label(then)
        self._body(body)
        code.branch(done)
        code.label(done)

    def _multiple(self, multiple: Multiple) -> None:
        code = self.code
        end = self.least(multiple.ends)
        if multiple.by > 1:
            length = code.binary("sub nsw", end, self.number(multiple.base))
            rest = code.binary("urem", length, literal("i64", multiple.by))
            end = code.binary("sub nsw", end, rest)
        self.numbers[multiple.index] = end
        self.move(self._inside[multiple], multiple.index)

    def _mask(self, mask: Mask) -> None:
        code = self.code
        others = [self._element(chosen.other) for chosen in mask.results]
        end = unknown(code, self.least(mask.ends))
        inside = code.compare("icmp slt", self.numbers[mask.index], end)
        then, join, before = code.fresh("then"), code.fresh("join"), code.block
        code.branch_if(inside, then, join)
        code.label(then)
        self._body(mask.body)
        found = [self._element(chosen.value) for chosen in mask.results]
        after = code.block
        code.branch(join)
        code.label(join)
        either = self._either((found, after), (others, before))
        self.elements.update(zip(mask.results, either, strict=True))

    def _apart(self, apart: Apart) -> None:
        code = self.code
        one, other = (self.memory[buffer] for buffer in apart.buffers)
        self._branch(code.compare("icmp ne", one, other), apart.body)

    def _join(self, value: Joined) -> None:
        code = self.code
        found = self._element(value.parts[0]).register
        for part, length in zip(value.parts[1:], value.lengths[1:], strict=True):
            found = code.binary("mul nsw", found, self.number(length))
            found = code.binary("add nsw", found, self._element(part).register)
        self.elements[value] = Element(found, value.dtype)

    def _split(self, split: Split) -> None:
        number, outside = self.number(split.number), dict(self.pointers)
        for index, length in zip(split.indices[:0:-1], split.lengths[:0:-1], strict=True):
            count = self.number(length)
            self.numbers[index] = self.code.binary("urem", number, count)
            number = self.code.binary("udiv", number, count)
        self.numbers[split.indices[0]] = number
        for index in split.indices:
            self.move(self._inside[split], index)
        if self.in_vectors:
            hide_moved(self.code, self.pointers, outside)

    # Statements and values

    def _at(self, buffer: Buffer, address: tuple[Address, int], index: Indices) -> Register:
        """The address of an element, including computed indices."""
        pointer = self.pointer(address)
        for stride, at in zip(buffer.strides, index, strict=True):
            if isinstance(at, Affine):
                continue
            distance = self._element(at).register
            distance = self.code.binary("mul nsw", distance, self.number(affine(stride)))
            pointer = self.code.offset(pointer, distance)
        return pointer

    def _body(self, body: Body) -> None:
        if not self.has_versions:
            self._statements(body)
            return
        for run in runs(body):
            if run.limits:
                self._versions(run)
            else:
                self._statements(run.body)

    def _statements(self, body: Body) -> None:
        for statement in body:
            _WRITE[type(statement)](self, statement)

    def _versions(self, run: Run) -> None:
        """Writes a run without masks, for where all lanes are within its limits, and with them."""
        code = self.code
        tests = [code.compare("icmp sge", self.number(each), _ZERO) for each in run.limits]
        inside = reduce(lambda a, b: code.binary("and", a, b), tests)
        whole, masked, join = (code.fresh(name) for name in ("whole", "masked", "join"))
        code.branch_if(inside, whole, masked)
        self.has_versions = False
        found: list[tuple[list[Element], str]] = []
        for label, self.is_whole in ((whole, True), (masked, False)):
            code.label(label)
            self._statements(run.body)
            found.append(([self._element(each) for each in run.values()], code.block))
            code.branch(join)
        self.has_versions, self.is_whole = True, False
        code.label(join)
        self.elements.update(zip(run.values(), self._either(*found), strict=True))

    def _either(
        self, one: tuple[list[Element], str], other: tuple[list[Element], str]
    ) -> list[Element]:
        """Values that were computed in one block or the other, from which the code comes here."""
        (found, block), (others, after) = one, other
        merged = [
            self.code.assign(a.type, f"phi {a.type} [{a.name}, %{block}], [{b.name}, %{after}]")
            for a, b in zip(flat(found), flat(others), strict=True)
        ]
        return unflat(merged, found)

    def _load(self, load: Load) -> None:
        address = self._at(load.buffer, self.addresses[load], load.index)
        if load.ahead:
            prefetch(self.code, address, load.ahead, load.lanes * load.dtype.size)
        if load.lanes == 1:
            self.elements[load] = self.k.load(load.dtype, address)
            return
        below = self._below(load.limit, load.index)
        self.elements[load] = load_lanes(self.k, load.dtype, load.lanes, address, below)

    def _below(self, limit: Affine | None, index: Indices) -> Register | None:
        """How many lanes, starting at an index, are below a limit."""
        if limit is None or self.is_whole:
            return None
        first = index[-1]
        assert isinstance(first, Affine)
        return self.number(limit - first)

    def _store(self, store: Store) -> None:
        value = self._element(store.value)
        if store.buffer in self.bundles:
            (index,) = store.index
            assert isinstance(index, Affine)
            self.bundles[store.buffer].store(self.code, value, self.number(index))
            return
        address = self._at(store.buffer, self.addresses[store], store.index)
        if store.value.lanes == 1:
            self.k.store(value, address)
        else:
            below = self._below(store.limit, store.index)
            is_nontemporal = store.nontemporal and self.is_streaming
            store_lanes(self.k, value, address, below, is_nontemporal)

    def _bundle(self, bundle: Bundle) -> None:
        self.elements[bundle] = self.bundles[bundle.buffer].load(self.code)

    def _splat(self, splat: Splat) -> None:
        self.elements[splat] = in_all_lanes(self.code, self._element(splat.value), splat.lanes)

    def _some_lanes(self, lanes: Lanes) -> None:
        bundles = [self._element(each) for each in lanes.values]
        self.elements[lanes] = some_lanes(self.code, bundles, lanes.picks)

    def _copy(self, block: CopyBlock) -> None:
        target, source = self.corners[block]
        pointers = self.pointer(target), self.pointer(source)
        copy_block(self.code, block, *pointers, self.number)

    def _prefetch(self, fetch: Prefetch) -> None:
        self.code.prefetch(self.pointer(self.addresses[fetch]), 3)

    def _apply(self, value: Apply) -> None:
        operands: list[Any] = [self._element(operand) for operand in value.operands]
        if value.parameter is not None:
            operands.append(value.parameter)
        self.elements[value] = getattr(self.k, value.word)(*operands)

    def _element(self, value: Value) -> Element:
        found = self.elements.get(value)
        if found is not None:
            return found
        if isinstance(value, Constant):
            found = self.k.constant_of(value.value, value.dtype)
            self.elements[value] = found
            return found
        if isinstance(value, Checked):
            return self._element(value.value)
        if isinstance(value, Repeated):
            found = repeated(self.k.constant_of(value.value.value, value.dtype), value.lanes)
            self.elements[value] = found
            return found
        assert isinstance(value, Position), f"{value} is used before it is computed"
        position = self.number(value.position)
        return Element(
            self.code.convert("trunc", position, register_type(value.dtype)), value.dtype
        )


_WRITE: dict[type, Callable[[_Writer, Any], None]] = {
    Apply: _Writer._apply,
    Load: _Writer._load,
    Store: _Writer._store,
    Loop: _Writer._loop,
    When: _Writer._when,
    Mask: _Writer._mask,
    Bundle: _Writer._bundle,
    Splat: _Writer._splat,
    Lanes: _Writer._some_lanes,
    Joined: _Writer._join,
    Split: _Writer._split,
    Apart: _Writer._apart,
    Multiple: _Writer._multiple,
    CopyBlock: _Writer._copy,
    Prefetch: _Writer._prefetch,
}
