"""Inspection: what the namespace has."""

from __future__ import annotations

from typing import Any

import ingot.core as mx
from ingot.array_api.array import check_device, default_float, default_int, kind_of
from ingot.array_api.dtypes import DTYPES, KINDS

__all__ = ["__array_namespace_info__"]


class Info:
    """What `__array_namespace_info__` returns."""

    def capabilities(self) -> dict[str, Any]:
        """Masks and shapes that depend on data work; arrays have up to 64 axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        """The CPU."""
        return mx.Device(mx.cpu)

    def devices(self) -> list[Any]:
        """The CPU."""
        return [mx.Device(mx.cpu)]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes of arrays that are made of Python numbers."""
        check_device(device)
        return {
            "real floating": default_float,
            "complex floating": mx.complex64,
            "integral": default_int,
            "indexing": default_int,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The standard's dtypes that there are, of one kind or several."""
        check_device(device)
        if kind is None:
            return dict(DTYPES)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        wanted = {part for one in kinds for part in KINDS[one]}
        return {name: dtype for name, dtype in DTYPES.items() if kind_of(dtype) in wanted}


def __array_namespace_info__() -> Info:  # noqa: N807
    """What the namespace has."""
    return Info()
