"""Every op of ingot.core against MLX's, case by case.

One op:                pytest "tests/oracle/test_ops_match_mlx.py::test_op[exp]" -q
Ops whose name holds:  pytest tests/oracle -k exp -q
All, on two cores:     pytest tests/oracle -n 2 -q
MLX against itself:    INGOT_ORACLE_MODULE=mlx.core pytest tests/oracle -n 2 -q

A test runs all cases of its op and lists those that differ, with their arguments.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from tests.oracle.cases.table import CASES
from tests.oracle.harness.judge import mismatch

SHOWN = 25


@pytest.mark.parametrize("op", sorted(CASES))
def test_op(op: str, ours: ModuleType, theirs: ModuleType, count: Any) -> None:
    """All cases of one op."""
    cases = CASES[op]
    failures = [f"{case}: {text}" for case in cases if (text := mismatch(case, ours, theirs))]
    count(op, len(cases))
    if failures:
        more = f"\n... and {len(failures) - SHOWN} more" if len(failures) > SHOWN else ""
        lines = "\n".join(failures[:SHOWN])
        pytest.fail(
            f"{op}: {len(failures)} of {len(cases)} cases differ\n{lines}{more}", pytrace=False
        )
