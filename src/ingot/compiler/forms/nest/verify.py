"""The verifier of loop nests.

In a nest that passes, values are used after they are computed and with the right dtypes; each
carried value is combined with its previous value; all accesses are proven, from the bounds of the
loops, to be inside their buffers; and no two parallel iterations touch an element that one of
them writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingot.compiler.forms.affine import (
    Affine,
    Index,
    Variable,
    affine,
    size_of_extent,
)
from ingot.compiler.forms.nest.data import (
    Apart,
    Apply,
    Body,
    Buffer,
    Bundle,
    Carried,
    CopyBlock,
    Joined,
    Lanes,
    Load,
    Loop,
    Mask,
    Multiple,
    Nest,
    Parallel,
    Prefetch,
    Splat,
    Split,
    Store,
    When,
)
from ingot.compiler.forms.nest.facts import depends, extent_keys, moved
from ingot.compiler.forms.nest.races import Access, are_disjoint, never_meet
from ingot.compiler.forms.nest.scope import NestError, Scope, require
from ingot.compiler.forms.nest.words import WORDS, arity, operand_dtypes, result_dtype
from ingot.graph.dtype import bool_, int64, is_inexact

__all__ = ["NestError", "verify"]

_VALUES = (Apply, Load, Bundle, Splat, Lanes, Joined)  # values that are statements
# words that give the same result in any order, whatever the dtype
_ORDERLESS = frozenset("largest smallest bitwise_and bitwise_or bitwise_xor".split())
_COMBINING = frozenset(("add", "multiply", *_ORDERLESS))


def verify(nest: Nest, races: bool = True) -> None:
    """Raises a NestError that states the problem unless a nest is sound.

    Args:
        nest: The nest.
        races: Whether to prove the absence of races as well.
    """
    _Verifier(nest, races).run()


class _Verifier:
    def __init__(self, nest: Nest, races: bool) -> None:
        self.nest = nest
        self.races = races
        self.scope = Scope(nest)
        self.multiples: dict[Variable, Multiple] = {}
        self.checks: dict[type, Callable[[Any], None]] = {
            Apart: self._apart,
            Apply: self._apply,
            Bundle: self._bundle,
            CopyBlock: self._copy,
            Joined: self._join,
            Lanes: self._lanes,
            Load: self._load,
            Loop: self._loop,
            Mask: self._mask,
            Multiple: self._multiple,
            Prefetch: self._prefetch,
            Splat: self._splat,
            Split: self._split,
            Store: self._store,
            When: self._when,
        }

    def run(self) -> None:
        for buffer in self.nest.buffers:
            self._buffer(buffer)
        require(self.nest.parallel, "a nest has a parallel loop, if only of one iteration")
        before: list[Access] = []
        for region in self.nest.parallel:
            shared = self._parallel(region)
            require(
                not self.races or never_meet(self.scope.bounds, before, shared),
                "two parallel loops touch an element that one of them writes",
            )
            before += shared

    def _buffer(self, buffer: Buffer) -> None:
        ranks = len(buffer.shape), len(buffer.strides)
        require(ranks[0] == ranks[1], f"{buffer.name} has {ranks[0]} axes and {ranks[1]} strides")
        for extent in (*buffer.shape, *buffer.strides):
            self.scope.use_extent(extent, f"the layout of {buffer.name}")
        if buffer.argument is None:
            require(buffer.packed(), f"{buffer.name} is on the stack, where rows follow each other")

    # Loops

    def _parallel(self, region: Parallel) -> list[Access]:
        """Checks a parallel loop; returns its accesses to memory that threads share."""
        require(len(region.indices) == len(region.lengths), "each index has a length")
        require(
            len(self.nest.parallel) == 1 or len(region.lengths) == 1,
            "several parallel loops have one index each",
        )
        for index, length in zip(region.indices, region.lengths, strict=True):
            self.scope.use_extent(length, "a parallel loop")
            self.scope.define(index, [affine(0)], [affine(length) - 1])
        self.scope.accesses = []
        self._body(region.body)
        # memory on the stack is private to an iteration
        shared = [access for access in self.scope.accesses if access.buffer.argument is not None]
        require(
            not self.races or are_disjoint(self.scope.bounds, region.indices, shared),
            "two iterations of the parallel loop may touch an element that one of them writes",
        )
        self.scope.variables.difference_update(region.indices)
        return shared

    def _loop(self, loop: Loop) -> None:
        require(loop.step > 0, "a loop goes forward")
        require(loop.ends, "a loop has an end")
        for bound in (loop.begin, *loop.ends):
            self.scope.use_affine(bound, "the bound of a loop")
        if loop.kind == "unroll":
            constant = all(not bound.terms for bound in (loop.begin, *loop.ends))
            require(constant, "a loop that is written out has constant bounds")
        for carried in loop.carried:
            self.scope.use_value(carried.start, "the start of a carried value")
            require(carried.dtype is carried.start.dtype, "a carried value starts with its dtype")
        most = [end - self._last_step(loop, end) for end in loop.ends]
        self.scope.define(loop.index, [loop.begin], most)
        outside = set(self.scope.known)
        self.scope.known.update(loop.carried)
        first = len(self.scope.accesses)
        self._body(loop.body)
        for carried in loop.carried:
            self._carried(carried)
        if loop.kind in ("vector", "masked", "lanes"):
            self._vector(loop, self.scope.accesses[first:])
        self.scope.known = outside | set(loop.carried)
        self.scope.variables.remove(loop.index)

    def _last_step(self, loop: Loop, end: Affine) -> int:
        """A lower bound of the distance from the last iteration to `end`: a whole step if a whole
        number of steps leads there.
        """
        length = end - loop.begin
        if not length.terms:
            return (length.constant - 1) % loop.step + 1
        if len(end.terms) == 1 and not end.constant:
            (variable,) = end.terms
            whole = self.multiples.get(variable)
            if whole is not None and whole.by == loop.step:
                return loop.step if whole.base.key() == loop.begin.key() else 1
        return 1

    def _carried(self, carried: Carried) -> None:
        require(carried.update is not None, "a carried value is never updated")
        assert carried.update is not None
        self.scope.use_value(carried.update, "the update of a carried value")
        require(carried.update.dtype is carried.dtype, "a carried value keeps its dtype")
        require(
            depends(carried.update, carried), "a carried value is not combined with what it was"
        )

    def _vector(self, loop: Loop, accesses: list[Access]) -> None:
        innermost = not any(isinstance(statement, Loop) for statement in loop.body)
        require(innermost, "a vector loop is innermost")
        for carried in loop.carried:
            update = carried.update
            combines = isinstance(update, Apply) and update.word in _COMBINING
            require(combines, "what a vector loop carries is combined by one word")
            assert isinstance(update, Apply)
            require(
                update.word in _ORDERLESS or not is_inexact(carried.dtype),
                "what a vector loop carries may be combined in any order",
            )
        around = self.scope.variables - {loop.index}
        require(
            not self.races or are_disjoint(self.scope.bounds, (loop.index,), accesses, around),
            "two iterations of a vector loop may touch an element that one of them writes",
        )

    def _when(self, when: When) -> None:
        self.scope.use_value(when.value, "a condition")
        require(when.value.dtype is int64, "a condition is about an int64")
        for bound in (when.low, when.high):
            self.scope.use_affine(bound, "a condition")
        outside, before = set(self.scope.known), self.scope.guards.get(when.value)
        self.scope.guards[when.value] = (when.low, when.high)
        self._body(when.body)
        self.scope.known = outside
        if before is None:
            del self.scope.guards[when.value]
        else:
            self.scope.guards[when.value] = before

    def _mask(self, mask: Mask) -> None:
        require(mask.index in self.scope.variables, "a mask is about an index of a loop around it")
        for end in mask.ends:
            self.scope.use_affine(end, "a mask")
        outside, limits = set(self.scope.known), len(self.scope.limits)
        with self.scope.bounds.narrowed(mask.index, [end - 1 for end in mask.ends]):
            self.scope.limits += ((mask.index, end) for end in mask.ends)
            self._body(mask.body)
            del self.scope.limits[limits:]
            for chosen in mask.results:
                self.scope.use_value(chosen.value, "a choice")
                require(
                    chosen.dtype is chosen.value.dtype is chosen.other.dtype,
                    "both values of a choice have its dtype",
                )
        self.scope.known = outside | set(mask.results)

    def _multiple(self, multiple: Multiple) -> None:
        for bound in (multiple.base, *multiple.ends):
            self.scope.use_affine(bound, "a multiple")
        for end in multiple.ends:
            require(
                self.scope.bounds.is_not_negative(end - multiple.base),
                "a multiple is of no less than 0",
            )
        self.scope.define(multiple.index, [multiple.base], list(multiple.ends))
        self.multiples[multiple.index] = multiple

    def _split(self, split: Split) -> None:
        self.scope.use_affine(split.number, "a split")
        size = 1
        for length in split.lengths:
            self.scope.use_extent(length, "a split")
            size *= size_of_extent(length)
        inside = self.scope.bounds.is_not_negative(
            split.number
        ) and self.scope.bounds.is_not_negative(affine(size - 1) - split.number)
        require(inside, "a number that is split is not proven to be that of an element")
        for index, length in zip(split.indices, split.lengths, strict=True):
            self.scope.define(index, [affine(0)], [affine(length) - 1])
        self.scope.splits.append(split)

    # Statements

    def _body(self, body: Body) -> None:
        named: list[Index] = []
        splits = len(self.scope.splits)
        for statement in body:
            self.checks[type(statement)](statement)
            if isinstance(statement, _VALUES):
                self.scope.known.add(statement)
            elif isinstance(statement, Split):
                named.extend(statement.indices)
            elif isinstance(statement, Multiple):
                named.append(statement.index)
        self.scope.variables.difference_update(named)
        del self.scope.splits[splits:]

    def _load(self, load: Load) -> None:
        is_same = load.dtype is load.buffer.dtype
        require(is_same, f"what is read of {load.buffer.name} has its dtype")
        self.scope.access_lanes(load.buffer, load.index, load.lanes, load.limit, False)

    def _store(self, store: Store) -> None:
        buffer, value = store.buffer, store.value
        self.scope.use_value(value, f"what is written to {buffer.name}")
        require(
            value.dtype is buffer.dtype,
            f"{buffer.name} holds {buffer.dtype.name}, and {value.dtype.name} is written to it",
        )
        self.scope.access_lanes(buffer, store.index, value.lanes, store.limit, True)

    def _splat(self, splat: Splat) -> None:
        self.scope.use_value(splat.value, "a splat")
        is_whole = splat.lanes % splat.value.lanes == 0
        require(is_whole, "each element of a splat is in as many lanes")

    def _lanes(self, lanes: Lanes) -> None:
        for each in lanes.values:
            self.scope.use_value(each, "a choice of lanes")
        widths = [each.lanes for each in lanes.values]
        require(
            1 <= len(widths) <= 2 and len({*widths}) == 1,
            f"lanes are chosen from one or two bundles of one width, not from {widths} lanes",
        )
        first, last = min(lanes.picks), max(lanes.picks)
        require(
            first >= 0 and last < sum(widths),
            f"bundles of {sum(widths)} lanes have no lanes {first}..{last + 1}",
        )

    def _join(self, joined: Joined) -> None:
        for part in joined.parts:
            self.scope.use_value(part, "a join of indices")
        require(
            extent_keys([part.bound for part in joined.parts]) == extent_keys(joined.lengths),
            "indices that are joined are inside of their axes",
        )

    def _apart(self, apart: Apart) -> None:
        for buffer in apart.buffers:
            require(buffer.argument is not None, "what may be the same is an argument")
        outside = set(self.scope.known)
        self._body(apart.body)
        self.scope.known = outside

    def _bundle(self, bundle: Bundle) -> None:
        buffer = bundle.buffer
        require(buffer in self.scope.buffers, f"{buffer.name} is no buffer of the nest")
        require(buffer.argument is None, f"{buffer.name} is a bundle, and not on the stack")
        require(bundle.dtype is buffer.dtype, f"what is read of {buffer.name} has its dtype")
        self.scope.accesses.append(Access(buffer, (affine(0),), False))

    def _prefetch(self, prefetch: Prefetch) -> None:
        for at in prefetch.index:
            self.scope.use_affine(at, f"what is fetched of {prefetch.buffer.name}")

    def _copy(self, block: CopyBlock) -> None:
        source, target = block.source, block.target
        down, _ = block.axes
        require(source.dtype is target.dtype, "a transposed block keeps its dtype")
        require(len(target.shape) >= 2, "a transposed block is written to rows and columns")
        stride = source.strides[down]
        require(
            block.side == 1 or stride in (source.dtype.size, -source.dtype.size),
            f"the columns of a block of {source.name} are not contiguous",
        )
        last = block.side - 1
        for distance in {0, last}:
            ends = dict.fromkeys(block.axes, distance)
            self.scope.access(source, moved(block.source_index, ends), False)
            last_two = dict.fromkeys(range(len(target.shape))[-2:], distance)
            self.scope.access(target, moved(block.index, last_two), True)

    def _apply(self, value: Apply) -> None:
        word, operands = value.word, value.operands
        require(word in WORDS, f"the kernel vocabulary has no word {word}")
        count = arity(word)
        require(len(operands) == count, f"{word} takes {count} operands, not {len(operands)}")
        for operand in operands:
            self.scope.use_value(operand, word)
        if word == "select":
            require(operands[0].dtype is bool_, "select chooses by a bool")
        wanted = operand_dtypes(word, operands)
        require(
            all(each.dtype is dtype for each, dtype in zip(operands, wanted, strict=True)),
            f"the operands of {word} have equal dtypes",
        )
        require(
            all(each.lanes == operands[0].lanes for each in operands),
            f"the operands of {word} have equally many lanes",
        )
        expected = result_dtype(word, operands, value.parameter)
        require(
            value.dtype is expected,
            f"{word} gives {expected.name}, not {value.dtype.name}",
        )
