"""Wrong input: the exception types of MLX, and messages of ingot that say what was wrong.

Most calls are compared with MLX. Where MLX crashes, or answers with foreign memory, the table says
what ingot does instead.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

Attempt = Callable[[Any], Any]


def _assign(mx: Any, array: Any, index: Any, value: Any) -> Any:
    array[index] = value
    return array


# Compared with MLX, which raises for each of them.
WRONG: dict[str, Attempt] = {
    "ragged list": lambda mx: mx.array([[1, 2], [3]]),
    "deeper in places": lambda mx: mx.array([1, [2]]),
    "text": lambda mx: mx.array("text"),
    "list of text": lambda mx: mx.array(["a"]),
    "list of None": lambda mx: mx.array([None]),
    "object array": lambda mx: mx.array(np.array([object()])),
    "wrong dtype argument": lambda mx: mx.array([1], dtype="int32"),
    "number too large": lambda mx: mx.array([2**64]),
    "add shapes": lambda mx: mx.zeros((2, 3)) + mx.zeros((4,)),
    "add text": lambda mx: mx.zeros((2,)) + "text",
    "where shapes": lambda mx: mx.where(mx.array([True, False]), mx.zeros((3,)), 0),
    "exp of text": lambda mx: mx.exp("text"),
    "exp of a list": lambda mx: mx.exp([1, 2]),
    "exp twice": lambda mx: mx.exp(mx.zeros((2,)), mx.zeros((2,))),
    "unknown keyword": lambda mx: mx.exp(mx.zeros((2,)), base=2),
    "matmul inner": lambda mx: mx.zeros((2, 3)) @ mx.zeros((2, 3)),
    "matmul batches": lambda mx: mx.zeros((2, 2, 3)) @ mx.zeros((3, 3, 4)),
    "matmul 0-d": lambda mx: mx.matmul(mx.array(1.0), mx.zeros((2,))),
    "matmul integers": lambda mx: mx.matmul(mx.array([1]), mx.array([1])),
    "reshape size": lambda mx: mx.reshape(mx.zeros((5, 5, 3)), (6, -1)),
    "reshape two unknown": lambda mx: mx.reshape(mx.zeros((6,)), (-1, -1)),
    "reshape to other size": lambda mx: mx.reshape(mx.zeros((6,)), (4,)),
    "sum axis": lambda mx: mx.sum(mx.zeros((2, 3)), axis=2),
    "sum negative axis": lambda mx: mx.sum(mx.zeros((2, 3)), axis=-3),
    "sum axis twice": lambda mx: mx.sum(mx.zeros((2, 3)), axis=(0, 0)),
    "sum axis float": lambda mx: mx.sum(mx.zeros((2, 3)), axis=1.5),
    "max of nothing": lambda mx: mx.max(mx.zeros((0,))),
    "argmax of nothing": lambda mx: mx.argmax(mx.zeros((0,))),
    "median of nothing": lambda mx: mx.median(mx.zeros((0,))),
    "transpose axes": lambda mx: mx.transpose(mx.zeros((2, 3)), (0, 2)),
    "transpose twice": lambda mx: mx.transpose(mx.zeros((2, 3)), (0, 0)),
    "transpose number": lambda mx: mx.transpose(mx.zeros((2, 3)), (0,)),
    "squeeze longer": lambda mx: mx.squeeze(mx.zeros((2, 1)), axis=0),
    "squeeze axis": lambda mx: mx.squeeze(mx.zeros((2, 1)), axis=5),
    "expand_dims axis": lambda mx: mx.expand_dims(mx.zeros((2,)), 5),
    "concatenate nothing": lambda mx: mx.concatenate([]),
    "concatenate shapes": lambda mx: mx.concatenate([mx.zeros((2, 3)), mx.zeros((2, 4))]),
    "concatenate ranks": lambda mx: mx.concatenate([mx.zeros((2,)), mx.zeros((2, 1))]),
    "concatenate axis": lambda mx: mx.concatenate([mx.zeros((2,)), mx.zeros((2,))], axis=1),
    "stack shapes": lambda mx: mx.stack([mx.zeros((2,)), mx.zeros((3,))]),
    "split unequal": lambda mx: mx.split(mx.zeros((5,)), 2),
    "split zero": lambda mx: mx.split(mx.zeros((5,)), 0),
    "split axis": lambda mx: mx.split(mx.zeros((4,)), 2, axis=1),
    "broadcast_to": lambda mx: mx.broadcast_to(mx.zeros((2,)), (3,)),
    "broadcast_shapes": lambda mx: mx.broadcast_shapes((2,), (3,)),
    "pad negative": lambda mx: mx.pad(mx.zeros((2,)), -1),
    "pad mode": lambda mx: mx.pad(mx.zeros((2,)), 1, "wrong"),
    "repeat negative": lambda mx: mx.repeat(mx.zeros((2,)), -1),
    "zeros negative": lambda mx: mx.zeros((-1,)),
    "zeros of text": lambda mx: mx.zeros("text"),
    "zeros float": lambda mx: mx.zeros((2.5,)),
    "eye negative": lambda mx: mx.eye(-1),
    "arange step": lambda mx: mx.arange(0, 1, 0),
    "arange nan": lambda mx: mx.arange(float("nan")),
    "arange endless": lambda mx: mx.arange(float("inf")),
    "linspace negative": lambda mx: mx.linspace(0, 1, -1),
    "topk too many": lambda mx: mx.topk(mx.zeros((3,)), 4),
    "partition outside": lambda mx: mx.partition(mx.zeros((3,)), 3),
    "sort axis": lambda mx: mx.sort(mx.zeros((3,)), axis=1),
    "searchsorted side": lambda mx: mx.searchsorted(mx.zeros((3,)), mx.zeros((1,)), side="up"),
    "einsum size": lambda mx: mx.einsum("ij,jk", mx.zeros((2, 3)), mx.zeros((2, 3))),
    "einsum operands": lambda mx: mx.einsum("ij,jk", mx.zeros((2, 3))),
    "tensordot size": lambda mx: mx.tensordot(mx.zeros((2, 3)), mx.zeros((2, 3)), 1),
    "index float": lambda mx: mx.zeros((3,))[1.5],
    "index text": lambda mx: mx.zeros((3,))["a"],
    "index float array": lambda mx: mx.zeros((3,))[mx.array([0.0])],
    "index NaN": lambda mx: mx.zeros((3,))[mx.array([float("nan")])],
    "index too many": lambda mx: mx.zeros((3,))[0, 0],
    "index two ellipses": lambda mx: mx.zeros((3, 3))[..., ...],
    "index 0-d": lambda mx: mx.array(1.0)[0],
    "index broadcast": lambda mx: mx.zeros((3, 3))[mx.array([0, 1]), mx.array([0, 1, 2])],
    "assign shape": lambda mx: _assign(mx, mx.zeros((2, 3)), 0, mx.zeros((2,))),
    "assign text": lambda mx: _assign(mx, mx.zeros((2, 3)), 0, "text"),
    "take float": lambda mx: mx.take(mx.zeros((3,)), mx.array([0.5])),
    "take axis": lambda mx: mx.take(mx.zeros((3,)), mx.array([0]), axis=1),
    "take_along_axis rank": lambda mx: mx.take_along_axis(mx.zeros((2, 2)), mx.array([0]), 0),
    "item of many": lambda mx: mx.zeros((2,)).item(),
    "bool of many": lambda mx: bool(mx.zeros((2,))),
    "int of many": lambda mx: int(mx.zeros((2,))),
    "len of 0-d": lambda mx: len(mx.array(1)),
    "iterate 0-d": lambda mx: list(mx.array(1)),
    "shift floats": lambda mx: mx.left_shift(mx.zeros((2,)), 1),
    "and floats": lambda mx: mx.zeros((2,)) & mx.zeros((2,)),
    "invert floats": lambda mx: ~mx.zeros((2,)),
    "negative bool": lambda mx: -mx.array([True]),
    "floor complex": lambda mx: mx.floor(mx.array(1j)),
    "unflatten": lambda mx: mx.unflatten(mx.zeros((6,)), 0, (4, -1)),
    "flatten order": lambda mx: mx.flatten(mx.zeros((2, 3)), 1, 0),
    "diag 3-d": lambda mx: mx.diag(mx.zeros((2, 2, 2))),
    "diagonal 1-d": lambda mx: mx.diagonal(mx.zeros((2,))),
    "tril 1-d": lambda mx: mx.tril(mx.zeros((2,))),
    "view size": lambda mx: mx.view(mx.zeros((3,), mx.uint8), mx.uint16),
    "in-place shape": lambda mx: mx.zeros((2,)).__iadd__(mx.zeros((3,))),
    "finfo of integers": lambda mx: mx.finfo(mx.int8),
    "iinfo of floats": lambda mx: mx.iinfo(mx.float32),
    "at without index": lambda mx: mx.zeros((3,)).at.add(1),
    "meshgrid indexing": lambda mx: mx.meshgrid(mx.zeros((2,)), mx.zeros((2,)), indexing="zz"),
    "clip without bounds": lambda mx: mx.clip(mx.zeros((2,)), None, None),
    "from_dlpack list": lambda mx: mx.from_dlpack([1]),
}

# MLX crashes, or reads and writes foreign memory; what ingot raises instead.
STRICTER: dict[str, tuple[Attempt, type[Exception] | tuple[type[Exception], ...]]] = {
    "slice step 0": (lambda mx: mx.zeros((3,))[::0], ValueError),
    "assign step 0": (
        lambda mx: _assign(mx, mx.zeros((3,)), slice(None, None, 0), 1),
        ValueError,
    ),
    "reshape()": (lambda mx: mx.zeros((3,)).reshape(), (TypeError, ValueError)),
    "format d": (lambda mx: f"{mx.array(1.5):d}", ValueError),
    "index beyond": (lambda mx: mx.zeros((3,))[7], IndexError),
    "index before": (lambda mx: mx.zeros((3,))[-4], IndexError),
    "index beyond in a tuple": (lambda mx: mx.zeros((3, 3))[0, 7], IndexError),
    "assign beyond": (lambda mx: _assign(mx, mx.zeros((3,)), 7, 1.0), IndexError),
    "as_strided outside": (lambda mx: mx.as_strided(mx.zeros((3,)), (5,), (9,)), ValueError),
    "as_strided strides": (lambda mx: mx.as_strided(mx.zeros((4,)), (2, 2), (1,)), ValueError),
}

# MLX refuses, reads foreign memory or divides by zero; ingot may raise or give any value, but it
# finishes.
FINISHES: dict[str, Attempt] = {
    "zeros huge": lambda mx: mx.zeros((2**40,)),
    "index array beyond": lambda mx: mx.zeros((3,))[mx.array([7])],
    "index array far before": lambda mx: mx.zeros((3,))[mx.array([-(2**30)])],
    "index array huge": lambda mx: mx.zeros((3,))[mx.array([2**62], mx.int64)],
    "take beyond": lambda mx: mx.take(mx.zeros((3,)), mx.array([7])),
    "take_along_axis beyond": lambda mx: mx.take_along_axis(mx.zeros((3,)), mx.array([7])),
    "put_along_axis beyond": lambda mx: mx.put_along_axis(
        mx.zeros((3,)), mx.array([7]), mx.array(1.0), 0
    ),
    "assign array beyond": lambda mx: _assign(mx, mx.zeros((3,)), mx.array([7]), 1.0),
    "at beyond": lambda mx: mx.zeros((3,)).at[mx.array([7])].add(1.0),
    "slice beyond": lambda mx: mx.slice(mx.zeros((3,)), mx.array([9]), (0,), (2,)),
    "integer division by zero": lambda mx: mx.array([1, -1]) // mx.array([0, 0]),
    "integer remainder by zero": lambda mx: mx.array([1, -1]) % mx.array([0, 0]),
    "divmod by zero": lambda mx: mx.divmod(mx.array([1, -1]), mx.array([0, 0])),
    "boolean division by zero": lambda mx: mx.divmod(2, mx.array([False])),
    "smallest by -1": lambda mx: mx.array([-(2**31)]) // mx.array([-1]),
    "smallest remainder -1": lambda mx: mx.array([-(2**31)]) % mx.array([-1]),
    "shift too far": lambda mx: mx.left_shift(mx.array([1]), mx.array([40])),
    "shift backwards": lambda mx: mx.right_shift(mx.array([1]), mx.array([-1])),
    "float to int": lambda mx: mx.array([1e20, float("nan"), -1e20]).astype(mx.int32),
    "float to uint8": lambda mx: mx.array([-1.5, 300.0]).astype(mx.uint8),
}


def _raised(attempt: Attempt, mx: ModuleType) -> Exception | None:
    """The exception of building and evaluating."""
    try:
        result = attempt(mx)
        mx.eval(result)
    except Exception as error:
        return error
    return None


def _check_message(error: Exception) -> None:
    """A sentence that begins with the op, unless Python itself refused a signature or format."""
    text = str(error)
    if text.startswith("Unknown format code") or (
        "argument" in text and isinstance(error, TypeError)
    ):
        return
    assert text.startswith("["), text
    assert text.endswith((".", ")")), text
    assert len(text) > 20, text


@pytest.mark.parametrize("name", WRONG)
def test_same_exception(name: str, ours: ModuleType, theirs: ModuleType) -> None:
    """ingot raises what MLX raises."""
    expected = _raised(WRONG[name], theirs)
    assert expected is not None, "MLX accepts this: the table is wrong"
    actual = _raised(WRONG[name], ours)
    assert actual is not None, f"MLX raises {expected!r}"
    accident = "std::bad_cast" in str(expected)
    assert accident or isinstance(actual, type(expected)), f"{actual!r} and not {expected!r}"
    if ours is not theirs:
        _check_message(actual)


@pytest.mark.parametrize("name", STRICTER)
def test_stricter_than_mlx(name: str, ours: ModuleType, theirs: ModuleType) -> None:
    """ingot raises where MLX goes wrong."""
    if ours is theirs:
        return
    attempt, expected = STRICTER[name]
    actual = _raised(attempt, ours)
    assert isinstance(actual, expected), repr(actual)
    _check_message(actual)


@pytest.mark.parametrize("name", FINISHES)
def test_finishes(name: str, ours: ModuleType, theirs: ModuleType) -> None:
    """No crash, and an exception, if any, is a sentence."""
    if ours is theirs:
        return
    error = _raised(FINISHES[name], ours)
    if error is not None:
        _check_message(error)
