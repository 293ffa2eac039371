from __future__ import annotations

from collections.abc import Iterator

import pytest

import ingot.core as mx


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """The random state and compilation as they were: other tests share the process."""
    before = list(mx.random.state)
    yield
    mx.enable_compile()
    mx.random.state[:] = before
