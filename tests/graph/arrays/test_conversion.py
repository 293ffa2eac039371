"""Arrays as Python and NumPy values: numbers, lists, buffers, DLPack, pickles."""

from __future__ import annotations

import copy
import operator
import pickle
from typing import Any

import ml_dtypes
import mlx.core as mlx
import numpy as np
import pytest

import ingot.core as mx

DTYPES = (
    "bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 "
    "float16 bfloat16 float32 float64 complex64"
).split()


def both(values: Any, dtype: str) -> tuple[mx.array, Any]:
    return (
        mx.array(values).astype(getattr(mx, dtype)),
        mlx.array(values).astype(getattr(mlx, dtype)),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_and_lists(dtype: str) -> None:
    ours, theirs = both([[0.1, 1, 2], [3, 0, 100]], dtype)
    assert repr(ours.tolist()) == repr(theirs.tolist())
    assert repr(ours.T.tolist()) == repr(theirs.T.tolist())
    assert repr(ours[0, 0].item()) == repr(theirs[0, 0].item())
    assert repr(ours[1:, 2:].item()) == repr(theirs[1:, 2:].item())
    for convert in (bool, int, float, complex, bytes):
        try:
            expected = convert(theirs[0, 1])
        except TypeError:
            with pytest.raises(TypeError):
                convert(ours[0, 1])
            continue
        assert convert(ours[0, 1]) == expected
    assert bytes(ours.T) == bytes(theirs.T)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 2), (2, 0, 3), ()])
def test_lists_of_empty_arrays(shape: tuple[int, ...]) -> None:
    assert mx.zeros(shape).tolist() == mlx.zeros(shape).tolist()


@pytest.mark.parametrize("convert", [bool, int, float, complex, lambda a: a.item()])
def test_only_one_element_is_a_number(convert: Any) -> None:
    assert convert(mx.array([[5]])) == convert(mlx.array([[5]]))
    words = "neither true nor false" if convert is bool else "one element is a number"
    for shape in ((2,), (0,), (1, 3)):
        with pytest.raises(ValueError, match=words):
            convert(mx.zeros(shape))


def test_special_numbers_as_ints() -> None:
    with pytest.raises(ValueError, match="NaN"):
        int(mx.array(float("nan")))
    with pytest.raises(OverflowError):
        int(mx.array(float("inf")))
    assert bool(mx.array(float("nan"))) is True
    assert bool(mx.array(0j)) is False


def test_indices() -> None:
    assert [10, 11, 12][mx.array(1)] == 11
    assert operator.index(mx.array(7, mx.uint8)) == 7
    assert list(range(mx.array(2))) == [0, 1]
    for wrong in (mx.array(1.0), mx.array(True), mx.array([1])):
        with pytest.raises(TypeError, match="only a 0-d array of integers is an index"):
            operator.index(wrong)


def test_arrays_as_containers() -> None:
    matrix = mx.arange(6).reshape(2, 3)
    assert len(matrix) == 2
    assert [row.tolist() for row in matrix] == [[0, 1, 2], [3, 4, 5]]
    assert [number.item() for number in matrix[1]] == [3, 4, 5]
    assert list(mx.zeros((0, 3))) == []
    first, second = matrix
    assert second.tolist() == [3, 4, 5]
    assert first.shape == (3,)
    assert 4 in matrix[1]
    assert 9 not in matrix[1]
    assert "x" not in matrix[1]
    assert mx.array([1.0]) in mx.array([[1.0], [2.0]])
    for use in (len, iter, list):
        with pytest.raises(TypeError, match="a 0-d array has no"):
            use(mx.array(1))
    with pytest.raises(TypeError, match="a 0-d array has no items"):
        _ = 1 in mx.array(1)


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name != "bfloat16"])
def test_numpy_shares_memory(dtype: str) -> None:
    ours, theirs = both([[0, 1, 2], [3, 4, 5]], dtype)
    for array, expected in ((ours, theirs), (ours.T, theirs.T), (ours[:, ::2], theirs[:, ::2])):
        view = np.asarray(array)
        assert view.dtype == np.asarray(expected).dtype
        assert view.flags.writeable
        np.testing.assert_array_equal(view, np.array(expected))
        assert np.shares_memory(view, np.asarray(array))
        assert not np.shares_memory(np.array(array), view)
        ours_memory, theirs_memory = memoryview(array), memoryview(expected)
        assert ours_memory.format == theirs_memory.format
        assert ours_memory.shape == theirs_memory.shape
        assert not ours_memory.readonly
        assert np.array_equal(np.asarray(ours_memory), np.asarray(theirs_memory))
    assert np.array(ours, dtype=np.complex128).dtype == np.complex128
    np.testing.assert_array_equal(ours.__array__(), np.array(theirs))
    assert ours.__array__(np.complex128, True).dtype == np.complex128


def test_writing_through_a_view_changes_the_array() -> None:
    array = mx.array([1, 2, 3])
    np.asarray(array)[0] = 9
    assert array.tolist() == [9, 2, 3]


def test_constants_of_programs_cannot_be_written() -> None:
    """The 2 in `x * 2` is shared by all programs."""
    two = mx.broadcast_to(mx.array(1), (3,)) * 0 + 2
    wide = mx.broadcast_to(mx.add(0, 2), (3,))
    mx.eval(two, wide)
    assert (mx.array([1]) * 2).item() == 2
    scalar = mx.positive(mx.array(2))
    np.asarray(scalar)[...] = 5
    assert (mx.array([1]) * 2).item() == 2


