"""The package metadata that `importlib.metadata.version("mlx")` finds while ingot replaces mlx.

It is imported on the first such request, because importlib.metadata is slow to import.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path
from typing import TYPE_CHECKING

import ingot

if TYPE_CHECKING:
    from importlib.metadata._meta import SimplePath

_METADATA = f"""\
Metadata-Version: 2.1
Name: mlx
Version: {ingot.MLX_VERSION}
Summary: ingot {ingot.__version__} in place of mlx
"""


class _Mlx(Distribution):
    """A distribution with a single file of metadata."""

    def read_text(self, filename: str) -> str | None:
        return _METADATA if filename == "METADATA" else None

    def locate_file(self, path: str | os.PathLike[str]) -> SimplePath:
        return Path(ingot.__file__).parent / path


def distributions() -> Iterator[Distribution]:
    """Yields the distribution of mlx."""
    yield _Mlx()
