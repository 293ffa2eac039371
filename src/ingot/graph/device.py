"""Devices and streams, as in MLX on a machine without a GPU.

Data dependencies order the work on several streams, so a stream is only a label that an op carries.
Each thread has its own default stream, and may use the streams that it made; what was built on the
stream of another thread can be evaluated by any. Requesting the GPU raises an error that says so.
"""

from __future__ import annotations

import enum
import itertools
import os
import platform
import threading
from collections.abc import Iterator
from functools import lru_cache
from types import TracebackType
from typing import Any

from ingot import _native
from ingot.graph.errors import type_name, value_text

__all__ = [
    "Device",
    "DeviceType",
    "Stream",
    "StreamContext",
    "ThreadLocalStream",
    "clear_streams",
    "cpu",
    "default_device",
    "default_stream",
    "device_count",
    "device_info",
    "gpu",
    "is_available",
    "new_stream",
    "new_thread_local_stream",
    "new_thread_unsafe_stream",
    "set_default_device",
    "set_default_stream",
    "stream",
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
        if not isinstance(type, DeviceType) or not isinstance(index, int):
            raise TypeError(
                f"[Device] takes mx.cpu or mx.gpu and an index, got {value_text(type)} and "
                f"{value_text(index)}."
            )
        self.type = type
        self.index = index

    def __repr__(self) -> str:
        return f"Device({self.type.name}, {self.index})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DeviceType):
            return self.type is other and self.index == 0
        return isinstance(other, Device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash(self.type) if self.index == 0 else hash((self.type, self.index))


class Stream:
    """A queue of work on a device; made by `new_stream`."""

    __slots__ = ("_thread", "device", "index")

    def __init__(self, device: Device, index: int) -> None:
        self.device = device
        self.index = index
        self._thread: int | None = None  # the one that may use it; None: all

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.device}, {self.index})"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Stream):
            return False
        return (self.device, self.index) == (other.device, other.index)

    def __hash__(self) -> int:
        return hash((self.device, self.index))


class ThreadLocalStream(Stream):
    """A stream that resolves to a different one in each thread; made by
    `new_thread_local_stream`.
    """

    __slots__ = ()


StreamLike = Stream | Device | DeviceType | None


class _OfThread(threading.local):
    """Per-thread state: the streams that thread-local ones resolve to."""

    def __init__(self) -> None:
        self.streams: dict[ThreadLocalStream, Stream] = {}


_of_thread = _OfThread()
# The C extension borrows its references to default streams, in threads that may outlive their
# Python state, so these streams live as long as the process.
_kept: dict[int, Stream] = {}
_numbers = itertools.count()
_thread_local_numbers = itertools.count()
_numbering = threading.Lock()  # free-threaded CPython 3.13 counts some numbers twice


def _next(numbers: Iterator[int]) -> int:
    with _numbering:
        return next(numbers)


def new_stream(device: Device | DeviceType) -> Stream:
    """A new stream on the device, which only the thread that makes it may use."""
    made = Stream(_checked_device("new_stream", device), _next(_numbers))
    made._thread = threading.get_ident()
    return made


def new_thread_unsafe_stream(device: Device | DeviceType) -> Stream:
    """A new stream that any thread may use."""
    return Stream(_checked_device("new_thread_unsafe_stream", device), _next(_numbers))


def new_thread_local_stream(device: Device | DeviceType) -> ThreadLocalStream:
    """A new stream that resolves to a different one in each thread."""
    checked = _checked_device("new_thread_local_stream", device)
    return ThreadLocalStream(checked, _next(_thread_local_numbers))


def _checked_device(name: str, device: Any) -> Device:
    if isinstance(device, DeviceType):
        device = Device(device)
    if not isinstance(device, Device):
        raise TypeError(f"[{name}] expected a device, got {type_name(device)}.")
    if device.type is gpu:
        raise ValueError(f"[{name}] there is no GPU back end: ingot runs on the CPU. Use mx.cpu.")
    return device


