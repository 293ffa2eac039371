"""MLX's activation functions are compiled, which would call a C++ compiler for each of them."""

from __future__ import annotations

from collections.abc import Iterator

import mlx.core
import pytest


@pytest.fixture(autouse=True)
def mlx_interprets() -> Iterator[None]:
    """Compares with what MLX computes op by op."""
    mlx.core.disable_compile()
    yield
    mlx.core.enable_compile()
