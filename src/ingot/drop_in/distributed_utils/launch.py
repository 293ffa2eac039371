"""`mlx.launch` where mlx is ingot: `ingot launch` with the same arguments."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Replaces this process by `ingot launch`."""
    os.execv(sys.executable, [sys.executable, "-m", "ingot", "launch", *sys.argv[1:]])


if __name__ == "__main__":
    main()
