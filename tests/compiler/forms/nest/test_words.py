"""The words of nests: operands, dtypes, and that every word of the vocabulary is one."""

from __future__ import annotations

import pytest

from ingot.compiler.forms.nest.data import Apply, Constant
from ingot.compiler.forms.nest.words import WORDS, arity, instructions, operand_dtypes, result_dtype
from ingot.graph import kernel
from ingot.graph.dtype import (
    bool_,
    complex64,
    float16,
    float32,
    int32,
    int64,
    uint16,
    uint32,
)

X, Z, N = Constant(float32, 0), Constant(complex64, 0), Constant(int32, 0)


def test_every_word_of_the_vocabulary_is_a_word_of_nests() -> None:
    assert set(kernel.WORDS) - {"constant", "dtype"} <= set(WORDS)


@pytest.mark.parametrize(
    ("word", "count"),
    [
        ("negative", 1),
        ("cast", 1),
        ("rotate_left", 1),
        ("rounded", 1),
        ("add", 2),
        ("arctan2", 2),
        ("select", 3),
        ("fused_multiply_add", 3),
        ("dot_bytes", 3),
        ("dot_pairs", 3),
        ("add_pairs", 2),
        ("lookup", 1),
        ("rank", 1),
        ("from_rank", 1),
    ],
)
def test_arity(word: str, count: int) -> None:
    assert arity(word) == count


def test_dtypes_of_results() -> None:
    assert result_dtype("add", (X, X)) is float32
    assert result_dtype("less", (X, X)) is bool_
    assert result_dtype("absolute", (Z,)) is float32
    assert result_dtype("absolute", (N,)) is int32
    assert result_dtype("select", (Constant(bool_, 0), Z, Z)) is complex64
    assert result_dtype("cast", (X,), int64) is int64
    assert result_dtype("bits", (X,)) is uint32
    assert result_dtype("dot_pairs", (X, X, X)) is uint32
    assert result_dtype("add_pairs", (N, X)) is int32
    assert result_dtype("complex", (X, X)) is complex64
    assert result_dtype("rank", (Constant(float16, 0),), "largest") is uint16
    assert result_dtype("from_rank", (Constant(uint16, 0),), (float16, "largest")) is float16


def test_dtypes_of_operands() -> None:
    assert operand_dtypes("select", (X, N, N)) == [bool_, int32, int32]
    assert operand_dtypes("dot_bytes", (N, X, X)) == [int32, uint32, uint32]
    assert operand_dtypes("add_pairs", (N, X)) == [int32, uint32]
    assert operand_dtypes("add", (X, N)) == [float32, float32]


def test_functions_take_many_instructions() -> None:
    short, function = Apply(float32, "add", (X, X)), Apply(float32, "exp", (X,))
    assert instructions(short) == 1
    assert instructions(function) > 12
    assert 1 < instructions(Apply(complex64, "add", (Z, Z))) < instructions(function)
