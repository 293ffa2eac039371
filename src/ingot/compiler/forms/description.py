"""Descriptions of tapes: bytes that are equal, also in other processes, if the tapes compile to the
same program. The names of inputs and the user's lines are left out: no instruction depends on them.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from ingot._native import Dtype
from ingot.compiler.forms.tape import LengthStep, Step, Tape
from ingot.graph.op import parameters

__all__ = ["DESCRIBED_PACKAGES", "MAX_CONSTANT_BYTES", "description"]

MAX_CONSTANT_BYTES = 1 << 16  # constants are part of what they are compiled to, and of its key
_VERSION = 2  # of marshal: the last one in which equal objects give equal bytes
_PLAIN = frozenset((int, float, bool, str, bytes, complex, type(None)))
# of ingot: those whose ops are described, and whatever else a program depends on
DESCRIBED_PACKAGES = ("compiler", "graph", "ops", "runtime", "search", "transforms")
_PREFIXES = tuple(f"ingot.{name}." for name in DESCRIBED_PACKAGES)


class _UndescribedError(Exception):
    """A tape contains something that is known in this process only."""


def description(tape: Tape) -> bytes | None:
    """The description of a tape; None if it has none: ops hold functions or other objects, or the
    constants are large.
    """
    numbers = tape.numbers()
    try:
        steps = list(_steps(tape, numbers))
    except _UndescribedError:
        return None
    inputs, outputs = ([numbers[step] for step in steps] for steps in (tape.inputs, tape.outputs))
    return marshal.dumps((inputs, outputs, steps), _VERSION)


def _steps(tape: Tape, numbers: dict[Step, int]) -> Iterator[tuple[Any, ...]]:
    streams: dict[Any, int] = {}
    nbytes = 0
    for step in tape.steps:
        kind: Any = None
        if step.value is not None:
            nbytes += step.value.nbytes
            if nbytes > MAX_CONSTANT_BYTES:
                raise _UndescribedError
            kind = _described(step.value)
        elif step.op is not None:
            kind = _object(step.op)
        elif type(step) is LengthStep:
            raise _UndescribedError
        yield (
            kind,
            tuple([numbers[source] for source in step.inputs]),
            step.shape,
            _described(step.dtype),
            streams.setdefault(step.stream, len(streams)),
        )


def _described(value: Any) -> Any:
    """A value in terms of those that marshal knows."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple:
        return tuple([each if type(each) in _PLAIN else _described(each) for each in value])
    if kind is Dtype:
        return ("dtype", value.name)
    if kind is np.ndarray and value.dtype.hasobject is False:
        return ("array", str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, tuple) and _is_known(kind):  # with names
        return (kind.__module__, kind.__qualname__, _described(tuple(value)))
    if hasattr(kind, "__dataclass_fields__"):
        return _object(value)
    raise _UndescribedError


def _object(value: Any) -> tuple[Any, ...]:
    """An op, or a dataclass that it holds. Attributes that are neither fields nor computed from
    them may mean anything.
    """
    kind = type(value)
    fields = parameters(value)
    others = vars(value).keys() - fields.keys()
    if not _is_known(kind) or not all(_is_computed(kind, name) for name in others):
        raise _UndescribedError
    described = [each if type(each) in _PLAIN else _described(each) for each in fields.values()]
    return (kind.__module__, kind.__qualname__, *described)


def _is_known(kind: type) -> bool:
    """Whether a class is ingot's: users' classes may change without notice."""
    return kind.__module__.startswith(_PREFIXES)


def _is_computed(kind: type, name: str) -> bool:
    return isinstance(getattr(kind, name, None), cached_property)
