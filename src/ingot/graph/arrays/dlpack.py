"""DLPack import and export, through NumPy's implementation of the protocol.

NumPy does not support bfloat16 in DLPack, so such arrays pass through it as integers of the same
size, and the type code in the capsule is patched.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot import _native
from ingot._native import array
from ingot.graph.dtype import bfloat16, uint16
from ingot.graph.errors import ConversionError, type_name

__all__ = ["from_dlpack"]

CPU = (1, 0)  # DLPack's device type 1 is the CPU
UNSIGNED_INTEGER = 1  # DLPack's type codes
BFLOAT = 4


class _Capsule:
    """Presents an existing capsule to a consumer that calls `__dlpack__`."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU


def dlpack(
    a: array,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """The array as a DLPack capsule that shares its memory, unless `copy` is True."""
    if dl_device is not None and dl_device[0] != CPU[0]:
        raise BufferError(f"[dlpack] an array is on the CPU and cannot go to device {dl_device}.")
    data = a._data
    if a.dtype is bfloat16:
        data = data.view(uint16.numpy)
    if copy or not (data.flags.writeable or max_version):
        data = data.copy()  # capsules without a version have no read-only flag
    capsule = data.__dlpack__(max_version=max_version)
    if a.dtype is bfloat16:
        _native.retype_dlpack(capsule, UNSIGNED_INTEGER, BFLOAT)
    return capsule


def dlpack_device(a: array) -> tuple[int, int]:
    """The device of the array's memory in DLPack's numbering: the CPU."""
    return CPU


def imported(name: str, value: Any) -> np.ndarray:
    """The memory of an object with `__dlpack__`, or of a capsule, without a copy."""
    capsule = value
    if hasattr(value, "__dlpack__"):
        device = value.__dlpack_device__() if hasattr(value, "__dlpack_device__") else CPU
        if device[0] != CPU[0]:
            raise ConversionError(
                f"[{name}] the memory of {type_name(value)} is on DLPack device {device}: "
                "move it to the CPU first."
            )
        capsule = _capsule_of(value)
    try:
        is_bfloat16 = _native.retype_dlpack(capsule, BFLOAT, UNSIGNED_INTEGER)
        data = np.from_dlpack(_Capsule(capsule))
    except (ValueError, TypeError, BufferError, RuntimeError) as error:
        raise ConversionError(
            f"[{name}] cannot take {type_name(value)} by DLPack: {error}"
        ) from None
    return data.view(bfloat16.numpy) if is_bfloat16 else data


def _capsule_of(value: Any) -> Any:
    try:
        return value.__dlpack__(max_version=(1, 0))
    except TypeError:  # predates versioned DLPack
        return value.__dlpack__()


def from_dlpack(x: Any, /, *, copy: bool | None = None) -> array:
    """Create an array from an object that supports DLPack, with the dtype that `array` chooses.

    Args:
        x: An object with `__dlpack__` and `__dlpack_device__`, or a capsule.
        copy: False raises: the memory is always copied, because its owner may write to it.
    """
    if not hasattr(x, "__dlpack__") and type(x).__name__ != "PyCapsule":
        raise TypeError(f"[from_dlpack] takes an object with __dlpack__, got {type_name(x)}.")
    if copy is False:
        raise ValueError(
            f"[from_dlpack] cannot take {type_name(x)} without a copy: omit copy=False."
        )
    return array(x)
