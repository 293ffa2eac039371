"""A plugin of pytest: of the many parameter sets of a test function, a few.

    INGOT_SAMPLE=3 python -m pytest -p sampled

Emulated processors are some twenty times as slow as real ones, and most tests are one function with
many parameter sets: so many of each, evenly spread, run every function in a fraction of the time.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the first, the last, and some in between of each function's tests."""
    wanted = int(os.environ.get("INGOT_SAMPLE", "0"))
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    kept = {id(item) for group in functions.values() for item in spread(group, wanted)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


def spread(group: list[Any], wanted: int) -> list[Any]:
    """So many of a list, evenly spread, the first and the last among them; all of them for 0."""
    if not 0 < wanted < len(group):
        return group
    step = (len(group) - 1) / max(wanted - 1, 1)
    return [group[round(number * step)] for number in range(wanted)]
