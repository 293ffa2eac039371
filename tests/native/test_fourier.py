"""Fourier transforms of native code against NumPy in double precision: lengths, layouts, threads,
every width of vectors.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator

import numpy as np
import pytest

from ingot import _native
from ingot.tuning_linalg import MAX_STRIDED_FOURIER_LENGTH

LIBC = ctypes.CDLL(None)
# Every small length, splits that do and do not suit the lanes, powers, long ones.
LENGTHS = list(range(1, 70))
LENGTHS += [96, 121, 128, 169, 256, 343, 360, 512, 1000, 1001, 1024, 2048, 2187, 2197]
# Primes whose convolutions have their length, contain those of other primes, or are padded;
# squares, multiples, splits.
LENGTHS += [101, 257, 289, 509, 719, 1009, 1019, 1021, 1088, 2 * 1009]
LONG = [4096, 10000, 65536, 4 * 13**3, 16 * 1009, 4093]
LAYOUTS = [(1, 1), (3, 1), (17, 1), (2, 5), (1, 18)]


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    old = _native.set_num_threads(request.param)
    yield request.param
    _native.set_num_threads(old)


def complex_numbers(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)


def transformed(
    x: np.ndarray, length: int, is_real: bool, is_backward: bool, lanes: int = 16, scale: float = 1
) -> np.ndarray:
    """The transform along the middle axis; `length` is that of the complex one."""
    plan = _native.fourier_plan(length, is_real, lanes)
    assert plan is not None
    size = length
    if is_real:
        size = 2 * length if is_backward else length + 1
    dtype = np.float32 if is_real and is_backward else np.complex64
    out = np.full((x.shape[0], size, x.shape[2]), np.nan, dtype)
    constants = np.float32(scale).tobytes()
    operands = ((0, 0, 0), (1, 0, 0), (2, 0, 0))
    call = ("fourier", operands, (x.shape[0], x.shape[2], int(is_backward)), plan)
    routine = _native.NativeRoutine((x.nbytes, out.nbytes), constants, 0, 0, False, (call,))
    assert routine.run((np.ascontiguousarray(x), out))
    return out


def check(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 1e-6 * max(1, np.abs(expected).max())


def check_all_kinds(length: int, before: int, behind: int, lanes: int = 16) -> None:
    x = complex_numbers(before, length, behind)
    wide = x.astype(np.complex128)
    check(transformed(x, length, False, False, lanes), np.fft.fft(wide, axis=1))
    check(transformed(x, length, False, True, lanes, 1 / length), np.fft.ifft(wide, axis=1))
    numbers = complex_numbers(before, 2 * length, behind).real.copy()
    half = np.fft.rfft(numbers.astype(np.float64), axis=1)
    check(transformed(numbers, length, True, False, lanes), half)
    spectrum = complex_numbers(before, length + 1, behind)
    expected = np.fft.irfft(spectrum.astype(np.complex128), 2 * length, 1)
    check(transformed(spectrum, length, True, True, lanes, 0.5 / length), expected)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_lengths(layout: tuple[int, int]) -> None:
    for length in LENGTHS:
        check_all_kinds(length, *layout)


@pytest.mark.parametrize("lanes", [4, 8])
def test_narrow_vectors(lanes: int) -> None:
    for length in LENGTHS:
        check_all_kinds(length, 5, 1, lanes)
    check_all_kinds(48, 2, 7, lanes)


@pytest.mark.parametrize("length", LONG)
def test_long_rows(length: int, threads: int) -> None:
    check_all_kinds(length, 2, 1)
    check_all_kinds(length, 1, 3)


def test_more_columns_than_strided_transforms_may_have() -> None:
    check_all_kinds(2 * MAX_STRIDED_FOURIER_LENGTH, 1, 16)


@pytest.mark.parametrize("length", [12, 37, 101, 768, 1088, 65536])
def test_bits_depend_on_the_row_alone(length: int) -> None:
    x = complex_numbers(3, length, 1)
    old = _native.set_num_threads(1)
    expected = transformed(x, length, False, False)
    for count in (1, 2, 3):
        _native.set_num_threads(count)
        for row in range(3):
            one = transformed(x[row : row + 1], length, False, False)
            np.testing.assert_array_equal(one[0], expected[row])
        for copies in (1, 6):  # fewer columns than lanes, and more
            columns = np.ascontiguousarray(np.tile(x.transpose(2, 1, 0), (1, 1, copies)))
            found = transformed(columns, length, False, False).transpose(2, 1, 0)
            np.testing.assert_array_equal(found, np.tile(expected, (copies, 1, 1)))
    _native.set_num_threads(old)


@pytest.mark.parametrize("length", [5, 12, 16, 18, 40, 256])
def test_nothing_is_read_behind_the_rows(length: int) -> None:
    """The last number is the last of the memory that may be read."""
    memory = mmap.mmap(-1, 1 << 20)
    room = np.frombuffer(memory, np.complex64)[: -mmap.PAGESIZE // 8]
    closed = room.ctypes.data + room.nbytes
    assert LIBC.mprotect(ctypes.c_void_p(closed), mmap.PAGESIZE, 0) == 0
    for rows in (1, 3, 16, 19):
        x = complex_numbers(rows, length, 1)
        placed = room[-x.size :].reshape(x.shape)
        placed[...] = x
        found = transformed(placed, length, False, False)
        np.testing.assert_array_equal(found, transformed(x, length, False, False))
        columns = transformed(placed.reshape(1, length, rows), length, False, False)
        assert np.isfinite(columns).all()
        numbers = placed.view(np.float32).reshape(rows, 2 * length, 1)
        pairs = transformed(numbers, length, True, False)
        assert np.isfinite(pairs).all()


def test_a_number_that_is_not_finite_stays_in_its_row() -> None:
    for length in (17, 101, 509, 1009):
        x = complex_numbers(20, length, 1)
        expected = transformed(x, length, False, False)
        x[7, 3] = np.inf
        found = transformed(x, length, False, False)
        assert not np.isfinite(found[7]).any()
        np.testing.assert_array_equal(np.delete(found, 7, 0), np.delete(expected, 7, 0))


@pytest.mark.parametrize("length", [31, 61, 127, 509, 1009, 1019, 2003])
def test_primes_are_as_precise_as_powers_of_two(length: int) -> None:
    """The error relative to the spectrum grows with the logarithm of the length; a convolution has
    two transforms.
    """
    x = complex_numbers(16, length, 1)
    expected = np.fft.fft(x.astype(np.complex128), axis=1)
    error = np.linalg.norm(transformed(x, length, False, False) - expected)
    assert error <= 2.5e-7 * np.linalg.norm(expected)


def test_exact_zeros() -> None:
    """A constant has one frequency: no rounding of roots puts anything into the others."""
    for length in (8, 64, 256, 4096):
        found = transformed(np.ones((1, length, 1), np.complex64), length, False, False)[0, :, 0]
        assert found[0] == length
        assert not found[1:].any()


def test_what_is_refused() -> None:
    assert _native.fourier_plan(4099, False) is None
    assert _native.fourier_plan(2 * 3 * 4099, True) is None
    assert _native.fourier_plan(0, False) is None
    with pytest.raises(ValueError, match="PyCapsule"):
        _native.NativeRoutine((), b"", 0, 0, False, (("fourier", ((-1, 0, 0),) * 3, (1, 1, 0), 1),))
