"""What is in scope at a statement of a loop nest, for the verifier.

A `Scope` knows the variables and their bounds, the values computed so far, and what conditions and
masks establish. It checks every use of a value or an index against that, proves that accesses are
in bounds, and records them, so that races can be ruled out afterwards.
"""

from __future__ import annotations

from ingot.compiler.forms.affine import Affine, Extent, Index, Symbol, Variable, affine
from ingot.compiler.forms.bounds import Bounds
from ingot.compiler.forms.nest.data import (
    Buffer,
    Checked,
    Constant,
    Indices,
    Joined,
    Nest,
    Position,
    Repeated,
    Split,
    Value,
)
from ingot.compiler.forms.nest.facts import axis_keys, extent_keys, is_bare
from ingot.compiler.forms.nest.races import Access
from ingot.graph.dtype import int64

__all__ = ["NestError", "Scope", "require"]


class NestError(AssertionError):
    """A nest is unsound and must not be compiled."""


def require(holds: object, problem: str) -> None:
    """Raises a NestError that states the problem unless a condition holds."""
    if not holds:
        raise NestError(problem)


class Scope:
    """The variables, values and conditions in scope, and the accesses seen so far."""

    def __init__(self, nest: Nest) -> None:
        self.buffers = set(nest.buffers)
        self.variables: set[Variable] = set(nest.symbols)
        self.bounds = Bounds()
        self.known: set[Value] = set()
        self.guards: dict[Value, tuple[Affine, Affine]] = {}  # of the enclosing conditions
        self.limits: list[tuple[Index, Affine]] = []  # of the enclosing masks
        self.splits: list[Split] = []
        self.accesses: list[Access] = []

    def define(self, index: Index, least: list[Affine], most: list[Affine]) -> None:
        """Brings an index with these bounds into scope."""
        require(not self.bounds.knows(index), "an index belongs to one loop")
        self.bounds.define(index, least, most)
        self.variables.add(index)

    def use_extent(self, extent: Extent, where: str) -> None:
        """Checks that an extent depends only on arguments of the kernel."""
        for variable in affine(extent).terms:
            require(
                isinstance(variable, Symbol) and variable in self.variables,
                f"{where} uses a number that the kernel is not given",
            )

    def use_affine(self, x: Affine, where: str) -> None:
        """Checks that all variables of an affine expression are in scope."""
        known = self.variables.issuperset(x.terms)
        require(known, f"{where} uses an index of a loop that is not around it")

    def use_value(self, value: Value, where: str) -> None:
        """Checks that a value has been computed."""
        if isinstance(value, (Constant, Repeated)):
            return
        if isinstance(value, Position):
            self.use_affine(value.position, where)
            return
        if isinstance(value, Checked):
            self.use_value(value.value, where)
            require(value.value.dtype is int64, "an index that was checked is an int64")
            self.use_extent(value.bound, "the bound of an index")
            return
        require(value in self.known, f"{where} uses a value that is not computed before it")

    def access(self, buffer: Buffer, index: Indices, writes: bool) -> None:
        """Proves that an access to one element is in bounds, and records it."""
        require(buffer in self.buffers, f"{buffer.name} is no buffer of the nest")
        require(
            len(index) == len(buffer.shape),
            f"{buffer.name} has {len(buffer.shape)} axes and is indexed by {len(index)}",
        )
        found: list[Affine] = []
        for at, length in zip(index, buffer.shape, strict=True):
            position = at if isinstance(at, Affine) else self._bounded(at, buffer)
            if isinstance(at, Affine):
                self.use_affine(at, f"an index of {buffer.name}")
            inside = self.bounds.is_not_negative(position) and self.bounds.is_not_negative(
                affine(length) - position - 1
            )
            require(inside, f"an index of {buffer.name} is not proven to be inside of it")
            found.append(position)
        joined = self._joined(index, buffer)
        limits = tuple(self.limits)
        self.accesses.append(
            Access(buffer, tuple(found), writes, joined, tuple(self.splits), limits)
        )

    def access_lanes(
        self, buffer: Buffer, index: Indices, lanes: int, limit: Affine | None, writes: bool
    ) -> None:
        """Proves the same for adjacent elements along the last axis that are below the limit."""
        if lanes == 1 and limit is None:
            self.access(buffer, index, writes)
            return
        require(
            bool(index) and buffer.strides[-1] == buffer.dtype.size,
            f"the lanes of a bundle of {buffer.name} are not adjacent",
        )
        *_, first = index
        assert isinstance(first, Affine)
        if limit is None:
            self.access(buffer, index, writes)
            self.access(buffer, (*index[:-1], first + (lanes - 1)), writes)
            return
        self.use_affine(limit, f"the limit of a bundle of {buffer.name}")
        lane = Index()  # the index of any lane that is accessed
        self.bounds.define(lane, [first], [first + (lanes - 1), limit - 1])
        self.variables.add(lane)
        self.access(buffer, (*index[:-1], affine(lane)), writes)

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
        self.use_value(value, f"an index of {buffer.name}")
        least, most = [], []
        if isinstance(value, Checked):
            least.append(affine(0))
            most.append(affine(value.bound) - 1)
        guard = self.guards.get(value)
        if guard is not None:
            least.append(guard[0])
            most.append(guard[1] - 1)
        require(least, f"an index of {buffer.name} is computed and unchecked")
        index = Index()
        self.bounds.define(index, least, most)
        return affine(index)
