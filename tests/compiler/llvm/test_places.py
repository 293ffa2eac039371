"""Addresses: how they move with indices, and that equal ones are one."""

from __future__ import annotations

from ingot.compiler.forms.affine import Index, Symbol, affine
from ingot.compiler.forms.nest.data import Buffer, Constant
from ingot.compiler.llvm.places import Places
from ingot.graph.dtype import float32, int64

ROW, COLUMN = Index(), Index()
X = Buffer("x", float32, (4, 5), (20, 4), 0, 64)


def test_addresses_are_sums_of_strides() -> None:
    found = Places().place(X, (affine(ROW) + 2, affine(COLUMN) * 3))
    assert found.constant == 64 + 40
    assert found.terms == {ROW: 20, COLUMN: 12}


def test_one_index_along_two_axes() -> None:
    assert Places().place(X, (affine(ROW), affine(ROW))).terms == {ROW: 24}


def test_equal_addresses_are_one() -> None:
    places = Places()
    first = places.place(X, (affine(ROW), affine(COLUMN) + 1))
    assert places.place(X, (affine(ROW), affine(COLUMN) + 1)) is first
    assert places.place(X, (affine(ROW), affine(COLUMN))) is not first


def test_computed_indices_are_left_out() -> None:
    found = Places().place(X, (Constant(int64, 3), affine(COLUMN)))
    assert found.terms == {COLUMN: 4}


def test_symbolic_strides() -> None:
    n = Symbol("n")
    x = Buffer("x", float32, (4, 5), (affine(n) * 4, 4), 0)
    found = Places().place(x, (affine(ROW), affine(COLUMN)))
    assert affine(found.terms[ROW]).terms == {n: 4}  # type: ignore[arg-type]
