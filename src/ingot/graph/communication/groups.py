"""Groups of processes: how this process was started, and the group of all.

MPI is loaded by `init`, not by the import of ingot, and only where a launcher started this process
together with others or the caller insists on it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

from ingot._native import get_num_threads, register_constant_type, set_num_threads
from ingot.graph.communication.ending import end_together
from ingot.graph.communication.order import finish
from ingot.graph.communication.transport import Transport
from ingot.graph.communication.watch import Watch
from ingot.graph.libraries import limit_blas_threads, mpi_library

__all__ = ["Group", "connected", "group_of", "init", "is_available"]

_BACKENDS = ("any", "mpi", "ring", "nccl", "jaccl")

# How launchers announce the number of processes.
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "MLX_WORLD_SIZE")
# Set by launchers that do not tell the number, with the smallest: `mlx.launch` knows no MPI, which
# would make each of its processes a world of its own.
_RANKS = (("PMIX_RANK", 1), ("PMI_RANK", 1), ("MLX_RANK", 2))
_INSTALL = "pip install 'ingot-ml[distributed]' installs mpi4py and MPICH"


@register_constant_type
class Group:
    """Processes that communicate. `init` gives the group of all."""

    _transport: Transport | None  # None: this process by itself
    _ops: dict[type[Any], Any]  # of the group that are made once

    def __init__(self) -> None:
        raise TypeError("[distributed] a group is what mx.distributed.init() returns.")

    def rank(self) -> int:
        """The number of this process in the group."""
        return 0 if self._transport is None else self._transport.rank

    def size(self) -> int:
        """How many processes the group has."""
        return 1 if self._transport is None else self._transport.size

    def split(self, color: int, key: int = -1) -> Group:
        """The group of those processes of this group that give the same color.

        All processes of the group must call it, in the same order as collectives.

        Args:
            color: A number from 0.
            key: What processes are numbered by; their number in this group if it is negative.
        """
        transport = self._transport
        if transport is None or transport.size == 1:
            raise RuntimeError("[distributed] a group of one process cannot be split.")
        if color < 0:
            raise ValueError(f"[split] a color must be a number from 0, got {color}.")
        finish()  # what was called before comes before
        return group_of(transport.split(color, transport.rank if key < 0 else key))

    def __repr__(self) -> str:
        return f"Group(rank={self.rank()}, size={self.size()})"


def group_of(transport: Transport | None) -> Group:
    """The group of a communicator."""
    group = object.__new__(Group)
    group._transport = transport
    group._ops = {}
    return group


class _Connected:
    """The group of all processes, once `init` has found that there are several."""

    group: Group | None = None


connected = _Connected()


@cache
def _this_process() -> Group:
    return group_of(None)


@cache
def _world() -> Group:
    """The group of all processes that MPI knows."""
    mpi = mpi_library()
    starts_mpi = not mpi.Is_initialized()
    if starts_mpi:
        mpi.Init_thread(mpi.THREAD_MULTIPLE)
    # A communicator of our own: messages of other users of MPI stay theirs.
    world = Transport(mpi, mpi.COMM_WORLD.Dup(), Watch(mpi, mpi.COMM_WORLD.Dup()))
    if world.size > 1:
        world.watch.start()
        end_together(world, starts_mpi)
        _share_cores(mpi)
    return group_of(world)


def _share_cores(mpi: Any) -> None:
    """Divides the threads of this machine among the ranks on it, unless the user has chosen their
    number. Ranks that the launcher has bound to cores share those with none or a few.
    """
    machine = mpi.COMM_WORLD.Split_type(mpi.COMM_TYPE_SHARED)
    mine = os.sched_getaffinity(0)
    sharers = sum(bool(mine & cores) for cores in machine.allgather(mine))
    machine.Free()
    if "INGOT_NUM_THREADS" not in os.environ and sharers > 1:
        # By default as many as cores, or as the container's quota allows.
        set_num_threads(max(1, get_num_threads() // sharers))
        limit_blas_threads()


def is_available(backend: str = "any") -> bool:
    """Whether processes can communicate: whether mpi4py finds an MPI library.

    Args:
        backend: The way of communication. All of MLX's names mean MPI.
    """
    return backend in _BACKENDS and mpi_library() is not None


def init(
    strict: bool = False,
    backend: str = "any",
    *,
    all_gather_factory: Callable[[int, int], Callable[[bytes, int], bytes]] | None = None,
) -> Group:
    """The group of all processes that were started together; this process by itself if it was
    started alone.

    Args:
        strict: Whether to raise RuntimeError if MPI is not there, instead of returning a group of
            one process.
        backend: The way of communication: "any", "mpi", "ring", "nccl" or "jaccl", which all mean
            MPI here.
        all_gather_factory: What MLX exchanges addresses by, for "jaccl".
    """
    if backend not in _BACKENDS:
        raise ValueError(f"[distributed] backends are {', '.join(_BACKENDS)}, got {backend!r}.")
    if connected.group is not None:
        return connected.group
    announced = _announced()
    if announced is None and not strict:
        return _this_process()
    if mpi_library() is None:
        if announced is not None:
            raise RuntimeError(
                f"[distributed] the environment variable {announced[0]} says that several "
                f"processes were started to work together, but there is no MPI: {_INSTALL}."
            )
        raise RuntimeError(f"[distributed] there is no MPI to communicate with others: {_INSTALL}.")
    group = _world()
    if announced is not None and group.size() < announced[1]:
        raise RuntimeError(
            f"[distributed] the environment variable {announced[0]} says that several processes "
            f"were started together, but MPI connects {group.size()} of them: start them by "
            "`ingot launch`, or by the mpiexec of the MPI library that mpi4py has loaded, "
            f"{_library_name(mpi_library())}."
        )
    if group.size() > 1:
        connected.group = group
    return group


def _library_name(mpi: Any) -> str:
    return " ".join(mpi.Get_library_version().split("\n")[0].split())


def _announced() -> tuple[str, int] | None:
    """The environment variable by which a launcher announces processes, and how many at least; None
    if this process was started alone.
    """
    for name in _SIZES:
        size = os.environ.get(name, "")
        if size.isdigit():
            return (name, int(size)) if int(size) > 1 else None
    for name, least in _RANKS:
        if name in os.environ:
            return name, least
    return None
