"""mlx.core.distributed in a program of one process, which is all that ingot runs.

There is no communication between processes. As MLX does where no other process takes part, `init`
gives a group of one, in which sums over all processes are the arrays themselves. Where a launcher
started several processes, that would quietly be wrong, so `init` refuses.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.ops.casting import as_array

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

_BACKENDS = ("any", "mpi", "nccl", "jaccl", "ring")

# How launchers tell a process how many there are; `mlx.launch` may only tell its rank.
_SIZES = ("MLX_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_RANK = "MLX_RANK"


class Group:
    """The processes that work together: this one."""

    def rank(self) -> int:
        """The number of this process in the group."""
        return 0

    def size(self) -> int:
        """How many processes there are in the group."""
        return 1

    def split(self, color: int, key: int = -1) -> Group:
        """Refuses: a group of one has no parts."""
        raise RuntimeError("[distributed] a group of one process cannot be split further.")


_alone = Group()


def is_available(backend: str = "any") -> bool:
    """Whether processes can work together: no, whatever the backend."""
    return False


def init(
    strict: bool = False,
    backend: str = "any",
    *,
    all_gather_factory: Callable[[int, int], Callable[[bytes, int], bytes]] | None = None,
) -> Group:
    """The group of all processes: this one.

    Args:
        strict: Whether to raise an error, because there is no communication between processes.
        backend: The name of one of MLX's backends, or "any".
        all_gather_factory: Not used; MLX's jaccl backend would.

    Returns:
        A group of one.
    """
    if backend not in _BACKENDS:
        names = ", ".join(map(repr, _BACKENDS))
        raise ValueError(f"[distributed] backend must be one of {names}, got {backend!r}.")
    others = _sign_of_others()
    if others is not None:
        raise RuntimeError(
            f"[distributed] the environment variable {others} says that several processes were "
            "started to work together, but ingot cannot communicate between processes. "
            "Start one process, or take the variable away for each to work alone."
        )
    if strict:
        raise RuntimeError(
            "[distributed] ingot cannot communicate between processes. "
            "With strict=False, `init` gives a group of this process alone."
        )
    return _alone


def all_sum(x: array, *, group: Group | None = None, stream: StreamLike = None) -> array:
    """The sum of `x` over all processes: `x`."""
    return _of_all("all_sum", x, group)


def all_max(x: array, *, group: Group | None = None, stream: StreamLike = None) -> array:
    """The largest of `x` over all processes: `x`."""
    return _of_all("all_max", x, group)


def all_min(x: array, *, group: Group | None = None, stream: StreamLike = None) -> array:
    """The smallest of `x` over all processes: `x`."""
    return _of_all("all_min", x, group)


def all_gather(x: array, *, group: Group | None = None, stream: StreamLike = None) -> array:
    """The `x` of all processes, joined along the first axis: `x`."""
    return _of_all("all_gather", x, group)


def sum_scatter(x: array, *, group: Group | None = None, stream: StreamLike = None) -> array:
    """This process's part of the sum of `x` over all processes: `x`."""
    return _of_all("sum_scatter", x, group)


def send(x: array, dst: int, *, group: Group | None = None, stream: StreamLike = None) -> array:
    """Refuses: there is no other process."""
    raise _no_other("send", "to", dst)


def recv(
    shape: Sequence[int],
    dtype: Dtype,
    src: int,
    *,
    group: Group | None = None,
    stream: StreamLike = None,
) -> array:
    """Refuses: there is no other process."""
    raise _no_other("recv", "from", src)


def recv_like(
    x: array, src: int, *, group: Group | None = None, stream: StreamLike = None
) -> array:
    """Refuses: there is no other process."""
    raise _no_other("recv_like", "from", src)


def _of_all(name: str, x: array, group: Group | None) -> array:
    if group is None:
        init()
    # Another handle, because assigning to one array must not change the other.
    return array(as_array(name, x))


def _no_other(name: str, direction: str, rank: int) -> ValueError:
    return ValueError(
        f"[{name}] there is no process {rank} to {name.partition('_')[0]} {direction}: "
        "the group is this process alone."
    )


def _sign_of_others() -> str | None:
    sizes = {name: os.environ[name] for name in _SIZES if name in os.environ}
    several = [name for name, size in sizes.items() if size != "1"]
    if several:
        return several[0]
    return _RANK if _RANK in os.environ and not sizes else None
