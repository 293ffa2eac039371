"""Views: NumPy arrays on memory that a native program has filled."""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot._native import ndarray_address

__all__ = ["view_at"]


class _Window:
    """Memory of another array, as NumPy's array interface describes it; keeps the other array
    alive.
    """

    def __init__(self, owner: np.ndarray, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


def view_at(
    owner: np.ndarray, offset: int, shape: Any, dtype: np.dtype[Any], strides: Any
) -> np.ndarray:
    """An array in the memory of another, `offset` bytes after its first element."""
    interface = {
        "data": (ndarray_address(owner) + offset, True),
        "shape": shape,
        "strides": strides,
        "typestr": f"|V{dtype.itemsize}",
        "version": 3,
    }
    return np.asarray(_Window(owner, interface)).view(dtype)
