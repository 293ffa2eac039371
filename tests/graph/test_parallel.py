"""Work on several threads: order of results, errors, settings, and BLAS's threads afterwards."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import ingot.core as mx
from ingot.graph.libraries import blas_controllers
from ingot.graph.parallel import each_in_parallel


@pytest.fixture(autouse=True)
def two_threads() -> object:
    before = mx.get_num_threads()
    mx.set_num_threads(2)
    yield
    mx.set_num_threads(before)


def test_results_keep_their_order() -> None:
    def square(number: int) -> int:
        time.sleep(0.001 * (number % 3))
        return number * number

    assert each_in_parallel(square, range(40)) == [number * number for number in range(40)]
    assert each_in_parallel(square, []) == []


def test_several_threads_work() -> None:
    both = threading.Barrier(2, timeout=10)
    assert len(set(each_in_parallel(lambda _: (both.wait(), threading.get_ident())[1], "ab"))) == 2


def test_blas_keeps_its_threads() -> None:
    def threads(_: int) -> list[int]:
        return [library.get_num_threads() for library in blas_controllers()]

    inside = each_in_parallel(threads, range(4))
    assert all(count == 1 for counts in inside for count in counts)
    assert set(threads(0)) <= {2}
    nested = each_in_parallel(lambda _: each_in_parallel(threads, range(2)), range(2))
    assert all(count == 1 for part in nested for counts in part for count in counts)
    assert set(threads(0)) <= {2}


def test_errors_reach_the_caller() -> None:
    def fail(number: int) -> None:
        if number == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        each_in_parallel(fail, range(10))
    assert {library.get_num_threads() for library in blas_controllers()} <= {2}


def test_threads_have_the_settings_of_the_caller() -> None:
    with np.errstate(divide="raise"):
        settings = each_in_parallel(lambda _: (time.sleep(0.01), np.geterr())[1], range(4))
    assert all(setting["divide"] == "raise" for setting in settings)
