"""Collectives and messages under the real `mpiexec`; collectives_program.py has the checks."""

from __future__ import annotations

import re
import socket

import pytest
from tests.distributed.ranks import passes, run_ranks


@pytest.mark.parametrize("count", [2, 4])
def test_collectives(count: int) -> None:
    passes(count, "tests.distributed.collectives_program")


def test_collectives_without_headers() -> None:
    checks = "every_collective compiled_collectives messages one_order".split()
    passes(2, "tests.distributed.collectives_program", *checks, INGOT_CHECK_COLLECTIVES="off")


def test_progress_without_a_watch() -> None:
    """The thread of the watch calls MPI too, and would hide that nothing else does."""
    program = "tests.distributed.collectives_program"
    passes(2, program, "messages_in_flight", INGOT_COLLECTIVE_TIMEOUT="0")


@pytest.mark.parametrize(
    ("what", "status", "words"),
    [
        ("raise", 1, "ingot: rank 1 of 2 on {host} failed, which ends all ranks: KeyError: 'lost'"),
        ("leave", 1, "rank 0: all_sum of float32 of shape (4); rank 1: the end of the program"),
        ("kill", 9, "EXIT CODE: 9"),
        ("lazy", 0, "rank 0 ends\n"),
    ],
)
def test_a_rank_that_fails_ends_all(what: str, status: int, words: str) -> None:
    done = run_ranks(2, "tests.distributed.failing_program", what, seconds=30)
    assert done.returncode == status, done.stdout + done.stderr
    assert words.format(host=socket.gethostname()) in done.stdout + done.stderr


def test_a_late_rank_is_named() -> None:
    done = run_ranks(
        2, "tests.distributed.failing_program", "late", seconds=30, INGOT_COLLECTIVE_TIMEOUT="0.7"
    )
    assert done.returncode == 0, done.stderr
    host = socket.gethostname()
    assert re.search(
        rf"rank 0 on {host} has waited \d s in all_sum at failing_program.py:\d+: assert again.*"
        rf"Missing: rank 1 on {host} is at failing_program.py:\d+: time.sleep\(3\)",
        done.stderr,
    ), done.stderr
    assert done.stderr.count("has waited") == 1
