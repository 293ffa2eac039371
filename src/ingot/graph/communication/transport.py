"""Collectives and messages on NumPy arrays: MPI reads the arguments and writes the results in
place.

Sums of half-precision numbers are accumulated in float32 and rounded once. Everything that only
moves data is moved as bytes, so that dtypes that MPI does not know need no conversion. Unless
INGOT_CHECK_COLLECTIVES=off, each call first exchanges headers (`headers.py`).
"""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar, cast

import numpy as np

from ingot._native import Mailbox, SmallReduction, begin_progress, end_progress
from ingot.graph.communication.addresses import address_of, handle_bytes
from ingot.graph.communication.headers import (
    ENVELOPE,
    HEADER,
    INLINE,
    OVERLAPPED,
    Header,
    envelope,
    opened,
)
from ingot.graph.communication.order import restart
from ingot.graph.communication.watch import Waiting, Watch
from ingot.graph.dtype import bfloat16, bool_, complex64, float16, from_numpy

__all__ = ["Transport"]

_OFF = ("0", "off", "false", "no")

# Ranks up to which everybody gets the headers, with small data, of all; in larger groups their
# hashes are compared, whose size does not grow with the group.
MAX_LISTED = 16

MAX_ENVELOPE_LAYOUTS = 1024  # of envelopes that are kept

_HALVES = (np.dtype(np.float16), bfloat16.numpy)
_REDUCTIONS = ("all_sum", "all_max", "all_min")  # numbered as in the extension
_NOT_NATIVE = (bool_, float16, bfloat16, complex64)  # reduced by NumPy where they are small
_REDUCE: dict[str, Callable[..., np.ndarray]] = {
    "all_sum": np.add.reduce,
    "sum_scatter": np.add.reduce,
    "all_max": np.maximum.reduce,
    "all_min": np.minimum.reduce,
}


_Method = TypeVar("_Method", bound=Callable[..., Any])

# What users call the methods of a transport; `reduce` is given the name.
_NAMES = {
    "gather": "all_gather",
    "scatter_sum": "sum_scatter",
    "exchange_blocks": "all_to_all",
    "receive": "recv",
    "begin": OVERLAPPED,
    "complete": OVERLAPPED,
}


def _watched(method: _Method) -> _Method:
    """A method during which others may be waited for."""
    name = _NAMES.get(method.__name__, method.__name__)

    @wraps(method)
    def call(self: Transport, *arguments: Any) -> Any:
        what = arguments[0] if name == "reduce" else name
        members = (self.members[arguments[2]],) if name == "recv" else self.members
        self.watch.waiting = Waiting(time.monotonic(), what, members)
        try:
            return method(self, *arguments)
        finally:
            self.watch.waiting = None

    return cast(_Method, call)


def _numbers_in_world(mpi: Any, communicator: Any) -> tuple[int, ...]:
    """The ranks of a communicator as the world numbers them."""
    group, world = communicator.Get_group(), mpi.COMM_WORLD.Get_group()
    return tuple(mpi.Group.Translate_ranks(group, list(range(group.Get_size())), world))


@cache
def _extremes(mpi: Any) -> dict[tuple[str, np.dtype[Any]], Any]:
    """MPI's own maximum may lose a NaN, and it has none of complex numbers. For all groups, because
    mpi4py has room for a dozen such operations.
    """
    return {
        (name, kind): mpi.Op.Create(_by_numpy(function, kind), commute=True)
        for name, function in (("all_max", np.maximum), ("all_min", np.minimum))
        for kind in (np.dtype(np.float32), np.dtype(np.float64), complex64.numpy)
    }


class _Layout:
    """The layout of the envelopes of one kind of call."""

    def __init__(self, transport: Transport, kind: str, root: int, x: np.ndarray) -> None:
        empty = np.broadcast_to(np.zeros((), x.dtype), x.shape)
        self.header = envelope(0, kind, root, empty)[:HEADER].tobytes()
        self.is_small = x.nbytes <= INLINE and transport.mailbox is not None
        self.shape, self.dtype = (transport.size, *x.shape), x.dtype
        inner = np.empty(x.shape, x.dtype).strides if self.is_small else ()
        self.strides = (ENVELOPE, *inner)
        self.reduction: SmallReduction | None = None
        dtype = from_numpy(x.dtype)
        if self.is_small and x.size and kind in _REDUCTIONS and dtype not in _NOT_NATIVE:
            assert transport.mailbox is not None
            assert dtype is not None
            about = (kind, transport.members)
            self.reduction = SmallReduction(
                transport.mailbox, self.header, about, _REDUCTIONS.index(kind), dtype, x.size
            )

    def rows(self, packed: bytes) -> np.ndarray | None:
        """The data of all ranks in their envelopes, if they are small."""
        if not self.is_small:
            return None
        return np.ndarray(self.shape, self.dtype, packed, HEADER, self.strides)


