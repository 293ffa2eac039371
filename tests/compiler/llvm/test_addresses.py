"""Addresses: how they move with indices, and which of them share a pointer."""

from __future__ import annotations

from ingot.compiler.forms.affine import Index, Symbol, affine
from ingot.compiler.forms.nest.data import Buffer, Constant
from ingot.compiler.llvm.addresses import Address, Addresses, hide_moved
from ingot.compiler.llvm.code import Code, Register
from ingot.graph.dtype import float32, int64

ROW, COLUMN = Index(), Index()
X = Buffer("x", float32, (4, 5), (20, 4), 0, 64)


def test_addresses_are_sums_of_strides() -> None:
    found, distance = Addresses().address_of(X, (affine(ROW) + 2, affine(COLUMN) * 3))
    assert (found.constant, distance) == (0, 64 + 40)
    assert found.terms == {ROW: 20, COLUMN: 12}


def test_one_index_along_two_axes() -> None:
    found, _ = Addresses().address_of(X, (affine(ROW), affine(ROW)))
    assert found.terms == {ROW: 24}


def test_addresses_that_differ_by_a_number_share_a_pointer() -> None:
    addresses = Addresses()
    first, distance = addresses.address_of(X, (affine(ROW), affine(COLUMN) + 1))
    other, further = addresses.address_of(X, (affine(ROW) + 1, affine(COLUMN)))
    assert other is first
    assert further - distance == 20 - 4
    assert addresses.address_of(X, (affine(ROW), affine(COLUMN) * 2))[0] is not first


def test_computed_indices_are_left_out() -> None:
    found, _ = Addresses().address_of(X, (Constant(int64, 3), affine(COLUMN)))
    assert found.terms == {COLUMN: 4}


def test_symbolic_strides() -> None:
    n = Symbol("n")
    x = Buffer("x", float32, (4, 5), (affine(n) * 4, 4), 0)
    found, _ = Addresses().address_of(x, (affine(ROW), affine(COLUMN)))
    assert affine(found.terms[ROW]).terms == {n: 4}  # type: ignore[arg-type]


def test_numbers_beside_symbols() -> None:
    n = Symbol("n")
    x = Buffer("x", float32, (4, 5), (affine(n) * 4, 4), 0, affine(n) * 8 + 16)
    found, distance = Addresses().address_of(x, (affine(1), affine(COLUMN) + 3))
    assert affine(found.constant).terms == {n: 12}
    assert affine(found.constant).constant == 0
    assert distance == 16 + 12


def test_pointers_that_moved_are_opaque() -> None:
    a, b, c = (Address(X, {}, number) for number in range(3))
    code = Code()
    old, new = Register("%a0", "ptr"), Register("%v9", "ptr")
    pointers = {a: old, b: new, c: new}
    hide_moved(code, pointers, {a: old, b: old, c: old})
    assert pointers[a] is old
    assert pointers[b] is pointers[c]
    (line,) = code.lines
    assert line.endswith("call ptr @llvm.strip.invariant.group.p0(ptr %v9)")
