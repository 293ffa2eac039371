"""Copies of nests with changes: the basis of rewrites.

A `Copy` clones every statement, with some indices, values and buffers replaced by others. A rewrite
registers a function for the loop that it changes; the statements that this function returns take
the place of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.data import (
    Apart,
    Apply,
    Body,
    Bundle,
    Carried,
    Checked,
    Chosen,
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
    Splat,
    Split,
    Statement,
    Store,
    Value,
    When,
)

__all__ = ["Copy"]


class Copy:
    """Clones a nest, and maps the indices and values of the original to those of the clone."""

    def __init__(self) -> None:
        self.indices: dict[Index, Affine] = {}
        self.values: dict[Value, Value] = {}
        # functions that return the statements to replace a loop by
        self.instead: dict[Loop, Callable[[Loop], Body]] = {}

    def nest(self, nest: Nest) -> Nest:
        """A clone of a nest that shares its buffers and symbols."""
        made = Nest()
        made.buffers, made.symbols = list(nest.buffers), list(nest.symbols)
        made.independent, made.elementwise = nest.independent, nest.elementwise
        made.strategy = nest.strategy
        for region in nest.parallel:
            made.parallel.append(self.region(region))
        return made

    def region(self, region: Parallel) -> Parallel:
        """A clone of a parallel loop."""
        indices = tuple(self.index(each) for each in region.indices)
        made = Parallel(indices, region.lengths, region.work, region.kind, region.lanes)
        made.grain = region.grain
        made.body = self.body(region.body)
        return made

    def index(self, index: Index) -> Index:
        """Maps an index to a fresh one."""
        made = Index()
        self.indices[index] = affine(made)
        return made

    def affine(self, x: Affine) -> Affine:
        """An affine expression in terms of the new indices."""
        found = Affine({}, x.constant)
        for variable, factor in x.terms.items():
            new = self.indices.get(variable) if isinstance(variable, Index) else None
            found = found + (affine(variable) if new is None else new) * factor
        return found

    def affines(self, several: tuple[Affine, ...]) -> tuple[Affine, ...]:
        """Affine expressions in terms of the new indices."""
        return tuple(map(self.affine, several))

    def at(self, index: Indices) -> Indices:
        """The index of an element, in terms of the new indices and values."""
        return tuple(self.affine(at) if isinstance(at, Affine) else self.value(at) for at in index)

    def value(self, value: Value) -> Any:
        """The counterpart of a value. Those that are not statements are cloned on demand."""
        found = self.values.get(value)
        if found is None and isinstance(value, Position):
            found = Position(value.dtype, self.affine(value.position))
        elif found is None and isinstance(value, Checked):
            found = Checked(value.dtype, self.value(value.value), value.bound)
        return value if found is None else found

    def body(self, body: Body) -> Body:
        """Clones of the statements of a body."""
        made: Body = []
        for statement in body:
            if isinstance(statement, Loop) and statement in self.instead:
                made += self.instead[statement](statement)
            elif isinstance(statement, Value):
                new = self._computed(statement)
                new.origin = statement.origin
                self.values[statement] = new
                made.append(new)
            else:
                made.append(self._statement(statement))
        return made

    def loop(self, loop: Loop) -> Loop:
        """A clone of a loop."""
        begin, ends = self.affine(loop.begin), self.affines(loop.ends)
        carried = [Carried(c.dtype, self.value(c.start), c.origin) for c in loop.carried]
        index = self.index(loop.index)
        made = Loop(index, begin, ends, loop.step, loop.kind, loop.lanes, carried, loop.copies)
        self.values.update(zip(loop.carried, carried, strict=True))
        made.body = self.body(loop.body)
        for old, new in zip(loop.carried, carried, strict=True):
            assert old.update is not None
            new.update = self.value(old.update)
        return made

    def _computed(self, x: Any) -> Any:
        """A clone of a value that is a statement."""
        if isinstance(x, Apply):
            return Apply(x.dtype, x.word, tuple(map(self.value, x.operands)), x.parameter)
        if isinstance(x, Load):
            limit = None if x.limit is None else self.affine(x.limit)
            return Load(x.dtype, x.buffer, self.at(x.index), x.lanes, limit, x.ahead)
        if isinstance(x, Bundle):
            return Bundle(x.dtype, x.buffer)
        if isinstance(x, Joined):
            return Joined(x.dtype, tuple(map(self.value, x.parts)), x.lengths)
        if isinstance(x, Splat):
            return Splat(x.dtype, self.value(x.value), x.lanes)
        assert isinstance(x, Lanes)
        return Lanes(x.dtype, tuple(map(self.value, x.values)), x.picks)

    def _statement(self, x: Statement) -> Statement:
        if isinstance(x, Loop):
            return self.loop(x)
        if isinstance(x, Store):
            limit = None if x.limit is None else self.affine(x.limit)
            store = Store(x.buffer, self.at(x.index), self.value(x.value), limit)
            store.nontemporal = x.nontemporal
            return store
        if isinstance(x, When):
            made = When(self.value(x.value), self.affine(x.low), self.affine(x.high))
            made.body = self.body(x.body)
            return made
        if isinstance(x, Multiple):
            base, ends = self.affine(x.base), self.affines(x.ends)
            return Multiple(self.index(x.index), base, ends, x.by)
        if isinstance(x, Split):
            number = self.affine(x.number)
            return Split(tuple(map(self.index, x.indices)), number, x.lengths)
        if isinstance(x, Apart):
            apart = Apart(x.buffers)
            apart.body = self.body(x.body)
            return apart
        if isinstance(x, Mask):
            return self._mask(x)
        if isinstance(x, Prefetch):
            return Prefetch(x.buffer, self.affines(x.index))
        assert isinstance(x, CopyBlock)
        return CopyBlock(
            x.target, self.at(x.index), x.source, self.at(x.source_index), x.axes, x.side
        )

    def _mask(self, mask: Mask) -> Mask:
        """A clone of a mask. Its index must have been mapped to an index, not to another
        expression.
        """
        (index,) = self.indices.get(mask.index, affine(mask.index)).terms
        assert isinstance(index, Index)
        made = Mask(index, self.affines(mask.ends))
        made.body = self.body(mask.body)
        for chosen in mask.results:
            new = Chosen(chosen.dtype, self.value(chosen.value), chosen.other)
            self.values[chosen] = new
            made.results.append(new)
        return made
