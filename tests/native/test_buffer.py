"""Buffer: a block of the allocator as a Python object."""

from __future__ import annotations

import numpy as np
import pytest

from ingot import _native
from ingot.runtime import memory


def test_a_view_keeps_the_memory_alive() -> None:
    memory.clear_cache()  # a block that is used again may be a little larger
    before = memory.get_active_memory()
    buffer = _native.Buffer(1 << 20)
    array = np.frombuffer(buffer, np.float32)
    array[:] = 3
    del buffer
    assert memory.get_active_memory() - before == 1 << 20
    assert array.sum() == 3 * array.size
    del array
    assert memory.get_active_memory() == before


def test_several_views_share_the_bytes() -> None:
    buffer = _native.Buffer(16)
    first, second = memoryview(buffer), memoryview(buffer)
    first[:] = bytes(range(16))
    assert bytes(second) == bytes(range(16))
    assert not first.readonly
    assert (first.format, first.itemsize, first.ndim) == ("B", 1, 1)


def test_attributes() -> None:
    buffer = _native.Buffer(nbytes=100)
    assert buffer.nbytes == len(buffer) == 100
    assert buffer.address == np.frombuffer(buffer, np.uint8).ctypes.data
    assert repr(buffer) == "Buffer(100)"
    with pytest.raises(AttributeError):
        buffer.nbytes = 3
    with pytest.raises(TypeError):
        _native.Buffer.nbytes = 3  # type: ignore[misc,assignment]


def test_a_buffer_may_be_empty() -> None:
    assert bytes(_native.Buffer(0)) == b""


def test_sizes_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match=r"^\[Buffer\] nbytes must not be negative, got -1\.$"):
        _native.Buffer(-1)
    with pytest.raises(ValueError, match=r"must not be negative, got -1180591620717411303424\.$"):
        _native.Buffer(-(1 << 70))
    for wrong in (1.5, "8", None):
        with pytest.raises(TypeError):
            _native.Buffer(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        _native.Buffer()  # type: ignore[call-arg]
