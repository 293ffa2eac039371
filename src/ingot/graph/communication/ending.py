"""The end of a program of several processes: together, or because one of them failed.

A rank that raises would leave the others waiting for it, so its exception is printed with its rank
and host and MPI ends all processes. At the end of a program, communication that was called but not
evaluated is performed, because other ranks may be waiting for it. The ranks then announce
that they have ended, so that a rank that still calls a collective learns that no answer will come.
"""

from __future__ import annotations

import atexit
import platform
import sys
import time
import traceback
from types import TracebackType
from typing import Any, TextIO

import numpy as np

from ingot.graph.communication.order import finish
from ingot.graph.communication.transport import Transport

__all__ = ["end_together"]

# Seconds in which ranks that found out that this one has ended may say so.
GRACE = 2.0
FORWARDING = 0.1  # seconds for the launcher to pass on what was printed before it ends all


def end_together(world: Transport, starts_mpi: bool) -> None:
    """Arranges for this process to end together with all others.

    Args:
        world: The group of all processes.
        starts_mpi: Whether MPI was started by ingot, which then ends it.
    """
    failed: list[BaseException] = []
    print_before = sys.excepthook

    def report(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        failed.append(error)
        print_before(kind, error, trace)
        tell(world, error)
        time.sleep(FORWARDING)
        abort(world, 130 if issubclass(kind, KeyboardInterrupt) else 1)

    def end() -> None:
        if failed or world.mpi.Is_finalized():
            return
        try:
            finish()
            world.finish_sends()
            world.exchange("end", np.empty(0, np.uint8))
        except BaseException as error:
            if not isinstance(error, ValueError):
                traceback.print_exc()
            tell(world, error)
            time.sleep(GRACE)
            abort(world, 1)
        world.watch.stop()
        if starts_mpi:
            world.mpi.Finalize()

    sys.excepthook = report
    atexit.register(end)


def tell(world: Transport, error: BaseException, stream: TextIO | None = None) -> None:
    """Prints which rank failed where, and of what."""
    first = str(error).split("\n")[0]
    kind = type(error).__name__
    print(
        f"ingot: rank {world.rank} of {world.size} on {platform.node()} failed, which ends "
        f"all ranks: {kind}{': ' if first else ''}{first}",
        file=stream or sys.stderr,
        flush=True,
    )


def abort(world: Any, status: int) -> None:
    """Ends the processes of all ranks at once."""
    sys.stdout.flush()
    sys.stderr.flush()
    world.mpi.COMM_WORLD.Abort(status)
