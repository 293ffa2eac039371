"""Routines: ops as sequences of native calls, which compiled programs run without Python.

An op's `routine` builds one for the shapes and dtypes of its inputs: calls of C functions, and of
LAPACK by address, on its inputs and results, constants, scratch memory that calls share, and
scratch memory of each thread. The table in `_native/routines/routine.c` lists the calls. A routine
may fail, for instance because a matrix is singular: then `evaluate` decides what happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ingot._native import NativeRoutine
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.shape import size_of

__all__ = ["NO_OPERAND", "Operand", "Routine", "RoutineBuilder", "Spec", "computed", "routine_of"]

Spec = tuple[tuple[int, ...], np.dtype[Any]]  # the shape and the dtype of an array
MAX_ROUTINES = 128  # that are kept, with their tables and constants
_ALIGNMENT = 64


class Operand(NamedTuple):
    """An operand of a call: an offset in the memory of a slot, and the stride from matrix to matrix
    of a stack, in bytes.
    """

    slot: int
    offset: int = 0
    stride: int = 0


NO_OPERAND = Operand(-1)


@dataclass(frozen=True)
class Routine:
    """A routine, and the shapes and dtypes of its results."""

    native: NativeRoutine
    results: tuple[Spec, ...]

    def run(self, *inputs: np.ndarray) -> list[np.ndarray] | None:
        """The results for arrays; None if it failed."""
        results = [np.empty(shape, dtype) for shape, dtype in self.results]
        contiguous = [np.asarray(x, order="C") for x in inputs]
        return results if self.native.run((*contiguous, *results)) else None


class RoutineBuilder:
    """Collects the calls of a routine and lays out its memory."""

    def __init__(self, inputs: Sequence[Spec], results: Sequence[Spec]) -> None:
        self._specs = tuple(results)
        self._bytes = tuple(
            [size_of(shape) * dtype.itemsize for shape, dtype in (*inputs, *results)]
        )
        self.inputs = [Operand(number) for number in range(len(inputs))]
        self.results = [Operand(len(inputs) + number) for number in range(len(results))]
        self._constants = bytearray()
        self._known: dict[bytes, Operand] = {}
        self._shared = self._own = 0
        self._calls: list[tuple[Any, ...]] = []
        self.can_fail = False

    def constant(self, value: int | str | np.ndarray) -> Operand:
        """A C int, a letter, or the elements of an array."""
        if isinstance(value, int):
            value = np.array(value, np.intc)
        found = value.encode() if isinstance(value, str) else value.tobytes()
        if found not in self._known:
            self._constants.extend(bytes(-len(self._constants) % _ALIGNMENT))
            self._known[found] = Operand(len(self._bytes), len(self._constants))
            self._constants += found
        return self._known[found]

    def shared(self, nbytes: int, stride: int = 0) -> Operand:
        """Scratch memory that all calls and threads share."""
        operand = Operand(len(self._bytes) + 1, self._shared, stride)
        self._shared += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        return operand

    def of_thread(self, nbytes: int) -> Operand:
        """Scratch memory of each thread."""
        operand = Operand(len(self._bytes) + 2, self._own)
        self._own += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        return operand

    def call(
        self, name: str, operands: Sequence[Operand], numbers: Sequence[int], target: Any = None
    ) -> None:
        """Adds a call; `target` is the address of a function, or the plan of a transform."""
        self._calls.append((name, tuple(map(tuple, operands)), tuple(numbers), target))

    def done(self) -> Routine:
        """The routine."""
        native = NativeRoutine(
            self._bytes,
            bytes(self._constants),
            self._shared,
            self._own,
            self.can_fail,
            tuple(self._calls),
        )
        return Routine(native, self._specs)


@lru_cache(maxsize=MAX_ROUTINES)
def _known(op: Any, inputs: tuple[Spec, ...]) -> Routine | None:
    found: Routine | None = op.routine(*inputs)
    return found


def routine_of(op: Any, *inputs: Spec) -> Routine | None:
    """The routine of an op for inputs of these shapes and dtypes; None if it has none."""
    return _known(op, inputs)


def computed(op: Any, *inputs: np.ndarray) -> list[np.ndarray] | None:
    """The results of an op by its routine; None if it has none, or if that failed."""
    routine = routine_of(op, *[(x.shape, x.dtype) for x in inputs])
    return None if routine is None else routine.run(*inputs)
