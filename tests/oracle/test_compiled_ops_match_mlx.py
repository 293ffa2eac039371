"""A part of the same cases through `compile`: the arrays are inputs of a compiled function.

MLX is not compiled: compiled code must give what the op gives. Compilation costs more than
evaluation, so that about four cases of each op are taken; INGOT_ORACLE_COMPILED=15 takes about that
many.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from tests.oracle.cases.case import Case, evaluate_all, perform
from tests.oracle.cases.table import CASES
from tests.oracle.harness.inputs import Array, Given, make
from tests.oracle.harness.judge import mismatch

CASES_OF_AN_OP = int(os.environ.get("INGOT_ORACLE_COMPILED", "4"))
SHOWN = 10
# They read values, which a compiled function cannot do while it is traced.
READ_VALUES = """
    item tolist __bool__ __int__ __float__ __complex__ __index__ __iter__ __repr__ __str__
    __format__ __hash__ __reduce__ __copy__ __deepcopy__ __dlpack_device__
    __len__ shape dtype ndim size itemsize nbytes
""".split()
FROM_VALUES = ("array", "asarray", "from_dlpack")


def _arrays(value: Any) -> Iterator[Array | Given]:
    """The descriptions of arrays in arguments."""
    if isinstance(value, (Array, Given)):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _arrays(item)


def _fill(mx: ModuleType, value: Any, arrays: Iterator[Any]) -> Any:
    """`value` with its descriptions of arrays replaced by `arrays`, in the order of `_arrays`."""
    if isinstance(value, (Array, Given)):
        return next(arrays)
    if isinstance(value, (list, tuple)):
        return type(value)(_fill(mx, item, arrays) for item in value)
    return make(mx, value)


def _compiled(case: Case, mx: ModuleType) -> Any:
    """The outcome of the case inside a compiled function."""

    def function(*inputs: Any) -> Any:
        arrays = iter(inputs)
        args = _fill(mx, case.args, arrays)
        return perform(case, mx, args, {k: _fill(mx, v, arrays) for k, v in case.kwargs.items()})

    try:
        inputs = [make(mx, array) for array in _arrays((case.args, tuple(case.kwargs.values())))]
        result = mx.compile(function)(*inputs)
        evaluate_all(mx, result)
    except Exception as error:  # Every exception is an outcome to compare.
        return error
    return result


def _takes_arrays(case: Case) -> bool:
    return next(_arrays((case.args, tuple(case.kwargs.values()))), None) is not None


OPS = [
    op
    for op in sorted(CASES)
    if op.rpartition(".")[2] not in (*READ_VALUES, *FROM_VALUES)
    and any(map(_takes_arrays, CASES[op]))
]


@pytest.mark.parametrize("op", OPS)
def test_compiled_op(op: str, ours: ModuleType, theirs: ModuleType, count: Any) -> None:
    """Some of the cases of one op."""
    if ours is theirs:
        return
    cases = [case for case in CASES[op] if _takes_arrays(case)]
    cases = cases[:: max(1, len(cases) // CASES_OF_AN_OP)]
    outcomes = ((case, mismatch(case, ours, theirs, _compiled)) for case in cases)
    failures = [f"{case}: {text}" for case, text in outcomes if text]
    count(op, len(cases))
    if failures:
        lines = "\n".join(failures[:SHOWN])
        pytest.fail(f"{op}: {len(failures)} of {len(cases)} cases differ\n{lines}", pytrace=False)
