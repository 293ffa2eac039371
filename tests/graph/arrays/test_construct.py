"""`mx.array` and its relatives against MLX's, and with values that no array can hold."""

from __future__ import annotations

import array as compact
import collections
import decimal
import enum
import fractions
import sys
import threading
from types import ModuleType
from typing import Any

import ml_dtypes
import mlx.core as mlx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ingot.core as mx

Pair = collections.namedtuple("Pair", "a b")


class Level(enum.IntEnum):
    high = 3


class Numbers(list):  # type: ignore[type-arg]
    """A list by another name."""


# Arguments, as text: they are made with either library as `mx`.
VALUES = """
1 | 1.5 | True | 1j | 2**31 | 2**31 - 1 | -2**31 | -2**31 - 1 | 2**63 - 1 | 1e300 | -0.0
[] | [[]] | [[], []] | [[[]]] | () | [1, 2] | [1, 2.0] | [True, 1] | [True, 2.5] | [True, 1j]
[1, 2**40] | [1.5, 2**40] | [True, 2**40] | [-2**63] | [float("nan"), 1] | [[1, 2], [3, 4]]
((1, 2), (3, 4)) | [[[1], [2]], [[3], [4]]] | [[1, 2j], [3, 4]] | [16777217, 1.5] | [-0.0]
Numbers([1, 2]) | [Numbers([1, 2])] | Pair(1, 2) | Level.high | [Level.high] | [float("inf")]
np.float64(1.5) | [np.float64(1.5)] | [np.complex128(1)] | [1e300] | [1e-50]
[mx.array(1), mx.array(2.0)] | [mx.array([1, 2]), mx.array([3, 4])] | [mx.array([1, 2]), [3, 4]]
[[3, 4], mx.array([1, 2])] | [[mx.array(1), 2], [3, mx.array(4.0)]] | [mx.array([]), mx.array([])]
[mx.array(1, mx.float16), 2.5] | [mx.array(1, mx.int8), 2] | [mx.array(1, mx.int8), 2.5]
[mx.array(1, mx.float16), mx.array(1, mx.bfloat16)] | [mx.array(0.1, mx.float64)]
[mx.array([1, 2]), [True, False]] | mx.array([1, 2]) | [[mx.array([1])], [mx.array([2])]]
np.float32(1.5) | np.float16(1.5) | np.int64(3) | np.int8(3) | np.uint64(3) | np.bool_(True)
np.complex64(1j) | np.complex128(1j) | np.array(1.5) | np.arange(3) | np.arange(3.0)
np.array([1j]) | np.arange(3, dtype=np.int8) | np.arange(3, dtype=np.uint64) | np.zeros((2, 0, 3))
np.arange(3, dtype=np.float16) | np.arange(6).reshape(2, 3).T | np.arange(6)[::2]
np.ma.array([1, 2]) | np.array([True, False]) | np.array([1e300]) | np.asfortranarray(np.eye(3))
b"abc" | bytearray(b"abc") | memoryview(b"abc") | compact.array("i", [1, 2])
compact.array("d", [1, 2]) | compact.array("q", [1]) | compact.array("H", [1])
2**63 | 2**64 | -2**63 - 1 | [2**64] | [[1, 2], [3]] | [[1, 2], 3] | [1, [2, 3]] | [1, None] | None
"abc" | ["a"] | {} | {1: 2} | {1, 2} | range(3) | [range(3)] | iter([1]) | object() | [object()]
(1, [2]) | [[], [1]] | [[1], []] | [[1, 2], "ab"] | [b"a"] | [[[1, 2], [3, 4]], [[5, 6], [7]]]
[mx.array([1, 2]), mx.array([3])] | [mx.array([1, 2]), 5] | [5, mx.array([1, 2])]
np.arange(3, dtype=np.longdouble) | np.array(["a"]) | np.array([None])
np.zeros(2, dtype=[("a", "i4")]) | fractions.Fraction(1, 2) | decimal.Decimal(1) | mx.float32 | int
"""

WITH_DTYPE = """
[1.5], mx.int32 | 300, mx.uint8 | -1, mx.uint32 | 2**40, mx.int32 | [300], mx.uint8
[-1.5], mx.uint8 | 1e300, mx.float64 | [1e300], mx.float64 | 0.1, mx.float64 | [0.1, 1], mx.float64
[[0.1]], mx.float64 | [[0.1, 1j]], mx.float64 | 1j, mx.float32 | [1j], mx.float32 | 2, mx.bool_
[2, 0], mx.bool_ | 0.5, mx.bool_ | 2**63 - 1, mx.uint64 | 16777217, mx.float32 | 7, mx.int32
2**40 + 1, mx.float64 | True, mx.float16 | [True, False], mx.complex64 | 0.1, mx.float16
0.1, mx.bfloat16 | 1e10, mx.float16 | [1, 2], mx.bfloat16 | np.array([0.1]), mx.float64
np.array([1.5]), mx.int32 | np.array([300]), mx.uint8 | np.array([1j]), mx.float32
np.array([1.5, -1]), mx.uint8 | mx.array([1, 2]), mx.float32 | [1], None | [1], "float32"
[mx.array(1), mx.array(2)], mx.float16 | [1], float | [1], np.float32 | [1], mx.floating
float("nan"), mx.int32 | [1e10], mx.int32 | np.array([1e10]), mx.int32
"""


