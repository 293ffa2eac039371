"""The verifier of loop nests.

In a nest that passes, values are used after they are computed and with the right dtypes; each
carried value is combined with its previous value; all accesses are proven, from the bounds of the
loops, to be inside of their buffers; and no two parallel iterations touch an element that one of
them writes.
"""

from __future__ import annotations

from ingot.compiler.forms.affine import (
    Affine,
    Extent,
    Index,
    Symbol,
    Variable,
    affine,
    size_of_extent,
)
from ingot.compiler.forms.bounds import Bounds
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
from ingot.compiler.forms.nest.facts import axis_keys, depends, extent_keys, is_bare, moved
from ingot.compiler.forms.nest.races import Access, are_disjoint, never_meet
from ingot.compiler.forms.nest.words import WORDS, arity, operand_dtypes, result_dtype
from ingot.graph.dtype import bool_, int64, is_inexact

__all__ = ["NestError", "verify"]

_VALUES = (Apply, Load, Bundle, Splat, Lanes, Joined)  # values that are statements
# words that give the same result in any order, whatever the dtype
_ORDERLESS = frozenset("largest smallest bitwise_and bitwise_or bitwise_xor".split())
_COMBINING = frozenset(("add", "multiply", *_ORDERLESS))


class NestError(AssertionError):
    """A nest is unsound and must not be compiled."""


def verify(nest: Nest, races: bool = True) -> None:
    """Raises a NestError that states the problem unless a nest is sound.

    Args:
        nest: The nest.
        races: Whether to prove the absence of races, too.
    """
    _Verifier(nest, races).run()


def _require(holds: object, problem: str) -> None:
    if not holds:
        raise NestError(problem)


