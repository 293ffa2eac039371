"""A program: uses every rule of every op. `test_without_core.py` runs it without `ingot.core`.

Prints the ops whose rules were used. The two modes of differentiation are held against each other:
what one pulls back, along a direction, is what the other pushes forward along it.
"""

from __future__ import annotations

import sys

import numpy as np
from tests.transforms.examples.example import Example, Input, booleans, real
from tests.transforms.examples.ops import EXAMPLES, TWINS

from ingot._native import array
from ingot.graph.dtype import complex64, float16, float32, float64, is_inexact
from ingot.graph.op import Missing, apply
from ingot.graph.outputs import apply_multiple
from ingot.ops.attention.rules import Attention, AttentionCotangents
from ingot.ops.fft.fourier import FourierTransform
from ingot.ops.linalg import decompositions, eigenvalues
from ingot.ops.products.contraction import WideMatmul
from ingot.ops.quantized.quantization import Dequantize
from ingot.ops.quantized.rows import QuantizedMatmul
from ingot.ops.shape.padding import PadBorder
from ingot.runtime.evaluate import eval as evaluate
from ingot.transforms.jvp import jvp
from ingot.transforms.vjp import vjp
from ingot.transforms.vmap import vmap

SIZE = 2  # of batches


def definite(random: np.random.Generator) -> np.ndarray:
    """A symmetric matrix with eigenvalues far from each other and from 0."""
    turn = np.linalg.qr(random.normal(size=(3, 3)))[0]
    return (turn * (1, 2, 4)) @ turn.T


def codes(random: np.random.Generator) -> np.ndarray:
    """Packed codes of three rows of 32 numbers, of 4 bits each."""
    return random.integers(0, 1 << 32, (3, 4), np.uint32)


def single(make: Input) -> Input:
    """The same inputs as float32."""
    return lambda random: make(random).astype(np.float32)


def half(make: Input) -> Input:
    """The same inputs as float16."""
    return lambda random: make(random).astype(np.float16)


Q, K, V = real(1, 2, 3, 4), real(1, 2, 5, 4), real(1, 2, 5, 4)
# Ops that have their derivatives tested elsewhere than with the examples of all.
OTHERS = [
    Example(decompositions.Cholesky(False), (definite,)),
    Example(eigenvalues.SymmetricEigen(True), (definite,)),
    Example(eigenvalues.SymmetricEigenvalues(True), (definite,)),
    Example(eigenvalues.Eigen(), (definite,)),
    Example(eigenvalues.Eigenvalues(), (definite,)),
    Example(FourierTransform("rfftn", (1,), 4, "backward"), (single(real(3, 4)),)),
    Example(Attention(0.5, False, True), (Q, K, V, booleans(1, 2, 3, 5))),
    Example(Dequantize("affine", 32, 4, float32), (codes, single(real(3, 1)), single(real(3, 1)))),
    Example(
        QuantizedMatmul("affine", 32, 4, float32),
        (single(real(2, 32)), codes, single(real(3, 1)), single(real(3, 1))),
    ),
    Example(WideMatmul(), (half(real(2, 3)), half(real(3, 4)))),
    Example(PadBorder((2, 3)), (real(),), has_vmap=False),
    Example(AttentionCotangents(0.5, True, False), (real(1, 2, 3, 4), Q, K, V)),
    *(Example(op, (single(make),)) for op, _, make in TWINS),
]


def taken(x: np.ndarray) -> array:
    """A NumPy array as an array of the same dtype, float64 included."""
    return array(x, float64) if x.dtype == np.float64 else array(x)


def like(x: array, random: np.random.Generator) -> array:
    """Random numbers of the shape and dtype of an array; zeros of integers."""
    if not is_inexact(x.dtype):
        return x * 0
    numbers = random.normal(size=x.shape)
    return array(numbers + 1j if x.dtype is complex64 else numbers, x.dtype)


def run(example: Example) -> None:
    """Uses the rules that the op of an example has."""
    op = example.op

    def function(*inputs: array) -> list[array]:
        return list(apply_multiple(op, *inputs)) if op.several_outputs else [apply(op, *inputs)]

    primals = [taken(x) for x in example.primals(1)]
    evaluate(function(*primals))
    if example.has_vmap and not isinstance(type(op).vmap, Missing) and primals:
        evaluate(vmap(function)(*map(taken, example.batches(1, SIZE))))
    varied = [place for place, x in enumerate(primals) if is_inexact(x.dtype)]
    if isinstance(type(op).vjp, Missing) or not varied:
        return

    def of_varied(*chosen: array) -> list[array]:
        arguments = list(primals)
        for place, x in zip(varied, chosen, strict=True):
            arguments[place] = x
        return function(*arguments)

    here = [primals[place] for place in varied]
    random = np.random.default_rng(2)
    along = [like(x, random) for x in here]
    outputs, pushed = jvp(of_varied, here, along)
    weights = [like(x, random) for x in outputs]
    pulled = vjp(of_varied, here, weights)[1]
    twice = vjp(lambda *x: vjp(of_varied, list(x), weights)[1], here, pulled)[1]
    evaluate(pushed, pulled, twice)
    forward = sum(
        float(np.vdot(w._data, p._data).real) for w, p in zip(weights, pushed, strict=True)
    )
    backward = sum(
        float(np.vdot(p._data, d._data).real) for p, d in zip(pulled, along, strict=True)
    )
    tolerance = 1e-8 if all(x.dtype is float64 for x in (*here, *outputs)) else 1e-4
    if any(x.dtype is float16 for x in here):
        tolerance = 1e-2
    np.testing.assert_allclose(forward, backward, tolerance, tolerance, err_msg=str(op))


if __name__ == "__main__":
    for each in (*EXAMPLES, *OTHERS):
        run(each)
        print(type(each.op).__name__)
    assert "ingot.core" not in sys.modules
