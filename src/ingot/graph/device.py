"""Devices and streams, as MLX has them on a machine without a GPU.

Work on several streams is ordered by its data, so a stream is a label that an op carries. Asking for the GPU is an
error that says so.
"""

from __future__ import annotations

import enum
import itertools
from typing import Any

from ingot import _native

__all__ = [
    "Device",
    "DeviceType",
    "Stream",
    "StreamLike",
    "cpu",
    "gpu",
    "new_stream",
    "resolve_stream",
]


class DeviceType(enum.Enum):
    """The kinds of device that MLX programs name."""

    cpu = 0
    gpu = 1

    def __repr__(self) -> str:
        return f"DeviceType.{self.name}"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Device):
            return other == self
        return self is other

    __hash__ = enum.Enum.__hash__


cpu = DeviceType.cpu
gpu = DeviceType.gpu


class Device:
    """A device: `Device(mx.cpu, 0)`. Equal to its type when the index is 0."""

    __slots__ = ("index", "type")

    def __init__(self, type: DeviceType, index: int = 0) -> None:
        self.type = type
        self.index = index

    def __repr__(self) -> str:
        return f"Device({self.type.name}, {self.index})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DeviceType):
            return self.type is other and self.index == 0
        return isinstance(other, Device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))


class Stream:
    """A queue of work on a device; made by `new_stream`."""

    __slots__ = ("device", "index")

    def __init__(self, device: Device, index: int) -> None:
        self.device = device
        self.index = index

    def __repr__(self) -> str:
        return f"Stream({self.device}, {self.index})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device, self.index) == (
            other.device,
            other.index,
        )

    def __hash__(self) -> int:
        return hash((self.device, self.index))


StreamLike = Stream | Device | DeviceType | None

_counter = itertools.count()
_streams: list[
    Stream
] = []  # the C extension borrows references to streams: they live as long as the process


def new_stream(device: Device | DeviceType) -> Stream:
    """A new stream on the device."""
    stream = Stream(_checked_device("new_stream", device), next(_counter))
    _streams.append(stream)
    return stream


def _checked_device(name: str, device: Any) -> Device:
    if isinstance(device, DeviceType):
        device = Device(device)
    if not isinstance(device, Device):
        raise TypeError(f"[{name}] expected a device, got {type(device).__name__}.")
    if device.type is gpu:
        raise ValueError(f"[{name}] there is no GPU back end: ingot runs on the CPU. Use mx.cpu.")
    return device


def resolve_stream(where: Any) -> Stream:
    """The stream that `stream=` on an op stands for."""
    if isinstance(where, Stream):
        return where
    if where is None:
        stream: Stream = _native.current_stream()
        return stream
    _checked_device("stream", where)
    return _streams[0]


_native.set_process_stream(new_stream(cpu))
_native.set_hook("resolve_stream", resolve_stream)