class _Verifier:
    def __init__(self, nest: Nest, races: bool) -> None:
        self.nest = nest
        self.races = races
        self.buffers = set(nest.buffers)
        self.scope: set[Variable] = set(nest.symbols)
        self.splits: list[Split] = []
        self.limits: list[tuple[Index, Affine]] = []  # of the enclosing masks
        self.multiples: dict[Variable, Multiple] = {}
        self.bounds = Bounds()
        self.known: set[Value] = set()
        self.guards: dict[Value, tuple[Affine, Affine]] = {}
        self.accesses: list[Access] = []

    def run(self) -> None:
        for buffer in self.nest.buffers:
            self._buffer(buffer)
        _require(self.nest.parallel, "a nest has a parallel loop, if only of one iteration")
        before: list[Access] = []
        for region in self.nest.parallel:
            self._parallel(region)
            shared = [access for access in self.accesses if access.buffer.argument is not None]
            _require(
                not self.races or never_meet(self.bounds, before, shared),
                "two parallel loops touch an element that one of them writes",
            )
            before += shared

    def _buffer(self, buffer: Buffer) -> None:
        ranks = len(buffer.shape), len(buffer.strides)
        _require(ranks[0] == ranks[1], f"{buffer.name} has {ranks[0]} axes and {ranks[1]} strides")
        for extent in (*buffer.shape, *buffer.strides):
            self._extent(extent, f"the layout of {buffer.name}")
        if buffer.argument is None:
            _require(
                buffer.packed(), f"{buffer.name} is on the stack, where rows follow each other"
            )

    def _extent(self, extent: Extent, where: str) -> None:
        for variable in affine(extent).terms:
            _require(
                isinstance(variable, Symbol) and variable in self.scope,
                f"{where} uses a number that the kernel is not given",
            )

    # Loops

    def _parallel(self, region: Parallel) -> None:
        _require(len(region.indices) == len(region.lengths), "each index has a length")
        _require(
            len(self.nest.parallel) == 1 or len(region.lengths) == 1,
            "several parallel loops have one index each",
        )
        for index, length in zip(region.indices, region.lengths, strict=True):
            self._extent(length, "a parallel loop")
            self._define(index, [affine(0)], [affine(length) - 1])
        self.accesses = []
        self._body(region.body)
        # memory on the stack is private to an iteration
        shared = [access for access in self.accesses if access.buffer.argument is not None]
        _require(
            not self.races or are_disjoint(self.bounds, region.indices, shared),
            "two iterations of the parallel loop may touch an element that one of them writes",
        )
        self.scope.difference_update(region.indices)

    def _define(self, index: Index, least: list[Affine], most: list[Affine]) -> None:
        _require(not self.bounds.knows(index), "an index belongs to one loop")
        self.bounds.define(index, least, most)
        self.scope.add(index)

    def _loop(self, loop: Loop) -> None:
        _require(loop.step > 0, "a loop goes forward")
        _require(loop.ends, "a loop has an end")
        for bound in (loop.begin, *loop.ends):
            self._affine(bound, "the bound of a loop")
        if loop.kind == "unroll":
            constant = all(not bound.terms for bound in (loop.begin, *loop.ends))
            _require(constant, "a loop that is written out has constant bounds")
        for carried in loop.carried:
            self._use(carried.start, "the start of a carried value")
            _require(carried.dtype is carried.start.dtype, "a carried value starts with its dtype")
        most = [end - self._last_step(loop, end) for end in loop.ends]
        self._define(loop.index, [loop.begin], most)
        outside = set(self.known)
        self.known.update(loop.carried)
        first = len(self.accesses)
        self._body(loop.body)
        for carried in loop.carried:
            self._carried(carried)
        if loop.kind in ("vector", "masked", "lanes"):
            self._vector(loop, self.accesses[first:])
        self.known = outside | set(loop.carried)
        self.scope.remove(loop.index)

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
        _require(carried.update is not None, "a carried value is never updated")
        assert carried.update is not None
        self._use(carried.update, "the update of a carried value")
        _require(carried.update.dtype is carried.dtype, "a carried value keeps its dtype")
        _require(
            depends(carried.update, carried), "a carried value is not combined with what it was"
        )

    def _vector(self, loop: Loop, accesses: list[Access]) -> None:
        innermost = not any(isinstance(statement, Loop) for statement in loop.body)
        _require(innermost, "a vector loop is innermost")
        for carried in loop.carried:
            update = carried.update
            combines = isinstance(update, Apply) and update.word in _COMBINING
            _require(combines, "what a vector loop carries is combined by one word")
            assert isinstance(update, Apply)
            _require(
                update.word in _ORDERLESS or not is_inexact(carried.dtype),
                "what a vector loop carries may be combined in any order",
            )
        around = self.scope - {loop.index}
        _require(
            not self.races or are_disjoint(self.bounds, (loop.index,), accesses, around),
            "two iterations of a vector loop may touch an element that one of them writes",
        )

    def _when(self, when: When) -> None:
        self._use(when.value, "a condition")
        _require(when.value.dtype is int64, "a condition is about an int64")
        for bound in (when.low, when.high):
            self._affine(bound, "a condition")
        outside, before = set(self.known), self.guards.get(when.value)
        self.guards[when.value] = (when.low, when.high)
        self._body(when.body)
        self.known = outside
        if before is None:
            del self.guards[when.value]
        else:
            self.guards[when.value] = before

    def _mask(self, mask: Mask) -> None:
        _require(mask.index in self.scope, "a mask is about an index of a loop around it")
        for end in mask.ends:
            self._affine(end, "a mask")
        outside, limits = set(self.known), len(self.limits)
        with self.bounds.narrowed(mask.index, [end - 1 for end in mask.ends]):
            self.limits += ((mask.index, end) for end in mask.ends)
            self._body(mask.body)
            del self.limits[limits:]
            for chosen in mask.results:
                self._use(chosen.value, "a choice")
                _require(
                    chosen.dtype is chosen.value.dtype is chosen.other.dtype,
                    "both values of a choice have its dtype",
                )
        self.known = outside | set(mask.results)

    def _multiple(self, multiple: Multiple) -> None:
        for bound in (multiple.base, *multiple.ends):
            self._affine(bound, "a multiple")
        for end in multiple.ends:
            _require(
                self.bounds.is_not_negative(end - multiple.base), "a multiple is of no less than 0"
            )
        self._define(multiple.index, [multiple.base], list(multiple.ends))
        self.multiples[multiple.index] = multiple

    def _split(self, split: Split) -> None:
        self._affine(split.number, "a split")
        size = 1
        for length in split.lengths:
            self._extent(length, "a split")
            size *= size_of_extent(length)
        inside = self.bounds.is_not_negative(split.number) and self.bounds.is_not_negative(
            affine(size - 1) - split.number
        )
        _require(inside, "a number that is split is not proven to be that of an element")
        for index, length in zip(split.indices, split.lengths, strict=True):
            self._define(index, [affine(0)], [affine(length) - 1])
        self.splits.append(split)

    # Statements

    def _body(self, body: Body) -> None:
        named: list[Index] = []
        splits = len(self.splits)
        for statement in body:
            if isinstance(statement, Apply):
                self._apply(statement)
            elif isinstance(statement, Load):
                self._load(statement)
            elif isinstance(statement, Store):
                self._store(statement)
            elif isinstance(statement, Loop):
                self._loop(statement)
            elif isinstance(statement, When):
                self._when(statement)
            elif isinstance(statement, Mask):
                self._mask(statement)
            elif isinstance(statement, Bundle):
                self._bundle(statement)
            elif isinstance(statement, (Lanes, Splat)):
                self._lanes(statement)
            elif isinstance(statement, Joined):
                self._join(statement)
            elif isinstance(statement, Split):
                self._split(statement)
                named.extend(statement.indices)
            elif isinstance(statement, Apart):
                self._apart(statement)
            elif isinstance(statement, Multiple):
                self._multiple(statement)
                named.append(statement.index)
            else:
                self._copy(statement)
            if isinstance(statement, _VALUES):
                self.known.add(statement)
        self.scope.difference_update(named)
        del self.splits[splits:]

    def _load(self, load: Load) -> None:
        is_same = load.dtype is load.buffer.dtype
        _require(is_same, f"what is read of {load.buffer.name} has its dtype")
        self._access_lanes(load.buffer, load.index, load.lanes, load.limit, False)

    def _store(self, store: Store) -> None:
        buffer, value = store.buffer, store.value
        self._use(value, f"what is written to {buffer.name}")
        _require(
            value.dtype is buffer.dtype,
            f"{buffer.name} holds {buffer.dtype.name}, and {value.dtype.name} is written to it",
        )
        self._access_lanes(buffer, store.index, value.lanes, store.limit, True)

    def _access_lanes(
        self, buffer: Buffer, index: Indices, lanes: int, limit: Affine | None, writes: bool
    ) -> None:
        """Checks an access to adjacent elements along the last axis that are below the limit."""
        if lanes == 1 and limit is None:
            self._access(buffer, index, writes)
            return
        _require(
            bool(index) and buffer.strides[-1] == buffer.dtype.size,
            f"the lanes of a bundle of {buffer.name} are not adjacent",
        )
        *_, first = index
        assert isinstance(first, Affine)
        if limit is None:
            self._access(buffer, index, writes)
            self._access(buffer, (*index[:-1], first + (lanes - 1)), writes)
            return
        self._affine(limit, f"the limit of a bundle of {buffer.name}")
        lane = Index()  # the index of any lane that is accessed
        self.bounds.define(lane, [first], [first + (lanes - 1), limit - 1])
        self.scope.add(lane)
        self._access(buffer, (*index[:-1], affine(lane)), writes)

    def _lanes(self, lanes: Lanes | Splat) -> None:
        if isinstance(lanes, Splat):
            self._use(lanes.value, "a splat")
            is_whole = lanes.lanes % lanes.value.lanes == 0
            _require(is_whole, "each element of a splat is in as many lanes")
            return
        self._use(lanes.value, "a choice of lanes")
        last = lanes.first + (lanes.lanes - 1) * lanes.stride + 1
        _require(
            0 <= lanes.first < last <= lanes.value.lanes,
            f"a bundle of {lanes.value.lanes} has no lanes {lanes.first}..{last}",
        )

    def _join(self, joined: Joined) -> None:
        for part in joined.parts:
            self._use(part, "a join of indices")
        _require(
            extent_keys([part.bound for part in joined.parts]) == extent_keys(joined.lengths),
            "indices that are joined are inside of their axes",
        )

    def _apart(self, apart: Apart) -> None:
        for buffer in apart.buffers:
            _require(buffer.argument is not None, "what may be the same is an argument")
        outside = set(self.known)
        self._body(apart.body)
        self.known = outside

    def _bundle(self, bundle: Bundle) -> None:
        buffer = bundle.buffer
        _require(buffer in self.buffers, f"{buffer.name} is no buffer of the nest")
        _require(buffer.argument is None, f"{buffer.name} is a bundle, and not on the stack")
        _require(bundle.dtype is buffer.dtype, f"what is read of {buffer.name} has its dtype")
        self.accesses.append(Access(buffer, (affine(0),), False))

    def _copy(self, block: CopyBlock | Prefetch) -> None:
        if isinstance(block, Prefetch):
            for at in block.index:
                self._affine(at, f"what is fetched of {block.buffer.name}")
            return
        source, target = block.source, block.target
        down, _ = block.axes
        _require(source.dtype is target.dtype, "a transposed block keeps its dtype")
        _require(len(target.shape) >= 2, "a transposed block is written to rows and columns")
        stride = source.strides[down]
        _require(
            block.side == 1 or stride in (source.dtype.size, -source.dtype.size),
            f"the columns of a block of {source.name} are not contiguous",
        )
        last = block.side - 1
        for distance in {0, last}:
            ends = dict.fromkeys(block.axes, distance)
            self._access(source, moved(block.source_index, ends), False)
            last_two = dict.fromkeys(range(len(target.shape))[-2:], distance)
            self._access(target, moved(block.index, last_two), True)

    def _apply(self, value: Apply) -> None:
        word, operands = value.word, value.operands
        _require(word in WORDS, f"the kernel vocabulary has no word {word}")
        count = arity(word)
        _require(len(operands) == count, f"{word} takes {count} operands, not {len(operands)}")
        for operand in operands:
            self._use(operand, word)
        if word == "select":
            _require(operands[0].dtype is bool_, "select chooses by a bool")
        wanted = operand_dtypes(word, operands)
        _require(
            all(each.dtype is dtype for each, dtype in zip(operands, wanted, strict=True)),
            f"the operands of {word} have equal dtypes",
        )
        _require(
            all(each.lanes == operands[0].lanes for each in operands),
            f"the operands of {word} have equally many lanes",
        )
        expected = result_dtype(word, operands, value.parameter)
        _require(
            value.dtype is expected,
            f"{word} gives {expected.name}, not {value.dtype.name}",
        )

    # Values and indices

    def _use(self, value: Value, where: str) -> None:
        if isinstance(value, (Constant, Repeated)):
            return
        if isinstance(value, Position):
            self._affine(value.position, where)
            return
        if isinstance(value, Checked):
            self._use(value.value, where)
            _require(value.value.dtype is int64, "an index that was checked is an int64")
            self._extent(value.bound, "the bound of an index")
            return
        _require(value in self.known, f"{where} uses a value that is not computed before it")

    def _affine(self, x: Affine, where: str) -> None:
        known = self.scope.issuperset(x.terms)
        _require(known, f"{where} uses an index of a loop that is not around it")

    def _access(self, buffer: Buffer, index: Indices, writes: bool) -> None:
        _require(buffer in self.buffers, f"{buffer.name} is no buffer of the nest")
        _require(
            len(index) == len(buffer.shape),
            f"{buffer.name} has {len(buffer.shape)} axes and is indexed by {len(index)}",
        )
        found: list[Affine] = []
        for at, length in zip(index, buffer.shape, strict=True):
            position = at if isinstance(at, Affine) else self._bounded(at, buffer)
            if isinstance(at, Affine):
                self._affine(at, f"an index of {buffer.name}")
            inside = self.bounds.is_not_negative(position) and self.bounds.is_not_negative(
                affine(length) - position - 1
            )
            _require(inside, f"an index of {buffer.name} is not proven to be inside of it")
            found.append(position)
        joined = self._joined(index, buffer)
        limits = tuple(self.limits)
        self.accesses.append(
            Access(buffer, tuple(found), writes, joined, tuple(self.splits), limits)
        )

    def _joined(self, index: Indices, buffer: Buffer) -> tuple[tuple[int, ...], Affine] | None:
        """The axes whose indices are the parts of one linear index, and that index, if it is
        bounded.
        """
        for value in self.guards:
            if isinstance(value, Joined) and all(part in index for part in value.parts):
                axes = tuple(index.index(part) for part in value.parts)
                if axis_keys(buffer, axes) == extent_keys(value.lengths):
                    return axes, self._bounded(value, buffer)
        bare = [next(iter(at.terms)) if is_bare(at) else None for at in index]
        for split in self.splits:
            if all(each in bare for each in split.indices):
                axes = tuple(bare.index(each) for each in split.indices)
                if axis_keys(buffer, axes) == extent_keys(split.lengths):
                    return axes, split.number
        return None

    def _bounded(self, value: Value, buffer: Buffer) -> Affine:
        """A computed index as a new variable with known bounds."""
        self._use(value, f"an index of {buffer.name}")
        least, most = [], []
        if isinstance(value, Checked):
            least.append(affine(0))
            most.append(affine(value.bound) - 1)
        guard = self.guards.get(value)
        if guard is not None:
            least.append(guard[0])
            most.append(guard[1] - 1)
        _require(least, f"an index of {buffer.name} is computed and unchecked")
        index = Index()
        self.bounds.define(index, least, most)
        return affine(index)
