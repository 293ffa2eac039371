"""Communication between processes: MLX's functions for a group of one process.

Programs written for several processes run here unchanged, as they do in MLX when started once: sums
over the group are the process's own arrays, and there is nobody to send to. If a launcher started
several processes, this would silently give wrong results, so it raises.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ingot._native import Dtype, array, wrap
from ingot.graph.device import StreamLike
from ingot.ops.elementwise.casting import as_array

__all__ = [
    "Group",
    "all_gather",
    "all_max",
    "all_min",
    "all_sum",
    "init",
    "is_available",
    "recv",
    "recv_like",
    "send",
    "sum_scatter",
]

_BACKENDS = ("any", "mpi", "ring", "nccl", "jaccl")

# How launchers announce the number of processes; `mlx.launch` may only set the rank.
_SIZES = ("MLX_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_RANK = "MLX_RANK"


class Group:
    """Processes that communicate: here, this process by itself. `init` gives it."""

    def __init__(self) -> None:
        raise TypeError("[distributed] a group is what mx.distributed.init() returns.")

    def rank(self) -> int:
        """The number of this process in the group."""
        return 0

    def size(self) -> int:
        """How many processes the group has."""
        return 1

    def split(self, color: int, key: int = -1) -> NoReturn:
        """Raises RuntimeError: a group of one process has no parts.

        Args:
            color: Processes with the same color would be a group.
            key: What processes would be numbered by.
        """
        raise RuntimeError("[distributed] a group of one process cannot be split.")


_THIS_PROCESS = object.__new__(Group)


def is_available(backend: str = "any") -> bool:
    """Whether processes can communicate: False, there is no way to.

    Args:
        backend: The way of communication.
    """
    return False


def init(
    strict: bool = False,
    backend: str = "any",
    *,
    all_gather_factory: Callable[[int, int], Callable[[bytes, int], bytes]] | None = None,
) -> Group:
    """The group of all processes: this one.

    Args:
        strict: Whether to raise RuntimeError, because there is no way to communicate.
        backend: The way of communication: "any", "mpi", "ring", "nccl" or "jaccl".
        all_gather_factory: What MLX exchanges addresses by, for "jaccl".
    """
    if backend not in _BACKENDS:
        raise ValueError(f"[distributed] backends are {', '.join(_BACKENDS)}, got {backend!r}.")
    others = _sign_of_others()
    if others is not None:
        raise RuntimeError(
            f"[distributed] the environment variable {others} says that several processes were "
            "started to work together, but ingot cannot communicate between processes. "
            "Start one process, or take the variable away for each to work alone."
        )
    if strict:
        raise RuntimeError(
            "[distributed] ingot runs in one process: there is no backend to communicate with "
            "others. Without strict=True, init gives a group of one."
        )
    return _THIS_PROCESS


def _sign_of_others() -> str | None:
    """The environment variable by which a launcher announces other processes."""
    sizes = {name: os.environ[name] for name in _SIZES if name in os.environ}
    several = [name for name, size in sizes.items() if size != "1"]
    if several:
        return several[0]
    return _RANK if _RANK in os.environ and not sizes else None


def _alone(name: str, x: Any, group: Any) -> array:
    """A new array equal to `x`: the result in a group of one process."""
    if group is None:
        group = init()
    if group.size() != 1:
        raise ValueError(f"[{name}] groups have one process, got one of {group.size()}.")
    return wrap(as_array(name, x))


def all_sum(x: Any, *, group: Group | None = None, stream: StreamLike = None) -> array:
    """The sum of the arrays of all processes of a group.

    Args:
        x: The array of this process.
        group: The group, all processes by default.
        stream: The stream or device to run on.
    """
    return _alone("all_sum", x, group)


def all_max(x: Any, *, group: Group | None = None, stream: StreamLike = None) -> array:
    """The largest of the elements of all processes of a group.

    Args:
        x: The array of this process.
        group: The group, all processes by default.
        stream: The stream or device to run on.
    """
    return _alone("all_max", x, group)


def all_min(x: Any, *, group: Group | None = None, stream: StreamLike = None) -> array:
    """The smallest of the elements of all processes of a group.

    Args:
        x: The array of this process.
        group: The group, all processes by default.
        stream: The stream or device to run on.
    """
    return _alone("all_min", x, group)


def all_gather(x: Any, *, group: Group | None = None, stream: StreamLike = None) -> array:
    """The arrays of all processes of a group, concatenated along the first axis.

    Args:
        x: The array of this process.
        group: The group, all processes by default.
        stream: The stream or device to run on.
    """
    return _alone("all_gather", x, group)


def sum_scatter(x: Any, *, group: Group | None = None, stream: StreamLike = None) -> array:
    """This process's part, along the first axis, of the sum of the arrays of all processes.

    Args:
        x: The array of this process.
        group: The group, all processes by default.
        stream: The stream or device to run on.
    """
    return _alone("sum_scatter", x, group)


def send(x: Any, dst: int, *, group: Group | None = None, stream: StreamLike = None) -> NoReturn:
    """Raises ValueError: there is no other process.

    Args:
        x: The array to send.
        dst: The number of the process to send it to.
        group: The group, all processes by default.
        stream: The stream or device to run on.
    """
    _alone("send", x, group)
    raise ValueError(f"[send] there is no process {dst}: the group has one process.")


def recv(
    shape: Sequence[int],
    dtype: Dtype,
    src: int,
    *,
    group: Group | None = None,
    stream: StreamLike = None,
) -> NoReturn:
    """Raises ValueError: there is no other process.

    Args:
        shape: The shape of what would come.
        dtype: Its dtype.
        src: The number of the process that sends it.
        group: The group, all processes by default.
        stream: The stream or device to run on.
    """
    raise ValueError(f"[recv] there is no process {src}: the group has one process.")


def recv_like(
    x: array, src: int, *, group: Group | None = None, stream: StreamLike = None
) -> NoReturn:
    """Raises ValueError: there is no other process.

    Args:
        x: An array like the one that would come.
        src: The number of the process that sends it.
        group: The group, all processes by default.
        stream: The stream or device to run on.
    """
    raise ValueError(f"[recv_like] there is no process {src}: the group has one process.")
