"""Sharded indexes under the real `mpiexec`; search_program.py has the checks."""

from __future__ import annotations

from tests.distributed.ranks import passes


def test_search() -> None:
    passes(2, "tests.distributed.search_program")
