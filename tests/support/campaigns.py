"""Which combinations of options are tried: some in every run, all with INGOT_PRODUCTS=all.

Each combination compiles kernels of its own, which take a second or so; `make check-products` tries
all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, TypeVar

import pytest

__all__ = ["IS_WHOLE", "combinations", "some"]

T = TypeVar("T")
IS_WHOLE = os.environ.get("INGOT_PRODUCTS") == "all"


def some(cases: Sequence[T], step: int) -> Sequence[T]:
    """Every so-manieth case, or all."""
    return cases if IS_WHOLE else cases[::step]


def combinations(
    lengths: Sequence[Any], kinds: Sequence[Any], usual: Callable[[Any, Any], bool]
) -> list[Any]:
    """Pairs that are usual, or all, with the ids that two parameters would have."""
    return [
        pytest.param(one, other, id=f"{one}-{other}")
        for one, other in product(lengths, kinds)
        if IS_WHOLE or usual(one, other)
    ]