def test_bfloat16_is_that_of_ml_dtypes() -> None:
    ours, theirs = both([[1.5, 2]], "bfloat16")
    for convert in (np.array, np.asarray):
        with pytest.raises(ValueError, match="bfloat16"):
            convert(theirs)
        assert convert(ours).dtype == "bfloat16"
    assert np.shares_memory(np.asarray(ours), ours.__array__())
    assert np.array(ours.astype(mx.float32)).tolist() == [[1.5, 2]]


def test_numpy_beside_arrays() -> None:
    array = mx.array([1, 2, 3])
    numbers = np.array([1.0, 2, 3])
    for result in (numbers + array, numbers * array, np.float32(1) + array, np.add(array, 1)):
        assert isinstance(result, np.ndarray)
    assert (numbers == array).all()
    assert isinstance(array + numbers, mx.array)
    assert isinstance(array == numbers, mx.array)
    assert isinstance(array * np.float64(2), mx.array)
    assert np.concatenate([array, array]).tolist() == [1, 2, 3, 1, 2, 3]
    assert np.sin(mx.array([0.0])).tolist() == [0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack(dtype: str) -> None:
    ours, theirs = both([[0, 1, 2], [3, 4, 5]], dtype)
    assert ours.__dlpack_device__() == theirs.__dlpack_device__() == (1, 0)
    assert mx.from_dlpack(ours).dtype is ours.dtype
    assert mlx.from_dlpack(ours).dtype == mlx.from_dlpack(theirs).dtype
    assert mlx.from_dlpack(ours.T).tolist() == theirs.T.tolist()
    back = mx.from_dlpack(theirs)
    assert back.tolist() == ours.tolist()
    if dtype == "float64":
        assert back.dtype is mx.float32
    else:
        assert back.dtype is ours.dtype
    if dtype == "bfloat16":
        with pytest.raises(RuntimeError, match="Unsupported dtype"):
            np.from_dlpack(ours)
        return
    shared = np.from_dlpack(ours)
    assert np.shares_memory(shared, np.asarray(ours))
    np.testing.assert_array_equal(shared, np.array(theirs))


def test_dlpack_of_read_only_memory_and_copies() -> None:
    shared = mx.broadcast_to(mx.add(1, 1), (3,))
    assert np.from_dlpack(shared).tolist() == [2, 2, 2]
    assert mlx.from_dlpack(shared).tolist() == [2, 2, 2]
    array = mx.array([1, 2])
    capsule = array.__dlpack__(copy=True, max_version=(1, 0))
    assert mx.from_dlpack(capsule).tolist() == [1, 2]
    assert mx.from_dlpack(array.__dlpack__()).tolist() == [1, 2]
    with pytest.raises(BufferError, match="on the CPU"):
        array.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError, match="without a copy"):
        mx.from_dlpack(np.arange(3), copy=False)
    for wrong in ([1], 1, None):
        with pytest.raises(TypeError, match="takes an object with __dlpack__"):
            mx.from_dlpack(wrong)


def test_capsules_that_were_used_are_refused() -> None:
    capsule = mx.array([1, 2]).__dlpack__()
    mx.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="by DLPack"):
        mx.from_dlpack(capsule)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickles(dtype: str, protocol: int) -> None:
    for shape in ((), (0, 2), (2, 3)):
        array = mx.ones(shape).astype(getattr(mx, dtype))
        restored = pickle.loads(pickle.dumps(array, protocol))
        assert isinstance(restored, mx.array)
        assert restored.dtype is array.dtype
        assert restored.shape == shape
        assert restored.tolist() == array.tolist()
    array = mx.arange(6).reshape(2, 3).T + 1
    assert pickle.loads(pickle.dumps(array, protocol)).tolist() == array.tolist()


def test_pickles_out_of_band() -> None:
    array = mx.arange(1000).astype(mx.bfloat16)
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(array, 5, buffer_callback=buffers.append)
    assert len(text) < 1000
    received = [bytes(buffer.raw()) for buffer in buffers]
    restored = pickle.loads(text, buffers=received)
    assert restored.tolist() == array.tolist()
    np.asarray(restored.astype(mx.float32))[0] = 3


def test_copies() -> None:
    array = mx.array([1, 2])
    for duplicate in (copy.copy(array), copy.deepcopy(array), mx.array(array)):
        assert duplicate is not array
        duplicate += 1
        duplicate[0] = 9
        assert array.tolist() == [1, 2]
        assert duplicate.tolist() == [9, 3]
    tree = copy.deepcopy({"a": [array, array]})
    assert tree["a"][0] is tree["a"][1]


def test_the_namespace() -> None:
    assert mx.array(1).__array_namespace__() is mx
    with pytest.raises(ValueError, match="2022"):
        mx.array(1).__array_namespace__(api_version="2022.12")


def test_ml_dtypes_and_bfloat16_bits_agree() -> None:
    values = np.linspace(-3, 3, 50).astype(np.float32)
    bits = np.frombuffer(bytes(mx.array(values).astype(mx.bfloat16)), np.uint16)
    np.testing.assert_array_equal(bits, values.astype(ml_dtypes.bfloat16).view(np.uint16))
