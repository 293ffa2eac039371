"""Which part of the Python array API standard `ingot.core` implements, as in `mlx.core`.

`ingot.array_api` is the namespace that conforms to the standard.
"""

from __future__ import annotations

from typing import Any

from ingot.graph import device as _device
from ingot.graph import dtype as _dtype

_KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64",),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]
_NAMES = _KINDS["bool"] + _KINDS["numeric"]


class ArrayNamespaceInfo:
    """What `__array_namespace_info__` returns."""

    def capabilities(self) -> dict[str, Any]:
        """Shapes never depend on data, so masks do not select; MLX's limit of axes."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 10}

    def default_device(self) -> Any:
        """The device that functions use."""
        return _device.default_device()

    def devices(self) -> tuple[Any, ...]:
        """The CPU."""
        return (_device.Device(_device.cpu),)

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes of arrays that are made of Python numbers."""
        _check(device)
        return {
            "real floating": _dtype.float32,
            "complex floating": _dtype.complex64,
            "integral": _dtype.int32,
            "indexing": _dtype.int32,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The available dtypes of the standard, of one kind or several."""
        _check(device)
        kinds = (kind,) if isinstance(kind, str) else kind
        if kinds is None:
            wanted = _NAMES
        elif isinstance(kinds, tuple) and all(one in _KINDS for one in kinds):
            wanted = tuple(name for one in kinds for name in _KINDS[one])
        else:
            raise ValueError(
                f"[dtypes] kind must be one of {', '.join(map(repr, _KINDS))} or a tuple of them, "
                f"not {kind!r}."
            )
        every = {name: getattr(_dtype, "bool_" if name == "bool" else name) for name in _NAMES}
        return {name: dtype for name, dtype in every.items() if name in wanted}


def _check(device: Any) -> None:
    if device is not None and not isinstance(device, _device.Device):
        raise TypeError(f"[dtypes] device must be an mx.Device or None, not {device!r}.")


def __array_namespace_info__() -> ArrayNamespaceInfo:  # noqa: N807
    """Which part of the array API standard the namespace implements."""
    return ArrayNamespaceInfo()
