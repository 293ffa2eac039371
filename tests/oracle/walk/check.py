"""Calls made with both libraries, and what is to be said of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.oracle.walk.compare import Difference, difference
from tests.oracle.walk.known import reason
from tests.oracle.walk.outcome import Crashed
from tests.oracle.walk.worker import Worker


@dataclass(frozen=True)
class Compared:
    """`verdict` is "equal", "unexplained", or the reason why the outcomes differ."""

    call: str
    verdict: str
    difference: Difference | None = None


def compared(texts: list[str], mlx: Worker, ours: Worker) -> Iterator[Compared]:
    """Each call with both libraries."""
    for text, theirs, found in zip(texts, mlx.outcomes(texts), ours.outcomes(texts), strict=True):
        unequal = difference(found, theirs)
        if unequal is not None:
            yield Compared(text, reason(text, unequal) or "unexplained", unequal)
        elif isinstance(theirs, Crashed):
            yield Compared(text, "MLX crashes or does not answer")
        else:
            yield Compared(text, "equal")
