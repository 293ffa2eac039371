"""Einstein summation: values, paths, derivatives, vmap, errors."""

from __future__ import annotations

import random
from typing import Any

import mlx.core as oracle
import numpy as np
import pytest
from tests.ops.rule_checks import check_derivatives

import ingot.core as mx
from ingot._native import topological
from ingot.graph.roles import Host, View, role_of
from ingot.ops.products.contraction import Matmul

Shape = tuple[int, ...]

CASES: list[tuple[str, tuple[Shape, ...]]] = [
    ("ij,jk->ik", ((2, 3), (3, 4))),
    ("ij,jk", ((2, 3), (3, 4))),
    (" i j , j k -> k i ", ((2, 3), (3, 4))),
    ("ba", ((2, 3),)),
    ("Ba", ((2, 3),)),
    ("ij->", ((2, 3),)),
    ("ii", ((3, 3),)),
    ("iii->i", ((3, 3, 3),)),
    ("ijij->ji", ((2, 3, 2, 3),)),
    ("ijj,jk->ik", ((2, 3, 3), (3, 2))),
    ("i,j->", ((2,), (3,))),
    ("ij,i->i", ((2, 3), (2,))),
    ("ij,ij->i", ((2, 3), (2, 3))),
    ("ij,kl->ljik", ((2, 3), (4, 5))),
    ("abc,dbe->acde", ((2, 3, 4), (5, 3, 6))),
    ("bhqd,bhkd->bhqk", ((2, 3, 4, 5), (2, 3, 6, 5))),
    ("abcd,badc->", ((2, 3, 4, 5), (3, 2, 5, 4))),
    ("...ij,...jk->...ik", ((5, 2, 3), (3, 4))),
    ("...ij,...jk", ((4, 1, 2, 3), (5, 3, 2))),
    ("a...,...b->ab...", ((2, 3), (3, 4))),
    ("i...->...", ((2, 3, 4),)),
    ("i->...i", ((2,),)),
    ("ij,", ((2, 3), ())),
    ("", ((),)),
    ("ij,jk->ik", ((2, 1), (3, 4))),  # lengths of 1 are broadcast
    ("ij,jk->ij", ((2, 3), (1, 4))),
    ("ijk->k", ((2, 0, 3),)),
    ("ij,jk->ik", ((2, 0), (0, 3))),
    ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 2))),
    ("i,i,i->i", ((3,), (3,), (3,))),
    ("abc,cd,bd->a", ((2, 3, 4), (4, 5), (3, 5))),
    ("ijk,ilm,njm,nlk,abc->", ((2, 2, 2), (2, 2, 2), (2, 2, 2), (2, 2, 2), (1, 2, 1))),
]


def operands_of(shapes: tuple[Shape, ...]) -> list[np.ndarray]:
    return [np.random.default_rng(i).normal(size=shape) for i, shape in enumerate(shapes)]


def double(x: np.ndarray) -> mx.array:
    return mx.array(x, dtype=mx.float64)


@pytest.mark.parametrize(("subscripts", "shapes"), CASES)
def test_einsum_equals_numpy(subscripts: str, shapes: tuple[Shape, ...]) -> None:
    operands = operands_of(shapes)
    expected = np.einsum(subscripts, *operands)
    result = mx.einsum(subscripts, *map(double, operands))
    assert result.shape == expected.shape
    np.testing.assert_allclose(result._data, expected, rtol=1e-12, atol=1e-12)


def test_an_ellipsis_that_the_result_lacks_is_summed_over() -> None:
    a, b = map(double, operands_of(((5, 2, 3), (5, 3, 4))))
    result = mx.einsum("...ij,...jk->ik", a, b)
    np.testing.assert_allclose(result._data, np.einsum("bij,bjk->ik", a._data, b._data), rtol=1e-12)


def random_summation(seed: int) -> tuple[str, list[np.ndarray]]:
    choose = random.Random(seed)
    letters = "abcdefg"
    terms = ["".join(choose.choices(letters, k=choose.randint(0, 3))) for _ in range(4)]
    used = sorted(set("".join(terms)))
    output = "".join(choose.sample(used, choose.randint(0, len(used))))
    length = {letter: choose.randint(1, 4) for letter in used}
    shapes = tuple(tuple(length[letter] for letter in term) for term in terms)
    return f"{','.join(terms)}->{output}", operands_of(shapes)


@pytest.mark.parametrize("seed", range(60))
def test_random_summations_equal_numpy(seed: int) -> None:
    subscripts, operands = random_summation(seed)
    result = mx.einsum(subscripts, *map(double, operands))
    np.testing.assert_allclose(
        result._data, np.einsum(subscripts, *operands), rtol=1e-12, atol=1e-12
    )


def test_a_contraction_is_one_product_of_matrices() -> None:
    for subscripts, shapes in (
        ("bij,jk->bik", ((5, 2, 3), (3, 4))),
        ("bhqd,bhkd->bhqk", ((2, 3, 4, 5), (2, 3, 6, 5))),
    ):
        result = mx.einsum(subscripts, *map(mx.zeros, shapes))
        ops = [type(node.op) for node in topological([result]) if node.op is not None]
        assert ops.count(Matmul) == 1
        assert {role_of(op) for op in ops if op is not Matmul} <= {View, Host}


SAME_PATHS: list[tuple[str, tuple[Shape, ...]]] = [
    ("ij->", ((2, 3),)),
    ("i j->j i", ((2, 3),)),
    ("", ((),)),
    ("ij,jk->ik", ((2, 3), (3, 4))),
    ("ij,jk->ik", ((2, 1), (3, 4))),
    ("...ij,...jk->...ik", ((5, 2, 3), (3, 4))),
    ("ij,jk,kl->il", ((20, 3), (3, 40), (40, 2))),
    ("abc,cd,bd->a", ((2, 3, 4), (4, 5), (3, 5))),
    ("i,i,i->i", ((3,), (3,), (3,))),
]