def cases(table: str) -> list[str]:
    return [case for line in table.strip().splitlines() for case in line.split(" | ")]


NAMES = {
    "Level": Level,
    "Numbers": Numbers,
    "Pair": Pair,
    "compact": compact,
    "decimal": decimal,
    "fractions": fractions,
    "np": np,
}


def made(text: str, library: ModuleType) -> tuple[Any, ...]:
    arguments = eval(text, {**NAMES, "mx": library})
    try:
        array = library.array(*arguments)
    except Exception as error:
        return (error,)
    return (str(array.dtype).rpartition(".")[2], array.shape, repr(array.tolist()))


@pytest.mark.parametrize("text", [f"{case}," for case in cases(VALUES)] + cases(WITH_DTYPE))
def test_the_constructor_is_that_of_mlx(text: str) -> None:
    ours, theirs = made(text, mx), made(text, mlx)
    if isinstance(theirs[0], Exception):
        assert isinstance(ours[0], type(theirs[0])), ours
        assert str(ours[0]).startswith("[array] ")
        assert str(ours[0]).endswith(".")
    else:
        assert ours == theirs


def test_more_types_are_accepted_than_by_mlx() -> None:
    """Where MLX refuses what has one meaning only."""
    assert mx.array([[1, 2], (3, 4)]).tolist() == [[1, 2], [3, 4]]
    assert mx.array([np.float32(1.5), 2]).dtype is mx.float32
    assert mx.array([np.int64(1), 2]).dtype is mx.int32
    assert mx.array([np.array([1, 2]), np.array([3, 4])]).tolist() == [[1, 2], [3, 4]]
    assert mx.array(np.arange(6)[::-1]).tolist() == [5, 4, 3, 2, 1, 0]
    assert mx.array(np.arange(3, dtype=">i4")).dtype is mx.int32
    assert mx.array(np.arange(3, dtype=">f8")).tolist() == [0, 1, 2]
    assert mx.array(2**63, mx.uint64).item() == 2**63
    assert mx.array([2**63, 1], mx.uint64).tolist() == [2**63, 1]
    assert mx.array([2**70, 1.5]).tolist() == [2.0**70, 1.5]


def test_bfloat16_comes_from_ml_dtypes() -> None:
    array = mx.array(np.array([1.5, 2], ml_dtypes.bfloat16))
    assert array.dtype is mx.bfloat16
    assert array.tolist() == [1.5, 2]


@pytest.mark.parametrize("value", [[1, 2, 3], np.arange(3), np.arange(3.0), bytearray(b"abc")])
def test_an_array_is_a_copy(value: Any) -> None:
    array = mx.array(value)
    before = array.tolist()
    value[0] = 9
    assert array.tolist() == before


def test_the_messages_say_what_is_wrong() -> None:
    with pytest.raises(ValueError, match=r"same shape, got \(1,\) and \(2,\)\."):
        mx.array([[1, 2], [3]])
    with pytest.raises(ValueError, match=r"cannot make an array of str: .* and the like\.$"):
        mx.array(["a"])
    with pytest.raises(ValueError, match="9223372036854775808 does not fit into int64"):
        mx.array([1, 2**63])
    with pytest.raises(ValueError, match="NumPy's dtype <U1"):
        mx.array(np.array(["a"]))
    with pytest.raises(TypeError, match="got 'float32'"):
        mx.array([1], "float32")  # type: ignore[arg-type]


@pytest.mark.parametrize("leaf", [1.5, 1j, mx.array(1)])
def test_an_array_has_at_most_64_axes(leaf: Any) -> None:
    nested = leaf
    for _ in range(64):
        nested = [nested]
    assert mx.array(nested).ndim == 64
    with pytest.raises(ValueError, match="at most 64 axes"):
        mx.array([nested])


def test_lists_that_contain_themselves_are_refused() -> None:
    once: list[Any] = []
    once.append(once)
    twice: list[Any] = []
    twice.extend([twice, twice])
    with_array: list[Any] = [mx.array(1)]
    with_array.append(with_array)
    for value in (once, twice, with_array):
        with pytest.raises(ValueError, match=r"\[array\]"):
            mx.array(value)


def test_lists_with_more_numbers_than_memory_are_refused() -> None:
    value: Any = 1.0
    for _ in range(60):
        value = [value, value]
    with pytest.raises(MemoryError, match="cannot allocate"):
        mx.array(value)


def test_derivatives_flow_through_a_list_of_arrays() -> None:
    gradient = mx.grad(lambda x: (mx.array([x, 2 * x, 1.0]) * mx.array([1.0, 10, 100])).sum())
    assert gradient(mx.array(3.0)).item() == 21