class Transport:
    """The communicator of one group of processes."""

    def __init__(self, mpi: Any, communicator: Any, watch: Watch) -> None:
        self.mpi = mpi
        self.communicator = communicator
        self.watch = watch
        self.members = _numbers_in_world(mpi, communicator)
        self.rank: int = communicator.Get_rank()
        self.size: int = communicator.Get_size()
        self.checks = os.environ.get("INGOT_CHECK_COLLECTIVES", "on").lower() not in _OFF
        self.calls = 0
        # Of headers that all ranks get; larger groups compare hashes of theirs.
        self.mailbox = self.new_mailbox() if self.checks and self.size <= MAX_LISTED else None
        self.layouts: dict[Any, _Layout] = {}  # by what is called with which shape and dtype
        # Sums that have begun, by ticket: request, operand, dtype and memory of the result.
        self.in_flight: dict[int, tuple[Any, np.ndarray, np.dtype[Any], np.ndarray]] = {}
        self.tickets = 0
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
        self.extremes = _extremes(mpi)

    # Collectives

    @_watched
    def reduce(self, kind: str, x: np.ndarray) -> np.ndarray:
        """The sum, maximum or minimum over all ranks; `kind` is the name of the function."""
        reduction = self.small_reduction(kind, x)
        if reduction is not None:
            return reduction.run(x)
        x = np.asarray(x, order="C")
        small = self.exchange(kind, x)
        if small is not None:
            return _reduced(kind, small)
        sent, mpi_type, op = self.operands(kind, x)
        result = np.empty(sent.shape, sent.dtype)
        self.communicator.Allreduce([sent, mpi_type], [result, mpi_type], op)
        return _as(result, x.dtype)

    @_watched
    def begin(self, x: np.ndarray) -> np.ndarray:
        """Begins a sum over all ranks, whose operand must stay as it is; its ticket."""
        x = np.asarray(x, order="C")
        self.exchange(OVERLAPPED, x)
        sent, mpi_type, op = self.operands("all_sum", x)
        result = np.empty(sent.shape, sent.dtype)
        request = self.communicator.Iallreduce([sent, mpi_type], [result, mpi_type], op)
        self.tickets += 1
        self.in_flight[self.tickets] = (request, sent, x.dtype, result)
        begin_progress(address_of(self.mpi, "MPI_Test"), self.mpi._addressof(request))
        return np.array(self.tickets, np.int32)

    @_watched
    def complete(self, ticket: int) -> np.ndarray:
        """The sum with that ticket, when it is there."""
        request, _, dtype, result = self.in_flight.pop(ticket)
        end_progress(self.mpi._addressof(request))
        request.Wait()
        return _as(result, dtype)

    @_watched
    def gather(self, x: np.ndarray) -> np.ndarray:
        """The arrays of all ranks, stacked along a new first axis."""
        x = np.asarray(x, order="C")
        small = self.exchange("all_gather", x)
        if small is not None:
            return np.array(small, order="C")
        result = np.empty((self.size, *x.shape), x.dtype)
        self.communicator.Allgather(self.bytes_of(x), self.bytes_of(result))
        return result

    @_watched
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

    @_watched
    def exchange_blocks(self, x: np.ndarray) -> np.ndarray:
        """`x[r]` goes to rank r; the result has a block of each rank."""
        x = np.asarray(x, order="C")
        small = self.exchange("all_to_all", x)
        if small is not None:
            return small[:, self.rank].copy()
        result = np.empty(x.shape, x.dtype)
        self.communicator.Alltoall(self.bytes_of(x), self.bytes_of(result))
        return result

    @_watched
    def broadcast(self, x: np.ndarray, root: int) -> np.ndarray:
        """The array of rank `root`."""
        x = np.asarray(x, order="C")
        small = self.exchange("broadcast", x, root)
        if small is not None:
            return np.array(small[root])
        result = x.copy() if self.rank == root else np.empty(x.shape, x.dtype)
        self.communicator.Bcast(self.bytes_of(result), root)
        return result

    @_watched
    def split(self, color: int, key: int) -> Transport:
        """The communicator of the ranks that give the same color."""
        self.exchange("split", np.empty(0, np.uint8))
        return Transport(self.mpi, self.communicator.Split(color, key), self.watch)

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

    @_watched
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
        layout = self.layout(kind, root, x)
        if self.mailbox is None:
            self.compare_hashes(layout.header)
            return None
        return layout.rows(self.mailbox.exchange(layout.header, x if layout.is_small else None))

    def layout(self, kind: str, root: int, x: np.ndarray) -> _Layout:
        """The envelopes of a call, made once for each kind."""
        key = (kind, root, x.dtype, x.shape)
        found = self.layouts.get(key)
        if found is None:
            found = self.layouts[key] = _Layout(self, kind, root, x)
            if len(self.layouts) > MAX_ENVELOPE_LAYOUTS:
                self.layouts = {key: found}
        return found

    def small_reduction(self, kind: str, x: np.ndarray) -> SmallReduction | None:
        """The native reduction of arrays like `x`, if they are small."""
        if self.mailbox is None or not 0 < x.nbytes <= INLINE:
            return None
        return self.layout(kind, 0, x).reduction

    def new_mailbox(self) -> Mailbox:
        """The buffers and the native calls behind `exchange`."""
        mpi = self.mpi
        handles = (mpi._handleof(self.communicator), mpi._handleof(mpi.BYTE))
        function = address_of(mpi, "MPI_Allgather")
        lengths = (self.rank, self.size, HEADER, INLINE)
        mailbox = Mailbox(function, handle_bytes(mpi), *handles, *lengths, self.refuse, self.fail)
        if self.size > 1 and self.is_on_one_machine():
            self.share_memory(mailbox)
        return mailbox

    def is_on_one_machine(self) -> bool:
        """Whether all ranks can share memory; they find the same."""
        machine = self.communicator.Split_type(self.mpi.COMM_TYPE_SHARED)
        size = machine.Get_size()
        machine.Free()
        return bool(size == self.size)

    def share_memory(self, mailbox: Mailbox) -> None:
        """Lets a mailbox exchange in memory that MPI allocates for all ranks."""
        mpi, size = self.mpi, mailbox.segment_bytes
        window = mpi.Win.Allocate_shared(size, 1, comm=self.communicator)
        segments = [window.Shared_query(rank)[0] for rank in range(self.size)]
        np.frombuffer(segments[self.rank], np.uint8)[:] = 0
        self.communicator.Barrier()
        addresses = tuple(segment.address for segment in segments)
        iprobe = address_of(mpi, "MPI_Iprobe")
        mailbox.share(addresses, window, iprobe, mpi.ANY_SOURCE, mpi.ANY_TAG)

    def compare_hashes(self, header: bytes) -> None:
        """The check of large groups: the smallest and the largest hash must be equal."""
        header = self.calls.to_bytes(8, sys.byteorder) + header[8:]
        self.calls += 1
        key = zlib.crc32(header)
        both = np.array([key, -key], np.int64)
        largest = np.empty(2, np.int64)
        self.communicator.Allreduce(both, largest, self.mpi.MAX)
        if largest[0] == -largest[1]:
            return
        mine = np.frombuffer(header + bytes(INLINE), np.uint8)
        packed = np.empty((self.size, ENVELOPE), np.uint8)
        self.communicator.Allgather(self.bytes_of(mine), self.bytes_of(packed))
        self.refuse(packed.tobytes())

    def refuse(self, packed: bytes) -> None:
        """Raises, on all ranks, the error of headers that differ."""
        restart()
        headers = [opened(row) for row in np.frombuffer(packed, np.uint8).reshape(-1, ENVELOPE)]
        raise ValueError(mismatch(headers, self.rank))

    def fail(self, code: int) -> None:
        """Raises the error behind a code of MPI."""
        raise RuntimeError(f"[distributed] MPI failed: {self.mpi.Get_error_string(code)}.")


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
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return packed[HEADER : HEADER + count].copy().view(dtype).reshape(shape)


def _as(x: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """`x` with the dtype that the caller gave; a new array only if half precision is rounded."""
    if dtype == np.bool_:
        return x.view(np.bool_)
    return x.astype(dtype, copy=False)
