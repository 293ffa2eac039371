"""What the verifier knows at a statement: variables, values, bounds and accesses."""

from __future__ import annotations

import pytest

from ingot.compiler.forms.affine import Index, Symbol, affine
from ingot.compiler.forms.nest.data import Buffer, Checked, Constant, Load, Nest
from ingot.compiler.forms.nest.scope import NestError, Scope, require
from ingot.graph.dtype import float32, int64

N = Symbol("n")
ROW = Buffer("row", float32, (N,), (4,), 0)


def scope() -> Scope:
    nest = Nest()
    nest.buffers.append(ROW)
    nest.symbols.append(N)
    return Scope(nest)


def test_a_problem_is_an_error() -> None:
    require(True, "fine")
    with pytest.raises(NestError, match="not fine"):
        require(False, "not fine")


def test_an_access_is_proven_from_the_bounds_of_its_index() -> None:
    inside, index = scope(), Index()
    inside.define(index, [affine(0)], [affine(N) - 1])
    inside.access(ROW, (affine(index),), writes=True)
    assert [(access.buffer, access.writes) for access in inside.accesses] == [(ROW, True)]
    with pytest.raises(NestError, match="not proven"):
        inside.access(ROW, (affine(index) + 1,), writes=False)


def test_lanes_below_a_limit_are_in_bounds() -> None:
    inside, index = scope(), Index()
    inside.define(index, [affine(0)], [affine(N) - 1])
    inside.access_lanes(ROW, (affine(index),), 8, affine(N), writes=False)
    with pytest.raises(NestError, match="not proven"):
        inside.access_lanes(ROW, (affine(index),), 8, None, writes=False)


def test_a_computed_index_must_be_checked() -> None:
    inside = scope()
    computed = Load(int64, Buffer("at", int64, (), (), 1), ())
    inside.known.add(computed)
    inside.access(ROW, (Checked(int64, computed, N),), writes=False)
    with pytest.raises(NestError, match="computed and unchecked"):
        inside.access(ROW, (computed,), writes=False)
    inside.guards[computed] = (affine(0), affine(N))
    inside.access(ROW, (computed,), writes=False)


def test_what_is_not_in_scope_cannot_be_used() -> None:
    inside = scope()
    inside.use_value(Constant(float32, 1), "a sum")
    inside.use_extent(N, "a length")
    for check in (
        lambda: inside.use_value(Load(float32, ROW, (affine(0),)), "a sum"),
        lambda: inside.use_affine(affine(Index()), "a sum"),
        lambda: inside.use_extent(Symbol("m"), "a length"),
    ):
        with pytest.raises(NestError):
            check()


def test_an_index_is_defined_once() -> None:
    inside, index = scope(), Index()
    inside.define(index, [affine(0)], [affine(3)])
    with pytest.raises(NestError, match="one loop"):
        inside.define(index, [affine(0)], [affine(3)])
