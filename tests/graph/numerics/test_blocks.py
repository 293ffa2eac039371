"""Evaluation in blocks gives what evaluation as a whole gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.graph.numerics import blocks
from ingot.graph.op import Op
from ingot.graph.outputs import Output
from ingot.graph.roles import Elementwise
from ingot.ops.linalg.matrices import MatrixOp
from ingot.ops.reduce.sorting import _AlongAxis

RANDOM = np.random.default_rng(0)
STACK = RANDOM.standard_normal((3, 7, 5, 5)).astype(np.float32)
CUBE = RANDOM.standard_normal((6, 5, 8)).astype(np.float32)
POSITIVE = STACK @ STACK.swapaxes(-1, -2) + 5 * np.eye(5, dtype=np.float32)
CPU = {"stream": mx.cpu}

# SciPy transforms lengths with prime factors above 4096, so these are cut.
CASES: dict[str, Callable[[], Any]] = {
    "exp": lambda: mx.exp(mx.array(CUBE)),
    "power": lambda: mx.power(mx.array(np.abs(CUBE)), mx.array(CUBE)),
    "where": lambda: mx.where(mx.array(CUBE > 0), mx.array(CUBE), mx.array(CUBE[:1])),
    "equal": lambda: mx.array(CUBE) > mx.array(CUBE[::-1].copy()),
    "transposed": lambda: mx.sin(mx.array(CUBE).transpose(2, 0, 1)),
    "sort": lambda: mx.sort(mx.array(CUBE), axis=1),
    "argsort": lambda: mx.argsort(mx.array(CUBE), axis=-1),
    "partition": lambda: mx.partition(mx.array(CUBE), 2, axis=0),
    "argpartition": lambda: mx.argpartition(mx.array(CUBE), 2, axis=0),
    "fft": lambda: mx.fft.fft(mx.array(CUBE), 4099, axis=1),
    "rfft": lambda: mx.fft.rfft(mx.array(CUBE), 8198, axis=0),
    "irfft2": lambda: mx.fft.irfft2(mx.array(CUBE), (4099, 6), axes=(0, 2)),
    "eig": lambda: mx.linalg.eig(mx.array(STACK), **CPU),
}
# The extension looks for signals itself while it computes these.
WHOLE: dict[str, Callable[[], Any]] = {
    "fft": lambda: mx.fft.fft(mx.array(CUBE), 16, axis=1),
    "svd": lambda: mx.linalg.svd(mx.array(STACK), **CPU),
    "qr": lambda: mx.linalg.qr(mx.array(STACK), **CPU),
    "eigh": lambda: mx.linalg.eigh(mx.array(POSITIVE), **CPU),
    "cholesky": lambda: mx.linalg.cholesky(mx.array(POSITIVE), **CPU),
    "inv": lambda: mx.linalg.inv(mx.array(STACK), **CPU),
    "solve": lambda: mx.linalg.solve(mx.array(STACK), mx.array(STACK[..., :2]), **CPU),
    "lu": lambda: mx.linalg.lu_factor(mx.array(STACK), **CPU),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_blocks_change_nothing(name: str, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _values(CASES[name]())
    monkeypatch.setattr(Op, "worth_cutting", 0)
    for op in (Elementwise, MatrixOp, _AlongAxis):
        monkeypatch.setattr(op, "worth_cutting", 0)
    monkeypatch.setattr(blocks, "SOON", 0)
    for seconds in (0, 1e-5, 10):
        monkeypatch.setattr(blocks, "BLOCK", seconds)
        found = CASES[name]()
        for y in found if isinstance(found, (list, tuple)) else [found]:
            whole = y._node.inputs[0] if type(y._node.op) is Output else y._node
            inputs = [each.data for each in whole.inputs]
            assert whole.op.block_axis(*inputs) is not None
            results = blocks.evaluate_in_blocks(whole.op, *inputs)
            plain = whole.op.evaluate(*inputs)
            several = whole.op.several_outputs
            for a, b in zip(*((x if several else [x]) for x in (results, plain)), strict=True):
                if "fft" in name:  # SciPy computes many rows, the extension few
                    np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
                else:
                    np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
                assert np.asarray(a).dtype == np.asarray(b).dtype
        function = mx.compile(CASES[name]) if compiled else CASES[name]
        for a, b in zip(_values(function()), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", WHOLE)
def test_routines_are_not_cut(name: str) -> None:
    found = WHOLE[name]()
    for y in found if isinstance(found, (list, tuple)) else [found]:
        node = y._node
        while node.op is not None and type(node.op).__name__ not in ROUTINES:
            node = node.inputs[0]
        assert node.op.block_axis(*[each.data for each in node.inputs]) is None


ROUTINES = ("FourierTransform", "SVD", "QR", "SymmetricEigen", "Cholesky", "Inverse", "Solve", "LU")


def _values(results: Any) -> list[np.ndarray]:
    results = results if isinstance(results, (list, tuple)) else [results]
    return [np.array(x) for x in results]


def test_one_row_is_not_cut() -> None:
    y = mx.sort(mx.array(CUBE.reshape(-1)))
    assert y._node.op.block_axis(np.zeros(5)) is None
