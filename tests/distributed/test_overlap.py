"""Sums that overlap with the backward pass, under the real `mpiexec`; overlap_program.py has the
checks.
"""

from __future__ import annotations

from tests.distributed.ranks import passes


def test_overlap() -> None:
    passes(2, "tests.distributed.overlap_program")
