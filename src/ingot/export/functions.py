"""Functions in files: exporters, which write traces, and functions that files hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import count, product
from string import ascii_uppercase
from typing import Any

import numpy as np

from ingot._native import array, constant
from ingot.export.building.traces import applied, check
from ingot.export.format import Constant, File, Primitive, Spec, Trace, read, written
from ingot.export.tracing import new_emitter, traced
from ingot.graph.shape import shape_text
from ingot.runtime.files.access import kind_of, write_file

__all__ = ["Exporter", "ImportedFunction", "arguments", "imported", "report"]

Arguments = tuple[list[array], dict[str, array]]


def arguments(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Arguments:
    """The arrays among the arguments of a call: positional and by keyword.

    They are given as such, or as a sequence and a dict.
    """
    positional, named = list(args), dict(kwargs)
    if not kwargs and 1 <= len(args) <= 2 and not all(isinstance(x, array) for x in args):
        positional, named = [], {}
        *before, last = args
        if isinstance(last, dict):
            named = dict(last)
        else:
            before = list(args)
        if len(before) == 1 and isinstance(before[0], (list, tuple)):
            positional = list(before[0])
        elif before:
            positional = before
    arrays = [*positional, *named.values()]
    if not all(isinstance(x, array) for x in arrays) or not all(isinstance(k, str) for k in named):
        wrong = next((x for x in arrays if not isinstance(x, array)), named)
        raise ValueError(
            f"[{name}] Inputs can either be a variable number of positional and keyword arrays or "
            f"a single tuple and/or dictionary of arrays, got {type(wrong).__name__}."
        )
    return positional, named


class Exporter:
    """Writes the traces of a function to a file, which is complete after each."""

    def __init__(
        self, path: str, function: Callable[..., Any], shapeless: bool, metadata: str
    ) -> None:
        self.path = path
        self.function = function
        self.file = File(shapeless, metadata)
        self.emitter = new_emitter(shapeless)
        self.closed = False
        self._write()

    def _write(self) -> None:
        data = written(self.file)
        suffix = os.path.splitext(self.path)[1]
        write_file("export_function", self.path, suffix, lambda stream: _put(stream, data))

    def trace(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Add the trace for these arguments."""
        if self.closed:
            raise RuntimeError(
                "[export_function] Attempting to write after exporting is closed: make a new "
                "exporter."
            )
        positional, named = arguments("export_function", args, kwargs)
        made = traced(self.emitter, self.function, positional, named)
        if any(_signature(made, self.file) == _signature(old, self.file) for old in self.traces):
            raise RuntimeError(
                "[export_function] Attempting to export a function twice with the same signature "
                "is not allowed."
            )
        self.file.traces.append(made)
        self._write()

    @property
    def traces(self) -> list[Trace]:
        """What is in the file."""
        return self.file.traces


def _put(stream: Any, data: bytes) -> None:
    stream.write(data)


def _signature(trace: Trace, file: File) -> tuple[Any, ...]:
    specs = [(spec.dtype, _kind(spec, file.shapeless)) for spec in trace.specs]
    return trace.keywords, tuple(specs)


def _kind(spec: Spec | array, shapeless: bool) -> Any:
    """What of a shape has to match: all of it, or the number of axes."""
    return len(spec.shape) if shapeless else spec.shape


