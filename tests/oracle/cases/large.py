"""Arrays large enough to be shared among threads or sent through compiled code, and odd lengths.

The small shapes of the other modules never leave the simplest path of an implementation.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from tests.oracle.cases.case import Case, add
from tests.oracle.cases.elementwise import BINARY, UNARY
from tests.oracle.harness import references
from tests.oracle.harness.compare import EXACT, Close
from tests.oracle.harness.inputs import Array

SHAPE = (131, 401)
ROWS = 131 * 401
DTYPES = ("float32", "float16", "int32", "complex64")
REDUCTIONS = {
    # The scale is the sum of the absolute values.
    "sum": (np.sum, "finite", Close(2, 2, 2.4 * ROWS)),
    "mean": (np.mean, "finite", Close(4, 2, 2.4)),
    "max": (np.max, "finite", EXACT),
    "min": (np.min, "finite", EXACT),
    "var": (np.var, "finite", Close(16, 4, 10)),
    "std": (np.std, "finite", Close(16, 4, 5)),
    "all": (np.all, "ties", EXACT),
    "any": (np.any, "ties", EXACT),
    "logsumexp": (references.logsumexp, "finite", Close(8, 2, 4)),
}


def _elementwise() -> Iterator[Case]:
    for op, spec in UNARY.items():
        for dtype, layout in product(DTYPES, ("plain", "transposed", "stepped")):
            array = Array(dtype, SHAPE, layout, spec.values[-1])
            yield Case(op, (array,), close=spec.close, reference=spec.reference)
    for op, specs in BINARY.items():
        spec = specs[0]
        for dtype in DTYPES:
            if dtype in spec.dtypes:
                a = Array(dtype, SHAPE, "transposed", "finite")
                right = spec.right if spec.right != "any" else "nonzero"
                b = Array(dtype, SHAPE[1:], "reversed", right, 1)
                yield Case(op, (a, b), close=spec.close, reference=spec.reference)
    for n in (1, 7, 8, 15, 16, 17, 31, 33, 63, 65, 127, 1023, 4097):
        for op in ("exp", "add", "sqrt"):
            arrays = [Array("float32", (n,), values="positive", seed=i) for i in (0, 1)]
            count = 2 if op == "add" else 1
            close = EXACT if op == "add" else UNARY[op].close
            reference = None if op == "add" else UNARY[op].reference
            yield Case(op, tuple(arrays[:count]), close=close, reference=reference)


def _reductions() -> Iterator[Case]:
    for op, (reference, values, close) in REDUCTIONS.items():
        for dtype, layout in product(("float32", "float64", "int32"), ("plain", "transposed")):
            array = Array(dtype, SHAPE, layout, values)
            for axis in (None, 0, 1):
                yield Case(op, (array,), {"axis": axis}, None, close, reference)
    for layout, axis in product(("plain", "transposed"), (0, 1)):
        array = Array("float32", SHAPE, layout, "finite")
        yield Case("softmax", (array, axis), close=Close(16, 2, 0.01), reference=references.softmax)
        for op in ("sort", "argsort", "argmax", "argmin", "cummax", "cummin"):
            yield Case(op, (array.but(values="ties"), axis))
        yield Case("cumsum", (array.but(values="ties"), axis))


def _products() -> Iterator[Case]:
    # Sums of a few hundred products of size ten.
    close = Close(8, 2, 4000)
    for dtype in ("float32", "float16", "float64", "complex64"):
        for left, right in product(("plain", "transposed", "stepped"), repeat=2):
            a = Array(dtype, (67, 401), left, "finite")
            b = Array(dtype, (401, 33), right, "finite", 1)
            reference = np.matmul if dtype == "float32" else None
            yield Case("matmul", (a, b), close=close, reference=reference)


def enter() -> None:
    """Enter the cases of this module into the table."""
    for generate in (_elementwise, _reductions, _products):
        for case in generate():
            add(case)