def test_objects_of_other_libraries() -> None:
    class Stands:
        def __mlx_array__(self) -> mx.array:
            return mx.array([1, 2])

    class Exports:
        def __init__(self, data: Any) -> None:
            self.data = data

        def __dlpack__(self, **keywords: Any) -> Any:
            return self.data.__dlpack__(**keywords)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    class Elsewhere(Exports):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    class Broken:
        def __dlpack__(self) -> int:
            return 7

    assert mx.array(Stands()).tolist() == [1, 2]
    assert (mx.array([1, 1]) + Stands()).tolist() == [2, 3]
    assert mx.array(Exports(np.arange(3.0))).dtype is mx.float32
    assert mx.array(Exports(mx.array([1.5, 2], mx.bfloat16))).dtype is mx.bfloat16
    assert mx.array(np.arange(3.0).__dlpack__()).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="move it to the CPU"):
        mx.array(Elsewhere(np.arange(3.0)))
    with pytest.raises(RuntimeError, match="by DLPack"):
        mx.array(Broken())


def test_asarray() -> None:
    array = mx.array([1, 2])
    assert mx.asarray([1, 2], mx.float16).dtype is mx.float16
    assert mx.asarray(array, copy=False).tolist() == [1, 2]
    assert mx.asarray(array, mx.float32).tolist() == [1, 2]
    for value in ([1], 1, np.arange(3)):
        with pytest.raises(ValueError, match="without a copy"):
            mx.asarray(value, copy=False)
    with pytest.raises(ValueError, match="without a copy"):
        mx.asarray(array, mx.float32, copy=False)


@pytest.mark.parametrize("name", ["bool_", "uint8", "int64", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32", "float64", "complex64"])
def test_numpy_operands_take_the_dtype_of_the_array(name: str, dtype: str) -> None:
    other = np.array([2, 3]).astype(dtype)
    for operand in (other, other[0], other.reshape(2, 1)):
        if isinstance(operand, float):
            continue  # float64 scalars are Python floats
        ours = mx.array([1, 2], getattr(mx, name)) + operand
        theirs = mlx.array([1, 2], getattr(mlx, name)) + operand
        assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]
        assert ours.tolist() == theirs.tolist()


def test_functions_take_numpy_arrays_as_mlx_does() -> None:
    half = np.array([1.7, 2])
    assert mx.add(half, mx.array([1, 2])).tolist() == [2, 4]
    assert mx.add(half, half).dtype is mx.float32
    assert mx.where(mx.array([True, False]), mx.array([1, 2]), half).dtype is mx.int32
    assert mx.where(np.array([True, False]), mx.array([1, 2]), half).tolist() == [1, 2]


def test_numbers_that_do_not_fit_the_array_beside_them() -> None:
    with pytest.raises(ValueError, match="300 does not fit into uint8"):
        mx.array([1], mx.uint8) + 300
    with pytest.raises(ValueError, match="-1 does not fit into uint8"):
        mx.array([1], mx.uint8) * -1
    with pytest.raises(RuntimeError, match="does not fit"):
        mx.array([1]) + 2**63
    with pytest.raises(RuntimeError, match="does not fit"):
        mx.array([1.0]) + 10**400
    assert (mx.array([1.0]) + 1e300).item() == float("inf")


class Odd:
    """Raises from every method that a constructor might call."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __iter__(self) -> Any:
        raise RuntimeError("no items")

    def __float__(self) -> float:
        raise RuntimeError("no float")

    def __index__(self) -> int:
        raise RuntimeError("no index")


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=True),
    st.complex_numbers(),
    st.text(max_size=2),
    st.binary(max_size=2),
    st.just(Odd()),
    st.just(int),
    st.just(np.float32(1.5)),
    st.just(np.array([1, 2])),
    st.just(np.array([None])),
    st.just(np.datetime64(1, "s")),
    st.just(mx.array([1.5, 2])),
    st.just(mx.array(True)),
    st.just(memoryview(b"")),
    st.just(mx.float32),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.integers(), inner, max_size=2),
    ),
    max_leaves=8,
)


@given(trees, st.sampled_from([None, mx.uint8, mx.int64, mx.bfloat16, mx.float64, mx.complex64]))
def test_odd_values_give_arrays_or_sentences(value: Any, dtype: Any) -> None:
    try:
        array = mx.array(value, dtype)
    except (ValueError, TypeError) as error:
        sentence = str(error)
    else:
        mx.eval(array)
        assert dtype is None or array.dtype is dtype
        sentence = "[array] " + repr(array)
    assert sentence.startswith("[array] ")


def test_objects_are_not_kept() -> None:
    numbers = [1.5, 2.5]
    data = np.arange(3.0)
    before = sys.getrefcount(numbers), sys.getrefcount(data)
    arrays = [mx.array(numbers), mx.array(data), mx.array(data.data)]
    assert (sys.getrefcount(numbers), sys.getrefcount(data)) == before
    assert len(arrays) == 3


def test_construction_from_many_threads() -> None:
    wrong: list[Any] = []

    def work(seed: int) -> None:
        for i in range(200):
            if mx.array([[seed, i], [1, 2]]).tolist() != [[seed, i], [1, 2]]:
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
