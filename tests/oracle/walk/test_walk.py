"""A sample of the walk; `python -m tests.oracle.walk` takes all of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.oracle.walk.check import compared
from tests.oracle.walk.variants import listed, variants
from tests.oracle.walk.worker import Worker

SAMPLE = listed()[::16]


@pytest.fixture(scope="module")
def workers() -> Iterator[tuple[Worker, Worker]]:
    both = Worker("mlx"), Worker("ingot")
    yield both
    for worker in both:
        worker.close()


@pytest.mark.parametrize("expression", SAMPLE)
def test_outcomes(expression: str, workers: tuple[Worker, Worker]) -> None:
    found = list(compared(variants(expression, 60), *workers))
    wrong = [one for one in found if one.verdict == "unexplained"]
    assert not wrong, "\n".join(f"{one.call}: {one.difference}" for one in wrong)
