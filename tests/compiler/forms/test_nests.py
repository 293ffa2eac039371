"""Nests: their text, and a verifier that notices mistakes of each kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.forms.nests import Block, CallHost, Location, Nests, RunKernel

X = mx.array(np.arange(12, dtype=np.float32).reshape(3, 4))


def nests_of(function: Any, *args: Any) -> Nests:
    found: Nests = mx.compile(function).explain(*args).stages.nests
    found.verify()
    return found


def two_kernels(x: Any) -> Any:
    return mx.sort(x * 2, axis=0)[::-1] + 1


def test_the_text_shows_kernels_and_calls_in_order() -> None:
    lines = [line for line in nests_of(two_kernels, X).text().splitlines() if line[0] != " "]
    assert [line.split("(")[0] for line in lines] == ["kernel 0", "host %4 = Sort", "kernel 1"]


def test_something_is_read_before_it_is_written() -> None:
    nests = nests_of(two_kernels, X)
    nests.instructions.reverse()
    with pytest.raises(AssertionError, match="has not written yet"):
        nests.verify()


def test_something_is_never_written() -> None:
    nests = nests_of(two_kernels, X)
    nests.instructions.pop()
    with pytest.raises(AssertionError, match="Add is never written"):
        nests.verify()


@pytest.mark.parametrize(
    ("offset", "strides", "message"),
    [
        (4, (16, 4), r"Sort\(axis=0\) ends 4 bytes behind its memory"),
        (0, (20, 4), r"Sort\(axis=0\) ends 8 bytes behind its memory"),
        (0, (-16, 4), r"Sort\(axis=0\) begins 32 bytes before its memory"),
    ],
)
def test_a_value_is_outside_of_its_memory(
    offset: int, strides: tuple[int, ...], message: str
) -> None:
    nests = nests_of(two_kernels, X)
    (host,) = (each for each in nests.instructions if isinstance(each, CallHost))
    step = host.steps[0]
    block = nests.locations[step].block
    nests.locations[step] = Location(block, offset, strides)
    with pytest.raises(AssertionError, match=message):
        nests.verify()


def test_a_kernel_is_broken() -> None:
    nests = nests_of(two_kernels, X)
    kernel = next(each.kernel for each in nests.instructions if isinstance(each, RunKernel))
    (region,) = kernel.nest.parallel
    region.lengths = (1 + region.lengths[0],)
    with pytest.raises(Exception, match=r"a0|a1|outside|inside|bounds"):
        nests.verify()


def test_a_kernel_has_too_few_operands() -> None:
    nests = nests_of(two_kernels, X)
    kernel = next(each for each in nests.instructions if isinstance(each, RunKernel))
    kernel.operands = kernel.operands[1:]
    with pytest.raises(AssertionError):
        nests.verify()


def test_blocks_without_elements_need_no_writer() -> None:
    empty = mx.zeros((0, 4))
    nests = nests_of(lambda x: mx.concatenate([x, x], axis=0), empty)
    assert nests.instructions == []
    assert [type(location.block) for location in nests.outputs] == [Block]


@pytest.mark.parametrize(
    ("longer", "moved", "message"),
    [(1, 0, "ends behind"), (0, 4, "ends behind"), (0, -4, "begins before")],
)
def test_a_buffer_is_outside_of_what_the_kernel_is_given(
    longer: int, moved: int, message: str
) -> None:
    nests = nests_of(two_kernels, X)
    (buffer, *_) = nests.kernels[0].nest.buffers
    buffer.shape = tuple(length + longer for length in buffer.shape)
    buffer.offset += moved
    with pytest.raises(AssertionError, match=message):
        nests.verify()
