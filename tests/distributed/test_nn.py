"""Sharded layers and training under the real `mpiexec`; nn_program.py has the checks."""

from __future__ import annotations

import re

import pytest
from tests.cli.process import ingot as command
from tests.distributed.ranks import PROJECT, passes


@pytest.mark.parametrize("count", [2, 4])
def test_nn(count: int) -> None:
    passes(count, "tests.distributed.nn_program")


def test_the_example() -> None:
    """Two ranks reach the losses of one."""
    lines = []
    for count in ("1", "2"):
        done = command("launch", "-n", count, PROJECT / "examples/data_parallel.py", "2")
        assert done.returncode == 0, done.stderr
        lines.append(re.search(r"loss (\d+\.\d+), (\d+\.\d+)%", done.stdout))
    one, two = lines
    assert one
    assert two
    assert abs(float(one[1]) - float(two[1])) < 0.005