def _checked_only_device(name: str, device: Any) -> Device:
    checked = _checked_device(name, device)
    if checked.index != 0:
        raise IndexError(f"[{name}] there is one CPU, of index 0, got index {checked.index}.")
    return checked


def resolve_stream(where: Any) -> Stream:
    """The stream that the `stream=` argument of an op denotes."""
    if isinstance(where, ThreadLocalStream):
        streams = _of_thread.streams
        if where not in streams:
            streams[where] = new_stream(where.device)
        return streams[where]
    if isinstance(where, Stream):
        if where._thread is not None and where._thread != threading.get_ident():
            raise RuntimeError(
                f"[stream] {where} belongs to the thread that made it. Make one for each thread "
                "with mx.new_thread_local_stream, or one for all with "
                "mx.new_thread_unsafe_stream."
            )
        return where
    if where is not None:
        _checked_only_device("stream", where)
    current: Stream = _native.current_stream()
    return current


def default_device() -> Device:
    """The device of ops that do not specify one."""
    return Device(cpu)


def set_default_device(device: Device | DeviceType) -> None:
    """Set the device of ops that do not specify one: the CPU is the only one."""
    _checked_only_device("set_default_device", device)


def default_stream(device: Device | DeviceType) -> Stream:
    """The stream of ops that this thread makes on the device without specifying one."""
    return resolve_stream(_checked_only_device("default_stream", device))


def set_default_stream(stream: Stream) -> None:
    """Set the stream of ops that this thread makes without specifying one."""
    if not isinstance(stream, Stream) or isinstance(stream, ThreadLocalStream):
        raise TypeError(f"[set_default_stream] takes a stream, got {type_name(stream)}.")
    _kept[id(stream)] = stream
    _native.set_thread_stream(stream)


def clear_streams() -> None:
    """Forget the streams of this thread: its default becomes that of the process again."""
    _native.set_thread_stream(None)
    _of_thread.streams.clear()


class StreamContext:
    """A context manager that sets the default stream of this thread; see `stream`."""

    def __init__(self, s: Stream | Device | DeviceType) -> None:
        if not isinstance(s, (Stream, Device, DeviceType)):
            raise TypeError(f"[stream] takes a stream or a device, got {type_name(s)}.")
        self._where = s
        self._before: list[Stream] = []

    def __enter__(self) -> None:
        entered = resolve_stream(self._where)
        self._before.append(resolve_stream(None))
        set_default_stream(entered)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        set_default_stream(self._before.pop())


def stream(s: Stream | Device | DeviceType) -> StreamContext:
    """A context manager in which ops that do not specify a stream use `s`."""
    return StreamContext(s)


def device_count(device_type: DeviceType) -> int:
    """How many devices of a kind there are: one CPU, no GPU."""
    if not isinstance(device_type, DeviceType):
        raise TypeError(f"[device_count] takes mx.cpu or mx.gpu, got {type_name(device_type)}.")
    return 1 if device_type is cpu else 0


def is_available(device: Device | DeviceType) -> bool:
    """Whether programs can run on the device."""
    if not isinstance(device, (Device, DeviceType)):
        raise TypeError(f"[is_available] expected a device, got {type_name(device)}.")
    return device == cpu


def device_info(d: Device | DeviceType | None = None) -> dict[str, str | int]:
    """The name and the architecture of a device; of the GPU, nothing."""
    if d is not None and not isinstance(d, (Device, DeviceType)):
        raise TypeError(f"[device_info] expected a device, got {type_name(d)}.")
    kind = d.type if isinstance(d, Device) else d
    if kind is gpu:
        return {}
    return {"architecture": platform.machine(), "device_name": _processor_name()}


@lru_cache(maxsize=1)
def _processor_name() -> str:
    described = "/proc/cpuinfo"
    if os.path.exists(described):
        with open(described) as file:
            lines = file.read().splitlines()
        for line in lines:
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


_native.set_process_stream(new_thread_unsafe_stream(cpu))
_native.set_callbacks(resolve_stream=resolve_stream)