class ImportedFunction:
    """The function in a file: it applies the trace that matches its arguments."""

    def __init__(self, file: File, name: str) -> None:
        self.file = file
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[array, ...]:
        positional, named = arguments("import_function::call", args, kwargs)
        keywords = tuple(sorted(named))
        inputs = [*positional, *(named[name] for name in keywords)]
        for trace in self.file.traces:
            if self._matches(trace, keywords, inputs):
                return tuple(applied(trace, inputs))
        raise ValueError(self._mismatch(positional, named))

    def _matches(self, trace: Trace, keywords: tuple[str, ...], inputs: list[array]) -> bool:
        if trace.keywords != keywords or len(trace.inputs) != len(inputs):
            return False
        shapeless = self.file.shapeless
        return all(
            x.dtype is spec.dtype and _kind(x, shapeless) == _kind(spec, shapeless)
            for x, spec in zip(inputs, trace.specs, strict=True)
        )

    def _mismatch(self, positional: list[array], named: dict[str, array]) -> str:
        lines = [
            "[import_function::call] No imported function found which matches the given positional "
            "and keyword arguments. Possible functions include:"
        ]
        for number, trace in enumerate(self.file.traces, 1):
            first = len(trace.specs) - len(trace.keywords)
            lines.append(
                f" {number}. Function with {first} positional inputs and {len(trace.keywords)} "
                "keyword inputs:"
            )
            lines += _listed(trace.specs[:first], trace.keywords, trace.specs[first:])
        keywords = tuple(named)
        lines += [
            "",
            f"Called with {len(positional)} positional inputs and {len(named)} keyword inputs:",
            *_listed(positional, keywords, [named[name] for name in keywords]),
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<function of {len(self.file.traces)} traces, imported from {self.__name__}>"


def _listed(specs: Sequence[Any], keywords: Sequence[str], named: Sequence[Any]) -> list[str]:
    names = [*map(str, range(1, len(specs) + 1)), *(f'"{keyword}"' for keyword in keywords)]
    return [
        f"   {name}: {shape_text(spec.shape)} {spec.dtype.name}"
        for name, spec in zip(names, [*specs, *named], strict=True)
    ]


def imported(path: str) -> ImportedFunction:
    """The function in a file, whose traces all hold together."""
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except OSError as error:
        raise kind_of(error)(
            f"[import_function] Failed to open {path}: {error.strerror}."
        ) from error
    file = read(data, path)
    for trace in file.traces:
        check(trace, path)
    return ImportedFunction(file, os.path.basename(path))


# Callbacks instead of files


def report(callback: Callable[[dict[str, Any]], Any], trace: Trace) -> None:
    """Call a callback with each part of a trace, as MLX does."""
    described = dict(zip(trace.inputs, trace.specs, strict=True))
    for entry in trace.entries:
        if isinstance(entry, Constant):
            described[entry.identity] = Spec(entry.value.shape, entry.dtype)
        elif isinstance(entry, Primitive):
            described.update(zip(entry.outputs, entry.specs, strict=True))
    first_named = dict.fromkeys([*trace.inputs, *trace.outputs, *described])
    names = dict(zip(first_named, _letters(), strict=False))

    def listed(identities: Sequence[int]) -> list[tuple[str, Any, Any]]:
        found = [(identity, described[identity]) for identity in identities]
        return [(names[identity], spec.shape, spec.dtype) for identity, spec in found]

    keywords = trace.inputs[len(trace.inputs) - len(trace.keywords) :]
    callback({"inputs": listed(trace.inputs), "type": "inputs"})
    named = [(key, names[identity]) for key, identity in zip(trace.keywords, keywords, strict=True)]
    callback({"keywords": named, "type": "keyword_inputs"})
    callback({"outputs": listed(trace.outputs), "type": "outputs"})
    constants = [
        (names[entry.identity], constant(np.array(entry.value), entry.dtype))
        for entry in trace.entries
        if isinstance(entry, Constant)
    ]
    callback({"constants": constants, "type": "constants"})
    for entry in trace.entries:
        if isinstance(entry, Primitive):
            callback(
                {
                    "arguments": list(entry.state),
                    "outputs": listed(entry.outputs),
                    "inputs": listed(entry.inputs),
                    "name": entry.name,
                    "type": "primitive",
                }
            )


def _letters() -> Iterator[str]:
    """A to Z, AA, AB and so on."""
    for length in count(1):
        for letters in product(ascii_uppercase, repeat=length):
            yield "".join(letters)
