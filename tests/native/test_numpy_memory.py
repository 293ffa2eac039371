"""NumPy's arrays in the allocator's memory: inside the bracket and nowhere else."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from ingot import _native
from ingot.runtime import memory


@contextmanager
def numpy_memory() -> Iterator[None]:
    token = _native.enter_numpy_memory()
    try:
        yield
    finally:
        _native.leave_numpy_memory(token)


def handler_name(array: np.ndarray | None = None) -> str:
    multiarray = np._core.multiarray
    return multiarray.get_handler_name() if array is None else multiarray.get_handler_name(array)


def test_it_is_installed_with_the_numpy_that_is_tested() -> None:
    with numpy_memory():
        assert handler_name() == "ingot"
    assert handler_name() == "default_allocator"


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 5), (1000,), (300, 300), (1 << 20,)])
def test_arrays_are_counted_aligned_and_freed_outside_the_bracket(shape: tuple[int, ...]) -> None:
    before = memory.get_active_memory()
    with numpy_memory():
        arrays = [np.empty(shape), np.zeros(shape), np.ones(shape), np.full(shape, 2.0)]
        arrays.append(np.array(arrays[2] + arrays[3]))
    assert memory.get_active_memory() - before >= sum(array.nbytes for array in arrays)
    for array in arrays:
        assert handler_name(array) == "ingot"
        assert array.ctypes.data % 64 == 0
    assert (arrays[1] == 0).all()
    assert (arrays[4] == 3).all()
    outside = np.empty(shape)
    assert handler_name(outside) == "default_allocator"
    del array, arrays
    assert memory.get_active_memory() == before


def test_memory_is_recycled() -> None:
    with numpy_memory():
        array = np.empty(1 << 20)
        address = array.ctypes.data
        array[:] = 7
        del array
        again = np.zeros(1 << 20)  # NumPy's calloc: old contents must be gone
    assert again.ctypes.data == address
    assert not again.any()


def test_arrays_can_be_resized_and_read_from_iterators() -> None:
    with numpy_memory():
        array = np.arange(10)
        from_iterator = np.fromiter((i for i in range(100_000)), np.int64)
        nothing = np.fromiter(iter(()), np.int64)
    assert (from_iterator == np.arange(100_000)).all()
    assert nothing.size == 0
    for size in (20, 5, 100_000, 3, 2_000_000, 1_000_000, 8, 0, 40):
        kept = array[:size].copy()
        array.resize(size, refcheck=False)
        assert (array[: kept.size] == kept).all()
        assert not array[kept.size :].any()
        assert handler_name(array) == "ingot"


def test_sizes_that_numpy_gets_wrong_when_freeing_do_no_harm() -> None:
    before = memory.get_active_memory()
    with numpy_memory():
        empty = np.empty((0,), np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of NumPy 2.5
        empty.dtype = np.int8  # NumPy now believes that another size was allocated
    del empty
    assert memory.get_active_memory() == before


def test_brackets_nest_and_keep_exceptions() -> None:
    outer = _native.enter_numpy_memory()
    inner = _native.enter_numpy_memory()
    _native.leave_numpy_memory(inner)
    assert handler_name() == "ingot"
    _native.leave_numpy_memory(outer)
    assert handler_name() == "default_allocator"
    with pytest.raises(ZeroDivisionError), numpy_memory():
        _ = 1 // 0
    assert handler_name() == "default_allocator"


def test_a_wrong_token_is_refused() -> None:
    for wrong in (3, "token", object(), None):
        with pytest.raises(TypeError, match="expected what enter_numpy_memory returned, got"):
            _native.leave_numpy_memory(wrong)


def test_a_request_that_is_too_large_is_a_memory_error() -> None:
    with numpy_memory():
        with pytest.raises(MemoryError):
            np.empty(1 << 50, np.uint8)
        with pytest.raises(MemoryError):
            np.zeros(1 << 50, np.uint8)
        array = np.ones(1000)
        with pytest.raises(MemoryError):
            array.resize(1 << 48, refcheck=False)
    assert array.sum() == 1000


def test_other_threads_are_not_affected_and_may_free() -> None:
    before = memory.get_active_memory()
    seen: list[str] = []
    with numpy_memory():
        arrays = [np.empty(size) for size in (1, 100, 10_000, 1_000_000)]

    def free_them() -> None:
        seen.append(handler_name())
        arrays.clear()

    with numpy_memory():
        thread = threading.Thread(target=free_them)
        thread.start()
        thread.join()
    # Threads of a free-threaded CPython 3.14 begin with the context of the one that starts them.
    inherits = getattr(sys.flags, "thread_inherit_context", False)
    assert seen == ["ingot" if inherits else "default_allocator"]
    assert memory.get_active_memory() == before


def run(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_arrays_may_outlive_the_interpreter() -> None:
    code = """
import numpy as np
from ingot import _native
token = _native.enter_numpy_memory()
kept = [np.ones(100), np.ones(1_000_000)]
class Last:
    def __del__(self, kept=kept): kept.clear()
last = Last(); last.self = last
print("done")
"""
    assert run(code) == "done"