@pytest.mark.parametrize(("subscripts", "shapes"), SAME_PATHS)
def test_path_is_reported_as_by_mlx(subscripts: str, shapes: tuple[Shape, ...]) -> None:
    ours = mx.einsum_path(subscripts, *map(mx.zeros, shapes))
    theirs = oracle.einsum_path(subscripts, *map(oracle.zeros, shapes))
    assert ours == (list(map(tuple, theirs[0])), theirs[1])


def optimized_flops(text: str) -> int:
    return int(text.rpartition(":")[2])


def test_path_is_no_dearer_than_that_of_mlx() -> None:
    subscripts, shapes = "ea,fb,abcd,gc,hd->efgh", ((9, 8), (7, 6), (8, 6, 5, 4), (3, 5), (2, 4))
    _, ours = mx.einsum_path(subscripts, *map(mx.zeros, shapes))
    _, theirs = oracle.einsum_path(subscripts, *map(oracle.zeros, shapes))
    assert optimized_flops(ours) <= optimized_flops(theirs)


DERIVATIVES: list[tuple[str, Shape, tuple[Shape, ...]]] = [
    ("ij,jk->ki", (2, 3), ((3, 2),)),
    ("bij,bjk->bik", (2, 2, 3), ((2, 3, 2),)),
    ("iij->j", (2, 2, 3), ()),
    ("ij,i->", (2, 3), ((2,),)),
    ("ij,jk,kl->il", (2, 2), ((2, 3), (3, 2))),
    ("...i,...i->...", (1, 3), ((2, 3),)),
]


@pytest.mark.parametrize(("subscripts", "shape", "others"), DERIVATIVES)
def test_derivatives(subscripts: str, shape: Shape, others: tuple[Shape, ...]) -> None:
    point, *rest = operands_of((shape, *others))
    fixed = [double(x) for x in rest]
    check_derivatives(lambda x: mx.einsum(subscripts, x, *fixed), point)


@pytest.mark.parametrize(("subscripts", "shape", "others"), DERIVATIVES)
def test_vmap_equals_a_loop(subscripts: str, shape: Shape, others: tuple[Shape, ...]) -> None:
    batch, *rest = operands_of(((4, *shape), *others))
    fixed = [double(x) for x in rest]
    mapped = mx.vmap(lambda x: mx.einsum(subscripts, x, *fixed))(double(batch))
    looped = np.stack([np.einsum(subscripts, x, *rest) for x in batch])
    np.testing.assert_allclose(mapped._data, looped, rtol=1e-12, atol=1e-12)


def z(*shape: int) -> mx.array:
    return mx.zeros(shape)


ERRORS: list[tuple[str, list[Any], type[Exception], str]] = [
    ("ij,jk->ik", [z(2, 3), z(4, 4)], ValueError, r"'j' in 'ij,jk->ik' has length 3, but the"),
    ("...i,...", [z(2, 3), z(3)], ValueError, r"'\.\.\.' in '\.\.\.i,\.\.\.' has length 2"),
    ("ij->iz", [z(2, 3)], ValueError, r"the result of 'ij->iz' has an axis 'z' that no operand"),
    ("ij->ii", [z(2, 3)], ValueError, r"the result of 'ij->ii' has a letter twice\."),
    ("ii", [z(2, 3)], ValueError, r"'i' in 'ii' names axes of lengths 2 and 3 of one operand"),
    ("ijk->ij", [z(2, 3)], ValueError, r"'ijk' names 3 axes of an operand that has 2\."),
    ("i->i", [z(2, 3)], ValueError, r"'i' names 1 axes of an operand that has 2\."),
    ("ij...", [z(2)], ValueError, r"'ij\.\.\.' names 2 axes of an operand that has 1\."),
    ("ij,jk", [z(2, 3)], ValueError, r"'ij,jk' describes 2 operands but 1 were given\."),
    ("i1", [z(2, 3)], ValueError, r"axes have letters as names, .*: 'i1' has '1'\."),
    ("..i", [z(2, 3, 4)], ValueError, r"'\.\.i' has '\.'\."),
    ("i->i->i", [z(2)], ValueError, r"'i->i' has '-'\."),
    ("i...j...", [z(2, 3)], ValueError, r"may be there once"),
    ("i->", [], ValueError, r"'i->' needs at least one operand\."),
    ("i->", [[1, 2]], RuntimeError, r"operands must be arrays, got list"),
    (3, [z(2)], TypeError, r"subscripts must be a string, got int: 3\."),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("subscripts", "operands", "kind", "sentence"), ERRORS)
def test_errors(subscripts: str, operands: list[Any], kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=r"^\[einsum\] .*" + sentence):
        mx.einsum(subscripts, *operands)
    if subscripts != "ij->iz":
        with pytest.raises(kind, match=r"^\[einsum_path\] .*" + sentence):
            mx.einsum_path(subscripts, *operands)


def test_integers_can_be_summed_and_multiplied_but_not_contracted() -> None:
    x = mx.array([[1, 2], [3, 4]])
    assert mx.einsum("ij,i->i", x, x[0]).tolist() == [3, 14]
    assert mx.einsum("i,i->i", x[0], x[1]).tolist() == [3, 8]
    with pytest.raises(ValueError, match=r"\[matmul\] takes floating-point or complex numbers"):
        mx.einsum("ij,jk->ik", x, x)
