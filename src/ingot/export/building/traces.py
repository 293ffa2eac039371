"""Traces as functions of arrays: the recorded primitives applied to the inputs of a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingot._native import array, constant, placeholder
from ingot.export.building.arrangement import ARRANGEMENT
from ingot.export.building.elementwise import ELEMENTWISE, Build
from ingot.export.building.matrices import MATRICES
from ingot.export.format import Constant, Primitive, Trace
from ingot.graph.shape import shape_text
from ingot.runtime.files.access import FileError

__all__ = ["BUILDERS", "applied", "check"]

BUILDERS: dict[str, Build] = {**ELEMENTWISE, **ARRANGEMENT, **MATRICES}

# What the functions of `ops` raise for arguments that contradict each other.
_CONTRADICTIONS = (ValueError, TypeError, IndexError, ArithmeticError, AttributeError)


def applied(trace: Trace, inputs: Sequence[array]) -> list[array]:
    """The outputs of a trace for inputs that match it."""
    values = dict(zip(trace.inputs, inputs, strict=True))
    for entry in trace.entries:
        if isinstance(entry, Constant):
            values[entry.identity] = constant(entry.value, entry.dtype)
        elif isinstance(entry, Primitive):
            sources = [values[identity] for identity in entry.inputs]
            for identity, made in zip(entry.outputs, _built(entry, sources), strict=True):
                values[identity] = made
    return [values[identity] for identity in trace.outputs]


def _built(entry: Primitive, sources: list[array]) -> Sequence[array]:
    found: Any = BUILDERS[entry.name](entry, *sources)
    return (found,) if isinstance(found, array) else found


def check(trace: Trace, name: str) -> None:
    """FileError unless a trace, applied to inputs of its own shapes, gives what it says."""
    values: dict[int, array] = {
        identity: placeholder(spec.shape, spec.dtype)
        for identity, spec in zip(trace.inputs, trace.specs, strict=True)
    }
    for number, entry in enumerate(trace.entries):
        if isinstance(entry, Constant):
            values[entry.identity] = constant(entry.value, entry.dtype)
        elif isinstance(entry, Primitive):
            where = f"[import_function] {name} is damaged: operation {number}, {entry.name},"
            missing = [identity for identity in entry.inputs if identity not in values]
            if missing:
                raise FileError(f"{where} reads array {missing[0]}, which nothing has made.")
            try:
                made = _built(entry, [values[identity] for identity in entry.inputs])
            except _CONTRADICTIONS as error:
                reason = str(error).rstrip(".")
                raise FileError(f"{where} contradicts itself: {reason}.") from error
            _check_results(where, entry, made)
            values.update(zip(entry.outputs, made, strict=True))
        elif entry.identity not in values:
            raise FileError(
                f"[import_function] {name} is damaged: entry {number} is an input that is not "
                "among the inputs."
            )
    if not all(identity in values for identity in trace.outputs):
        raise FileError(f"[import_function] {name} is damaged: nothing makes one of its outputs.")


def _check_results(where: str, entry: Primitive, made: Sequence[array]) -> None:
    if len(made) != len(entry.specs):
        raise FileError(f"{where} has {len(made)} results, not {len(entry.specs)}.")
    for result, spec in zip(made, entry.specs, strict=True):
        if result.shape != spec.shape or result.dtype is not spec.dtype:
            raise FileError(
                f"{where} gives {result.dtype.name} of shape {shape_text(result.shape)}, not "
                f"{spec.dtype.name} of shape {shape_text(spec.shape)}."
            )
