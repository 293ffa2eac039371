"""Rewrites of loop nests: each takes a nest and one of its loops and returns an equivalent nest.

`tile` and `distribute` split a loop into blocks, `interchange` swaps two loops, `unroll` unrolls
one completely, `vectorise` marks one for vectorisation, `keep_in_registers` turns an element that a
loop reads and writes in memory into a carried value, and `pack` copies what a loop reads to the
stack first.

A rewrite raises `RewriteError` for a loop whose meaning it would change or that does not have the
required form. Only `vectorise` leaves the proof that iterations are independent to the verifier,
which checks the new nest like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ingot.compiler.forms.affine import Affine, Index, Variable, affine, extent, size_of_extent
from ingot.compiler.forms.nest.copying import Copy
from ingot.compiler.forms.nest.data import (
    Body,
    Buffer,
    Bundle,
    Carried,
    CopyBlock,
    Load,
    Loop,
    Multiple,
    Nest,
    Parallel,
    Split,
    Statement,
    Store,
    Value,
)
from ingot.compiler.forms.nest.traversal import statements
from ingot.graph.shape import contiguous

__all__ = [
    "RewriteError",
    "distribute",
    "interchange",
    "keep_in_registers",
    "pack",
    "tile",
    "unroll",
    "vectorise",
]


class RewriteError(ValueError):
    """A rewrite does not apply to a loop."""


def _require(holds: object, problem: str) -> None:
    if not holds:
        raise RewriteError(problem)


def tile(nest: Nest, loop: Loop, size: int) -> Nest:
    """Splits a loop into an outer loop over blocks of `size` iterations and an inner loop over a
    block.
    """
    _require(loop.step == 1 and loop.kind != "unroll", "the loop goes in steps, or is written out")
    copy = Copy()

    def tiled(loop: Loop) -> Body:
        outer = Loop(Index(), copy.affine(loop.begin), copy.affines(loop.ends), size)
        outer.carried = [Carried(c.dtype, copy.value(c.start), c.origin) for c in loop.carried]
        inner = copy.loop(loop)
        inner.begin = affine(outer.index)
        inner.ends = (inner.begin + size, *outer.ends)
        for outside, inside in zip(outer.carried, inner.carried, strict=True):
            inside.start, outside.update = outside, inside
        copy.values.update(zip(loop.carried, outer.carried, strict=True))
        outer.body = [inner]
        return [outer]

    copy.instead[loop] = tiled
    return copy.nest(nest)


def distribute(nest: Nest, loop: Loop, size: int) -> Nest:
    """Moves the blocks of `size` iterations of a loop, which must be the whole body of a parallel
    loop, into that parallel loop, for more parallelism.
    """
    region = next((each for each in nest.parallel if each.body == [loop]), None)
    _require(region is not None, "the loop is not all that a parallel loop does")
    _require(not loop.carried and loop.step == 1, "the iterations depend on each other")
    assert region is not None
    whole = len(loop.ends) == 1 and not loop.begin.terms and not loop.begin.constant
    _require(whole, "the loop does not begin at 0 and have one end")
    (end,) = loop.ends
    _require(
        not any(isinstance(variable, Index) for variable in end.terms), "the loop's length varies"
    )
    position = nest.parallel.index(region)
    made = Copy().nest(nest)
    new = made.parallel[position]
    (inner,) = new.body
    assert isinstance(inner, Loop)
    number = Index()
    first = affine(number) * size
    inner.begin, inner.ends = first, (first + size, end)
    tiles = extent(-(-size_of_extent(end) // size))
    wider = Parallel((*new.indices, number), (*new.lengths, tiles), size, new.kind, new.lanes)
    wider.body = new.body
    made.parallel[position] = wider
    return made


def interchange(nest: Nest, outer: Loop) -> Nest:
    """Swaps a loop with the loop that is its whole body."""
    inner = outer.body[0] if len(outer.body) == 1 else None
    _require(isinstance(inner, Loop), "the loop's body is not one loop")
    assert isinstance(inner, Loop)
    _require(not outer.carried and not inner.carried, "the loops carry values")
    bounds = (inner.begin, *inner.ends)
    _require(not any(outer.index in x.terms for x in bounds), "the inner bounds vary")
    for accesses in _accesses(inner.body):
        ordered = _keep_order(accesses, outer.index, inner.index)
        _require(ordered, "iterations that touch one element may change their order")
    copy = Copy()

    def swapped(_: Loop) -> Body:
        above, below = _like(copy, inner), _like(copy, outer)
        below.body = copy.body(inner.body)
        above.body = [below]
        return [above]

    copy.instead[outer] = swapped
    return copy.nest(nest)


def unroll(nest: Nest, loop: Loop) -> Nest:
    """Unrolls a loop with constant bounds completely."""
    bounds = (loop.begin, *loop.ends)
    _require(not any(bound.terms for bound in bounds), "the bounds are not numbers")
    copy = Copy()

    def unrolled(loop: Loop) -> Body:
        made: Body = []
        for carried in loop.carried:
            copy.values[carried] = copy.value(carried.start)
        end = min(each.constant for each in loop.ends)
        for at in range(loop.begin.constant, end, loop.step):
            copy.indices[loop.index] = affine(at)
            made += copy.body(loop.body)
            updates = [copy.value(c.update) for c in loop.carried if c.update is not None]
            copy.values.update(zip(loop.carried, updates, strict=True))
        return made

    copy.instead[loop] = unrolled
    return copy.nest(nest)


def vectorise(nest: Nest, loop: Loop, lanes: int = 0) -> Nest:
    """Makes a loop a vector loop."""
    copy = Copy()

    def vector(loop: Loop) -> Body:
        made = copy.loop(loop)
        made.kind, made.lanes = "vector", lanes
        return [made]

    copy.instead[loop] = vector
    return copy.nest(nest)


def keep_in_registers(nest: Nest, loop: Loop, buffer: Buffer) -> Nest:
    """Makes an element of a buffer that each iteration of a loop reads, then writes, a carried
    value: it is loaded before the loop and stored after it.
    """
    accesses = [x for x in statements(loop.body) if _may_share(buffer, _buffers(x))]
    loads = [x for x in accesses if isinstance(x, Load)]
    stores = [x for x in accesses if isinstance(x, Store)]
    _require(len(accesses) == 2 and loads and stores, "not one read and one write of the buffer")
    ((load,), (store,)) = loads, stores
    _require(load in loop.body and store in loop.body, "an access is under a condition or a loop")
    _require(loop.body.index(load) < loop.body.index(store), "it is written before it is read")
    _require(load.lanes == store.value.lanes == 1, "several elements are read or written")
    _require(_keys(load.index) == _keys(store.index), "the accesses are to different elements")
    _require(not _varies(load.index, loop), "the element varies")
    copy = Copy()

    def kept(loop: Loop) -> Body:
        before = Load(load.dtype, buffer, copy.at(load.index))
        total = Carried(load.dtype, before)
        copy.values[load] = total
        body = [x for x in loop.body if x is not load and x is not store]
        made = copy.loop(_with_body(loop, body))
        total.update = copy.value(store.value)
        made.carried.append(total)
        return [before, made, Store(buffer, copy.at(store.index), total)]

    copy.instead[loop] = kept
    return copy.nest(nest)


def pack(nest: Nest, loop: Loop, load: Load) -> Nest:
    """Copies what a load reads in a loop to the stack before that loop. The copy has an axis for
    each loop, from this one inwards, that the index of the load depends on.
    """
    around = list(_path(loop, load))
    _require(around, "the loop does not hold the load")
    terms = {v for at in load.index if isinstance(at, Affine) for v in at.terms}
    _require(all(isinstance(at, Affine) for at in load.index), "the index is computed")
    axes = [each for each in around if each.index in terms]
    _require(axes, "the load reads one element")
    own = {each.index for each in around}
    bounds = [bound for each in axes for bound in (each.begin, *each.ends)]
    _require(not any(own & x.terms.keys() for x in bounds), "the lengths vary")
    lengths = [_constant_length(each) for each in axes]
    strides = contiguous(lengths, load.dtype.size)
    stores = [x for x in statements(loop.body) if isinstance(x, (Store, CopyBlock))]
    shared = any(_may_share(load.buffer, _buffers(x)) for x in stores)
    _require(not shared and load.lanes == 1, "the buffer is written in the loop, or read in lanes")
    name = f"packed{len(nest.buffers)}"
    memory = Buffer(name, load.dtype, tuple(lengths), strides, None, 0, load.buffer.origin)
    copy = Copy()

    def packed(loop: Loop) -> Body:
        filling = Copy()
        filling.indices.update(copy.indices)
        body: Body = []
        made = body
        for each in axes:
            new = _like(filling, each)
            body.append(new)
            body = new.body
        element = Load(load.dtype, load.buffer, filling.at(load.index))
        at = [filling.affine(affine(each.index) - each.begin) for each in axes]
        body += [element, Store(memory, tuple(at), element)]
        load_at = tuple(affine(each.index) - each.begin for each in axes)
        return [*made, _replacing(copy, loop, load, Load(load.dtype, memory, load_at))]

    copy.instead[loop] = packed
    made = copy.nest(nest)
    made.buffers.append(memory)
    return made


# Helpers of rewrites


def _like(copy: Copy, loop: Loop) -> Loop:
    """An empty loop with the same bounds, without carried values."""
    begin, ends = copy.affine(loop.begin), copy.affines(loop.ends)
    return Loop(copy.index(loop.index), begin, ends, loop.step)


def _with_body(loop: Loop, body: Body) -> Loop:
    """The same loop with another body."""
    made = Loop(
        loop.index,
        loop.begin,
        loop.ends,
        loop.step,
        loop.kind,
        loop.lanes,
        loop.carried,
        loop.copies,
    )
    made.body = body
    return made


def _replacing(copy: Copy, loop: Loop, old: Load, new: Load) -> Loop:
    """A clone of a loop with one load replaced by another."""

    def body(statements: Body) -> Body:
        found: Body = []
        for each in statements:
            if each is old:
                found.append(new)
            elif isinstance(each, Loop):
                found.append(_with_body(each, body(each.body)))
            else:
                found.append(each)
        return found

    changed = _with_body(loop, body(loop.body))
    forward = _Forwarding(copy, old, new)
    return forward.loop(changed)


class _Forwarding(Copy):
    """A copy in which the uses of a value become uses of another."""

    def __init__(self, copy: Copy, old: Value, new: Value) -> None:
        super().__init__()
        self.indices, self.values = copy.indices, copy.values
        self.old, self.new = old, new

    def value(self, value: Value) -> Value:
        return super().value(self.new if value is self.old else value)


def _path(loop: Loop, load: Load) -> Iterator[Loop]:
    """The loops around a load, from `loop` inwards; none if it is not in this loop."""
    if load in loop.body:
        yield loop
        return
    for each in loop.body:
        below = list(_path(each, load)) if isinstance(each, Loop) else []
        if below:
            yield loop
            yield from below


def _constant_length(loop: Loop) -> int:
    """The greatest possible number of iterations of a loop, whose step must be 1."""
    _require(loop.step == 1, "a loop goes in steps")
    lengths = [end - loop.begin for end in loop.ends]
    known = [each.constant for each in lengths if not each.terms]
    _require(known, "a length is not known")
    return max(0, min(known))


def _buffers(statement: Statement) -> Sequence[Buffer]:
    if isinstance(statement, CopyBlock):
        return (statement.source, statement.target)
    return (statement.buffer,) if hasattr(statement, "buffer") else ()


def _keys(index: Sequence[Affine | Value]) -> list[object]:
    return [at.key() if isinstance(at, Affine) else at for at in index]


def _may_share(buffer: Buffer, others: Sequence[Buffer]) -> bool:
    """Whether a buffer is among others, or shares an argument with one of them."""
    return any(
        each is buffer or (each.argument is not None and each.argument == buffer.argument)
        for each in others
    )


def _varies(index: Sequence[Affine | Value], loop: Loop) -> bool:
    """Whether an index may differ between iterations of a loop."""
    own: set[Variable] = {loop.index}
    for each in statements(loop.body):
        if isinstance(each, (Loop, Multiple)):
            own.add(each.index)
        elif isinstance(each, Split):
            own.update(each.indices)
    return any(not isinstance(at, Affine) or not own.isdisjoint(at.terms) for at in index)


def _accesses(body: Body) -> Iterator[list[Load | Store]]:
    """The accesses to each range of memory that is written."""
    found: list[list[Load | Store]] = []
    for each in statements(body):
        _require(not isinstance(each, (CopyBlock, Bundle)), "a block is copied, or read as one")
        if isinstance(each, (Load, Store)):
            known = next((x for x in found if _may_share(x[0].buffer, [each.buffer])), None)
            if known is None:
                found.append([each])
            else:
                known.append(each)
    return (each for each in found if any(isinstance(x, Store) for x in each))


def _keep_order(accesses: list[Load | Store], outer: Index, inner: Index) -> bool:
    """Whether iterations that touch the same element agree in one of two loops, so that swapping
    these keeps them in order. That holds if all accesses have the same index, which along some axis
    depends on just one of the loops.
    """
    first = accesses[0]
    if any(x.buffer is not first.buffer or _keys(x.index) != _keys(first.index) for x in accesses):
        return False
    return any(
        isinstance(at, Affine) and len(at.terms.keys() & {outer, inner}) == len(at.terms) == 1
        for at in first.index
    )
