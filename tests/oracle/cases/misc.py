"""Questions about dtypes, constants, and what fits nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from tests.oracle.cases.case import Case, add
from tests.oracle.harness.inputs import DTYPES, Array, Dtype

CATEGORIES = "generic number integer unsignedinteger signedinteger inexact floating complexfloating"
KINDS = ["bool", "signed integer", "unsigned integer", "integral", "real floating"]
KINDS += ["complex floating", "numeric", "wrong"]
CONSTANTS = "e euler_gamma inf nan newaxis pi".split()


def _constant(name: str) -> Any:
    return lambda mx: getattr(mx, name)


def _fields(op: str, names: str) -> Any:
    """The named attributes of finfo or iinfo."""

    def run(mx: Any, dtype: Any) -> Any:
        info = getattr(mx, op)(dtype)
        return tuple(getattr(info, name) for name in names.split())

    return run


def _about_dtypes() -> Iterator[Case]:
    everything = [Dtype(name) for name in (*DTYPES, *CATEGORIES.split())]
    for first, second in product(everything, everything):
        yield Case("issubdtype", (first, second))
    dtypes = [Dtype(name) for name in DTYPES]
    for first, second in product(dtypes, dtypes):
        yield Case("can_cast", (first, second))
        yield Case("can_cast", (Array(first.name, (2,)), second))
        yield Case("result_type", (first, second))
        yield Case("result_type", (Array(first.name, ()), second))
        yield Case("isdtype", (first, second))
    for dtype in dtypes:
        for kind in KINDS:
            yield Case("isdtype", (dtype, kind))
        yield Case("isdtype", (dtype, ("bool", "integral")))
        yield Case("isdtype", (dtype, (Dtype("int8"), "real floating")))
        yield Case("result_type", (dtype,))
        yield Case("result_type", (dtype, Dtype("int8"), Dtype("float16")))
        fields = "bits min max eps smallest_normal dtype"
        yield Case("finfo", (dtype,), run=_fields("finfo", fields))
        yield Case("iinfo", (dtype,), run=_fields("iinfo", "bits min max dtype"))
        yield Case(
            "Dtype", (dtype,), run=lambda mx, d: (d.size, d == d, d != mx.int8, hash(d) == hash(d))
        )
    yield Case("result_type", ())
    yield Case("issubdtype", (1, 2))
    yield Case("can_cast", (1, Dtype("int8")))
    categories = lambda mx: sorted(item.name for item in mx.DtypeCategory)  # noqa: E731
    yield Case("DtypeCategory", run=categories)


def _rest() -> Iterator[Case]:
    for name in CONSTANTS:
        yield Case(name, run=_constant(name))
    for dtype in DTYPES:
        a, b = Array(dtype, (3,), "reversed"), Array(dtype, (2, 2), seed=1)
        yield Case("depends", (a, b))
        yield Case("depends", ([a, b], [b]))
        yield Case("depends", (a, [b, a]))
    yield Case("depends", (1, 2))


def enter() -> None:
    """Enter the cases of this module into the table."""
    for generate in (_about_dtypes, _rest):
        for case in generate():
            add(case)
