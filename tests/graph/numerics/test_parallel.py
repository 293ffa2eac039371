"""Work on several threads: order of results, errors, settings, and BLAS's threads afterwards."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import threadpoolctl

import ingot.core as mx
from ingot.graph.numerics.parallel import each_in_parallel


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


def _numpy_blas_threads() -> set[int]:
    """How many threads NumPy's BLAS uses now, as another library sees it."""
    found = threadpoolctl.ThreadpoolController().select(user_api="blas").info()
    return {library["num_threads"] for library in found if "numpy" in library["filepath"]}


def test_blas_keeps_its_threads() -> None:
    def threads(_: int) -> set[int]:
        return _numpy_blas_threads()

    before = threads(0)
    assert each_in_parallel(threads, range(4)) == [{1}] * 4
    assert threads(0) == before
    nested = each_in_parallel(lambda _: each_in_parallel(threads, range(2)), range(2))
    assert nested == [[{1}] * 2] * 2
    assert threads(0) == before


def test_errors_reach_the_caller() -> None:
    def fail(number: int) -> None:
        if number == 3:
            raise ValueError("three")

    before = _numpy_blas_threads()
    with pytest.raises(ValueError, match="three"):
        each_in_parallel(fail, range(10))
    assert _numpy_blas_threads() == before


def test_threads_have_the_settings_of_the_caller() -> None:
    with np.errstate(divide="raise"):
        settings = each_in_parallel(lambda _: (time.sleep(0.01), np.geterr())[1], range(4))  # type: ignore[func-returns-value]
    assert all(setting["divide"] == "raise" for setting in settings)
