"""Sharded layers and training under the real `mpiexec`; nn_program.py has the checks."""

from __future__ import annotations

import pytest
from tests.distributed.ranks import passes


@pytest.mark.parametrize("count", [2, 4])
def test_nn(count: int) -> None:
    passes(count, "tests.distributed.nn_program")
