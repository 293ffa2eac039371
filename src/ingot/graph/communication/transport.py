"""Collectives and messages on NumPy arrays: MPI reads the arguments and writes the results in
place.

Sums of half-precision numbers are accumulated in float32 and rounded once. Everything that only
moves data is moved as bytes, so that dtypes that MPI does not know need no conversion. Unless
INGOT_CHECK_COLLECTIVES=off, each call first exchanges headers (`headers.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ingot.graph.communication.headers import ENVELOPE, INLINE, Header, envelope, opened
from ingot.graph.communication.order import restart
from ingot.graph.dtype import bfloat16, complex64

__all__ = ["Transport"]

_OFF = ("0", "off", "false", "no")

# Ranks up to which everybody gets the headers, with small data, of all; in larger groups their
# hashes are compared, whose size does not grow with the group.
MAX_LISTED = 16

_HALVES = (np.dtype(np.float16), bfloat16.numpy)
_REDUCE: dict[str, Callable[..., np.ndarray]] = {
    "all_sum": np.add.reduce,
    "sum_scatter": np.add.reduce,
    "all_max": np.maximum.reduce,
    "all_min": np.minimum.reduce,
}


class Transport:
    """The communicator of one group of processes."""

    def __init__(self, mpi: Any, communicator: Any) -> None:
        self.mpi = mpi
        self.communicator = communicator
        self.rank: int = communicator.Get_rank()
        self.size: int = communicator.Get_size()
        self.checks = os.environ.get("INGOT_CHECK_COLLECTIVES", "on").lower() not in _OFF
        self.calls = 0
        self.sends: list[tuple[Any, list[np.ndarray]]] = []  # in flight, with their data
        self.types = {
            np.dtype(kind): getattr(mpi, name)
            for kind, name in (
                *((np.int8, "INT8_T"), (np.int16, "INT16_T"), (np.int32, "INT32_T")),
                *((np.int64, "INT64_T"), (np.uint8, "UINT8_T"), (np.uint16, "UINT16_T")),
                *((np.uint32, "UINT32_T"), (np.uint64, "UINT64_T"), (np.float32, "FLOAT")),
                *((np.float64, "DOUBLE"), (np.complex64, "C_FLOAT_COMPLEX")),
            )
        }
        # MPI's own maximum may lose a NaN, and it has none of complex numbers.
        self.extremes = {
            (name, kind): mpi.Op.Create(_by_numpy(function, kind), commute=True)
            for name, function in (("all_max", np.maximum), ("all_min", np.minimum))
            for kind in (np.dtype(np.float32), np.dtype(np.float64), complex64.numpy)
        }

    # Collectives

    def reduce(self, kind: str, x: np.ndarray) -> np.ndarray:
        """The sum, maximum or minimum over all ranks; `kind` is the name of the function."""
        x = np.asarray(x, order="C")
        small = self.exchange(kind, x)
        if small is not None:
            return _reduced(kind, small)
        sent, mpi_type, op = self.operands(kind, x)
        result = np.empty(sent.shape, sent.dtype)
        self.communicator.Allreduce([sent, mpi_type], [result, mpi_type], op)
        return _as(result, x.dtype)

    def gather(self, x: np.ndarray) -> np.ndarray:
        """The arrays of all ranks, stacked along a new first axis."""
        x = np.asarray(x, order="C")
        small = self.exchange("all_gather", x)
        if small is not None:
            return small
        result = np.empty((self.size, *x.shape), x.dtype)
        self.communicator.Allgather(self.bytes_of(x), self.bytes_of(result))
        return result

    def scatter_sum(self, x: np.ndarray) -> np.ndarray:
        """This rank's block of the sum over all ranks; `x[r]` is the block of rank r."""
        x = np.asarray(x, order="C")
        small = self.exchange("sum_scatter", x)
        if small is not None:
            return _reduced("sum_scatter", small[:, self.rank])
        sent, mpi_type, op = self.operands("sum_scatter", x)
        result = np.empty(x.shape[1:], sent.dtype)
        self.communicator.Reduce_scatter_block([sent, mpi_type], [result, mpi_type], op)
        return _as(result, x.dtype)

    def exchange_blocks(self, x: np.ndarray) -> np.ndarray:
        """`x[r]` goes to rank r; the result has a block of each rank."""
        x = np.asarray(x, order="C")
        small = self.exchange("all_to_all", x)
        if small is not None:
            return small[:, self.rank]
        result = np.empty(x.shape, x.dtype)
        self.communicator.Alltoall(self.bytes_of(x), self.bytes_of(result))
        return result

    def broadcast(self, x: np.ndarray, root: int) -> np.ndarray:
        """The array of rank `root`."""
        x = np.asarray(x, order="C")
        small = self.exchange("broadcast", x, root)
        if small is not None:
            return small[root]
        result = x.copy() if self.rank == root else np.empty(x.shape, x.dtype)
        self.communicator.Bcast(self.bytes_of(result), root)
        return result

    def split(self, color: int, key: int) -> Transport:
        """The communicator of the ranks that give the same color."""
        self.exchange("split", np.empty(0, np.uint8))
        return Transport(self.mpi, self.communicator.Split(color, key))

    # Messages

    def send(self, x: np.ndarray, to: int) -> None:
        """Begins to send a copy of `x`, whose memory a running program may reuse."""
        self.sends = [pending for pending in self.sends if not pending[0].Test()]
        kept = [np.array(x, order="C")]
        if self.checks:
            header = envelope(0, "send", to, kept[0])
            kept.append(header)
            self.start(header, to, kept)
            if x.nbytes <= INLINE:
                return
        self.start(kept[0], to, kept)

    def start(self, x: np.ndarray, to: int, kept: list[np.ndarray]) -> None:
        request = self.communicator.Isend(self.bytes_of(x), to)
        self.sends.append((request, kept))

    def receive(self, shape: tuple[int, ...], dtype: np.dtype[Any], source: int) -> np.ndarray:
        """The next array that rank `source` sends to this one."""
        result = np.empty(shape, dtype)
        if self.checks:
            packed = np.empty(ENVELOPE, np.uint8)
            self.communicator.Recv(self.bytes_of(packed), source)
            expected, found = opened(envelope(0, "send", self.rank, result)), opened(packed)
            if expected != found:
                restart()
                raise ValueError(
                    f"[recv] rank {self.rank} expects {expected.dtype} of shape "
                    f"{list(shape)} from rank {source}, which sent {found.dtype} of shape "
                    f"{list(found.shape)}."
                )
            if result.nbytes <= INLINE:
                return _inline(packed, shape, dtype)
        self.communicator.Recv(self.bytes_of(result), source)
        return result

    def finish_sends(self) -> None:
        """Waits until everything sent is out of this process."""
        while self.sends:
            self.sends.pop()[0].Wait()

    # What the above have in common

    def operands(self, kind: str, x: np.ndarray) -> tuple[np.ndarray, Any, Any]:
        """The array as MPI reduces it, its type there, and the operation."""
        mpi = self.mpi
        if x.dtype == np.bool_:
            op = mpi.BAND if kind == "all_min" else mpi.BOR
            return x.view(np.uint8), self.types[np.dtype(np.uint8)], op
        if x.dtype in _HALVES:
            x = x.astype(np.float32)
        if kind in ("all_sum", "sum_scatter"):
            return x, self.types[x.dtype], mpi.SUM
        op = self.extremes.get((kind, x.dtype))
        if op is None:
            op = mpi.MAX if kind == "all_max" else mpi.MIN
        return x, self.types[x.dtype], op

    def bytes_of(self, x: np.ndarray) -> list[Any]:
        """A contiguous array as MPI's bytes."""
        return [self.mpi.buffer.fromaddress(x.ctypes.data, x.nbytes), self.mpi.BYTE]

    def exchange(self, kind: str, x: np.ndarray, root: int = 0) -> np.ndarray | None:
        """Compares headers, if that is on; the arrays of all ranks, stacked, if they came along."""
        if not self.checks:
            return None
        mine = envelope(self.calls, kind, root, x)
        self.calls += 1
        if self.size > MAX_LISTED:
            self.compare_hashes(mine)
            return None
        packed = np.empty((self.size, ENVELOPE), np.uint8)
        self.communicator.Allgather(self.bytes_of(mine), self.bytes_of(packed))
        words = packed[:, : ENVELOPE - INLINE]
        if (words != words[0]).any():
            self.refuse(packed)
        if x.nbytes > INLINE:
            return None
        small = packed[:, ENVELOPE - INLINE : ENVELOPE - INLINE + x.nbytes]
        return np.ascontiguousarray(small).view(x.dtype).reshape(self.size, *x.shape)

    def compare_hashes(self, mine: np.ndarray) -> None:
        """The check of large groups: the smallest and the largest hash must be equal."""
        key = hash(mine[: ENVELOPE - INLINE].tobytes()) >> 2
        both = np.array([key, -key], np.int64)
        largest = np.empty(2, np.int64)
        self.communicator.Allreduce(both, largest, self.mpi.MAX)
        if largest[0] == -largest[1]:
            return
        packed = np.empty((self.size, ENVELOPE), np.uint8)
        self.communicator.Allgather(self.bytes_of(mine), self.bytes_of(packed))
        self.refuse(packed)

    def refuse(self, packed: np.ndarray) -> None:
        """Raises, on all ranks, the error of headers that differ."""
        restart()
        headers = [opened(row) for row in packed]
        raise ValueError(mismatch(headers, self.rank))


