"""Elementwise ops: unary, binary, and those with parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.special
from tests.oracle.cases.case import Case, add
from tests.oracle.harness import references
from tests.oracle.harness.compare import EXACT, EXACT_SIGNS, Close
from tests.oracle.harness.inputs import (
    DTYPES,
    FLOATS,
    INEXACT,
    INTEGERS,
    REALS,
    SIGNED,
    Array,
    varied,
)

Reference = Callable[..., np.ndarray]
ROUNDED = Close(ulps=2, half_ulps=1)


@dataclass(frozen=True)
class Elementwise:
    """What is tested of an op: kinds of values, dtypes, tolerance, reference."""

    values: tuple[str, ...] = ("any", "finite")
    dtypes: tuple[str, ...] = DTYPES
    close: Close = EXACT
    reference: Reference | None = None


def _smooth(reference: Reference, *domain: str, ulps: float = 4) -> Elementwise:
    """A function that is rounded, tested on its domain and on special values."""
    return Elementwise(("any", *domain), DTYPES, Close(ulps, 1), reference)


UNARY: dict[str, Elementwise] = {
    "abs": Elementwise(close=Close(2, 1, signed_zeros=True)),
    "negative": Elementwise(close=EXACT_SIGNS),
    "positive": Elementwise(close=EXACT_SIGNS),
    "sign": Elementwise(close=ROUNDED),
    "ceil": Elementwise(("any", "decimal"), close=EXACT_SIGNS),
    "floor": Elementwise(("any", "decimal"), close=EXACT_SIGNS),
    "trunc": Elementwise(("any", "decimal"), close=EXACT_SIGNS),
    "round": Elementwise(("any", "decimal"), close=EXACT_SIGNS),
    "square": Elementwise(close=Close(2, 1, 10)),
    "logical_not": Elementwise(),
    "bitwise_invert": Elementwise(),
    "isnan": Elementwise(),
    "isinf": Elementwise(),
    "isfinite": Elementwise(),
    "isposinf": Elementwise(),
    "isneginf": Elementwise(),
    "real": Elementwise(close=EXACT_SIGNS),
    "imag": Elementwise(),
    "conj": Elementwise(close=EXACT_SIGNS),
    "conjugate": Elementwise(close=EXACT_SIGNS),
    "stop_gradient": Elementwise(close=EXACT_SIGNS),
    "degrees": _smooth(references.degrees, "finite"),
    "radians": _smooth(references.radians, "finite"),
    "reciprocal": _smooth(np.reciprocal, "positive"),
    "sqrt": _smooth(np.sqrt, "positive"),
    "rsqrt": _smooth(references.reciprocal_square_root, "positive"),
    "exp": _smooth(np.exp, "finite", "wide"),
    "expm1": _smooth(np.expm1, "unit", "wide"),
    "log": _smooth(np.log, "positive", "above_one"),
    "log2": _smooth(np.log2, "positive"),
    "log10": _smooth(np.log10, "positive"),
    "log1p": _smooth(np.log1p, "unit", "positive"),
    "sin": _smooth(np.sin, "finite", "wide"),
    "cos": _smooth(np.cos, "finite", "wide"),
    "tan": _smooth(np.tan, "finite", "unit"),
    "sinh": _smooth(np.sinh, "finite", "unit"),
    "cosh": _smooth(np.cosh, "finite"),
    "tanh": _smooth(np.tanh, "finite", "unit"),
    "arcsin": _smooth(np.arcsin, "unit"),
    "arccos": _smooth(np.arccos, "unit"),
    "arctan": _smooth(np.arctan, "finite", "wide"),
    "arcsinh": _smooth(np.arcsinh, "finite"),
    "arccosh": _smooth(np.arccosh, "above_one"),
    "arctanh": _smooth(np.arctanh, "unit"),
    "sigmoid": _smooth(scipy.special.expit, "finite", "wide"),
    "erf": _smooth(scipy.special.erf, "finite", "unit"),
    "erfinv": _smooth(scipy.special.erfinv, "unit"),
}
for alias, op in (
    ("acos", "arccos"),
    ("acosh", "arccosh"),
    ("asin", "arcsin"),
    ("asinh", "arcsinh"),
    ("atan", "arctan"),
    ("atanh", "arctanh"),
):
    UNARY[alias] = UNARY[op]


@dataclass(frozen=True)
class Binary:
    """`left` and `right` are the kinds of values of each argument."""

    left: str = "any"
    right: str = "any"
    dtypes: tuple[str, ...] = DTYPES
    close: Close = EXACT
    reference: Reference | None = None


BINARY: dict[str, list[Binary]] = {
    "add": [Binary()],
    "subtract": [Binary()],
    "multiply": [Binary(close=Close(4, 0, 10))],
    "divide": [Binary(close=Close(4, 0, 1))],
    "floor_divide": [
        Binary("any", "positive", REALS),
        Binary("finite", "nonzero", REALS),
        Binary("any", "any", FLOATS),
        Binary("finite", "finite", ("complex64",), Close(8, 1)),
    ],
    "remainder": [
        Binary("any", "positive", REALS),
        Binary("finite", "nonzero", REALS),
        Binary("any", "any", FLOATS),
        Binary("finite", "finite", ("complex64",)),
    ],
    "power": [
        Binary("finite", "shift", close=Close(8, 1), reference=np.power),
        Binary("positive", "finite", FLOATS, Close(8, 1), np.power),
        Binary("any", "any", FLOATS, Close(8, 1), np.power),
        Binary("positive", "unit", ("complex64",), Close(16, 1), np.power),
        Binary("finite", "finite", SIGNED),
    ],
    "maximum": [Binary(), Binary("ties", "ties")],
    "minimum": [Binary(), Binary("ties", "ties")],
    "logaddexp": [
        Binary(dtypes=REALS, close=Close(4, 1, 1), reference=np.logaddexp),
        Binary("finite", "finite", ("complex64",), Close(16, 1, 1)),
    ],
    "arctan2": [Binary(close=Close(4, 1), reference=np.arctan2)],
    "left_shift": [Binary("any", "shift")],
    "right_shift": [Binary("any", "shift")],
    "divmod": [Binary("any", "positive", REALS), Binary("finite", "nonzero", REALS)],
    **{
        op: [Binary(), Binary("ties", "ties")]
        for op in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
    },
    **{op: [Binary()] for op in ("logical_and", "logical_or", "logical_xor")},
    **{op: [Binary()] for op in ("bitwise_and", "bitwise_or", "bitwise_xor")},
}
for alias, op in (
    ("pow", "power"),
    ("atan2", "arctan2"),
    ("bitwise_left_shift", "left_shift"),
    ("bitwise_right_shift", "right_shift"),
):
    BINARY[alias] = BINARY[op]

# Shapes and layouts of the two arguments; the last does not broadcast.
PAIRS: list[tuple[tuple[tuple[int, ...], str], tuple[tuple[int, ...], str]]] = [
    (((), "plain"), ((), "plain")),
    (((37,), "plain"), ((37,), "plain")),
    (((0,), "plain"), ((1,), "plain")),
    (((2, 0, 3), "plain"), ((3,), "plain")),
    (((3, 1), "plain"), ((1, 4), "plain")),
    (((3, 4), "transposed"), ((3, 4), "plain")),
    (((3, 4), "transposed"), ((3, 4), "transposed")),
    (((5, 7), "stepped"), ((7,), "reversed")),
    (((4, 5), "broadcast"), ((4, 5), "offset")),
    (((2, 3, 4), "reversed"), ((), "plain")),
    (((), "plain"), ((2, 3, 4), "transposed")),
    (((2, 3), "plain"), ((4,), "plain")),
]
SCALARS: list[Any] = [True, 2, 1.5, 2j]


def _unary(op: str, spec: Elementwise) -> Iterator[Case]:
    for dtype in spec.dtypes:
        for values in spec.values:
            for array in varied(dtype, values):
                yield Case(op, (array,), close=spec.close, reference=spec.reference)
    for scalar in (True, 1, 0.5, 0.5 + 0.5j):
        yield Case(op, (scalar,), close=spec.close, note="scalar")


def _binary(op: str, spec: Binary) -> Iterator[Case]:
    for dtype in spec.dtypes:
        for (shape_a, layout_a), (shape_b, layout_b) in PAIRS:
            a = Array(dtype, shape_a, layout_a, spec.left, 0)
            b = Array(dtype, shape_b, layout_b, spec.right, 1)
            yield Case(op, (a, b), close=spec.close, reference=spec.reference)


def _scalar_pairs(op: str, spec: Binary) -> Iterator[Case]:
    close = Close(8, 1, spec.close.scale) if spec.close != EXACT else EXACT
    for dtype in DTYPES:
        array = Array(dtype, (2, 3), values="positive")
        for scalar in SCALARS:
            reference = (
                spec.reference if dtype in FLOATS and not isinstance(scalar, complex) else None
            )
            yield Case(op, (array, scalar), close=close, reference=reference)
            yield Case(op, (scalar, array), close=close, reference=reference)
    yield Case(op, (3, 2), close=close, note="two scalars")


def _ternary() -> Iterator[Case]:
    for dtype in DTYPES:
        for (shape_a, layout_a), (shape_b, layout_b) in PAIRS:
            x = Array(dtype, shape_a, layout_a, "any", 0)
            y = Array(dtype, shape_b, layout_b, "any", 1)
            yield Case("where", (Array("bool_", shape_a, layout_a), x, y))
            yield Case("where", (Array(dtype, shape_b, layout_b, "ties"), x, y))
        x = Array(dtype, (2, 3))
        yield Case("where", (Array("bool_", (3,)), x, 1))
        yield Case("where", (Array("bool_", (3,)), 1.5, x))
        yield Case("where", (True, x, 2j))
    for scalars in ((1, 2), (1, 2.5), (True, 2), (False, 1j)):
        yield Case("where", (Array("bool_", (4,)), *scalars))


def _with_parameters() -> Iterator[Case]:
    for dtype in DTYPES:
        for array in varied(dtype, "finite"):
            for bounds in ((-1, 2), (None, 2), (0, None), (None, None), (3, 1), (0.5, 2.5)):
                yield Case("clip", (array, *bounds))
            low = array.but(seed=5, values="unit")
            yield Case("clip", (array, low, 3))
        for array in varied(dtype, "any"):
            yield Case("clip", (array, 0, 2))
            yield Case("nan_to_num", (array,))
            yield Case("nan_to_num", (array,), {"nan": 1.5, "posinf": 7, "neginf": -7})
            yield Case("nan_to_num", (array, 2.0))
        for decimals in (-1, 0, 1, 2):
            # MLX rounds integers in float32, hence small ones.
            plain = Array(dtype, (37,), values="finite")
            for array in (plain, plain.but(shape=(3, 4), layout="transposed")):
                reference = np.round if dtype == "float64" else None
                for args, kwargs in (((decimals,), {}), ((), {"decimals": decimals})):
                    yield Case("round", (array, *args), kwargs, None, Close(2, 2), reference)


def _closeness() -> Iterator[Case]:
    for dtype in DTYPES:
        for (shape_a, layout_a), (shape_b, layout_b) in PAIRS:
            a = Array(dtype, shape_a, layout_a, "ties", 0)
            b = Array(dtype, shape_b, layout_b, "ties", 1)
            specials = a.but(values="any")
            for op in ("isclose", "allclose"):
                yield Case(op, (a, b))
                yield Case(op, (a, b, 0.5, 0.25))
                yield Case(op, (specials, specials), {"equal_nan": True})
                yield Case(op, (specials, b), {"rtol": 0.1, "atol": 1.0})
            yield Case("array_equal", (a, b))
            yield Case("array_equal", (specials, specials))
            yield Case("array_equal", (specials, specials), {"equal_nan": True})
        yield Case("array_equal", (Array(dtype, (3,), values="unit"), 1))
    for dtype in INTEGERS:
        yield Case("array_equal", (Array(dtype, (3,), values="ties"), Array("float32", (3,))))
    for dtype in INEXACT:
        yield Case("isclose", (Array(dtype, (9,), values="finite"), 0.0), {"atol": 1.0})


def enter() -> None:
    """Enter the cases of this module into the table."""
    for op, spec in UNARY.items():
        for case in _unary(op, spec):
            add(case)
    for op, specs in BINARY.items():
        for spec in specs:
            for case in _binary(op, spec):
                add(case)
        loosest = max((spec.close for spec in specs), key=lambda close: close.ulps)
        for case in _scalar_pairs(op, replace(specs[0], close=loosest)):
            add(case)
    for generate in (_ternary, _with_parameters, _closeness):
        for case in generate():
            add(case)
