"""Loops that LLVM must find vector instructions for, and what it must not say meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.machine import jit, kernels

INFINITY = float("inf")
ROWS = (24, 260)  # long enough for vectors, and a remainder


@pytest.fixture
def compiled_code(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The code of the kernels that are compiled from now on."""
    monkeypatch.setenv("INGOT_CACHE", "off")
    monkeypatch.setattr(kernels, "_kernels", kernels._Kernels())
    codes: list[str] = []

    def compile_object(code: str) -> bytes:
        codes.append(code)
        return jit.compile_object(code)

    monkeypatch.setattr(kernels, "compile_object", compile_object)
    return codes


def _values() -> np.ndarray:
    return np.random.default_rng(0).standard_normal(ROWS).astype(np.float32)


@pytest.mark.parametrize(
    ("function", "theirs", "combined"),
    [
        (
            lambda x: mx.max(mx.where(x > 0, x, -INFINITY), -1),
            lambda x: np.max(np.where(x > 0, x, -INFINITY), -1),
            "max",
        ),
        (
            lambda x: mx.min(mx.where(x > 0, x, INFINITY), -1),
            lambda x: np.min(np.where(x > 0, x, INFINITY), -1),
            "min",
        ),
        (
            lambda x: mx.softmax(mx.where(x > 0, x, -INFINITY), -1),
            lambda x: (
                np.where(x > 0, np.exp(x), 0)
                / np.sum(np.where(x > 0, np.exp(x), 0), -1, keepdims=True)
            ),
            "max",
        ),
    ],
    ids=["max", "min", "softmax"],
)
def test_extremes_of_masked_rows_are_found_by_vectors(
    function: Callable[..., Any],
    theirs: Callable[..., Any],
    combined: str,
    compiled_code: list[str],
) -> None:
    values = _values()
    found = mx.compile(function)(mx.array(values))
    np.testing.assert_allclose(np.array(found), theirs(values), rtol=1e-5)
    (code,) = compiled_code
    # of floats or of their ranks, on x86 and on ARM
    vectors = rf"\bv({combined}ps|p{combined}ud)\b.*[yz]mm|\b[fu]{combined}\s+v"
    assert re.search(vectors, jit.assembly(code))


def test_nan_is_the_extreme_of_masked_rows() -> None:
    values = _values()
    values[3, 7] = values[4, -1] = np.nan
    found = mx.compile(lambda x: mx.max(mx.where(x < 0, -INFINITY, x), -1))(mx.array(values))
    np.testing.assert_array_equal(np.isnan(np.array(found)), np.isnan(values).any(-1))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: mx.min(x, -1),
        lambda x: mx.prod(x.astype(mx.complex64), -1),
        lambda x: mx.random.gumbel((ROWS[0], 1)) + mx.prod(x.astype(mx.complex64), -1, True),
    ],
    ids=["min", "complex", "rows"],
)
def test_nothing_is_printed(
    function: Callable[..., Any], compiled_code: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    mx.eval(mx.compile(lambda: function(mx.random.gumbel(ROWS)))())
    assert compiled_code
    assert capfd.readouterr() == ("", "")


def test_logarithms_of_random_numbers_take_whole_registers(compiled_code: list[str]) -> None:
    mx.eval(mx.compile(lambda: mx.random.gumbel(ROWS))())
    mx.eval(mx.compile(lambda x: mx.random.categorical(x))(mx.array(_values())))
    with_logarithms = [code for code in compiled_code if "c_log" in code]
    assert len(with_logarithms) == 2
    assert all("llvm.loop.vectorize.width" in code for code in with_logarithms)