def mismatch(headers: list[Header], rank: int) -> str:
    """Which ranks call what, as a sentence."""
    groups: dict[str, list[int]] = {}
    for number, header in enumerate(headers):
        groups.setdefault(str(header), []).append(number)
    sides = "; ".join(
        f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}: {text}"
        for text, ranks in groups.items()
    )
    return (
        f"[distributed] the ranks of a group must call the same functions on arrays of the same "
        f"shape and dtype in the same order, but call {headers[rank].number} of the group is: "
        f"{sides}."
    )


def _by_numpy(function: Any, kind: np.dtype[Any]) -> Callable[[Any, Any, Any], None]:
    """A reduction that MPI calls: `into` becomes the function of both."""

    def combine(other: Any, into: Any, mpi_type: Any) -> None:
        target = np.frombuffer(into, kind)
        function(target, np.frombuffer(other, kind), out=target)

    return combine


def _reduced(kind: str, rows: np.ndarray) -> np.ndarray:
    """The reduction of small arrays in the order of ranks, equal on all of them."""
    if rows.dtype == np.bool_:
        reduce = np.logical_and.reduce if kind == "all_min" else np.logical_or.reduce
        return np.asarray(reduce(rows, axis=0))
    if rows.dtype in _HALVES:
        return np.asarray(_REDUCE[kind](rows.astype(np.float32), axis=0)).astype(rows.dtype)
    return np.asarray(_REDUCE[kind](rows, axis=0), rows.dtype)


def _inline(packed: np.ndarray, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """The data that came with a header."""
    start = ENVELOPE - INLINE
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return packed[start : start + count].copy().view(dtype).reshape(shape)


def _as(x: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """`x` with the dtype that the caller gave; a new array only if half precision is rounded."""
    if dtype == np.bool_:
        return x.view(np.bool_)
    return x.astype(dtype, copy=False)
