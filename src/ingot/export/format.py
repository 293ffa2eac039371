"""The layout of a `.mlxfn` file: traces of a function, lists of constants and primitives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ingot import MLX_VERSION
from ingot._native import Dtype
from ingot.export.states import STATES
from ingot.export.values import Reader, Writer
from ingot.graph.shape import Shape

__all__ = ["Constant", "Entry", "File", "Input", "Primitive", "Spec", "Trace", "read", "written"]

# Versions of MLX whose files are read. Others may store other values for the same primitives.
_VERSIONS = ("0.32.",)
_MIN_TRACE = 40  # bytes: five counts


@dataclass(frozen=True)
class Spec:
    """The shape and dtype of an array."""

    shape: Shape
    dtype: Dtype


@dataclass(frozen=True)
class Input:
    """An argument of the function."""

    identity: int


@dataclass(frozen=True)
class Constant:
    """An array that the function captured."""

    identity: int
    value: np.ndarray
    dtype: Dtype


@dataclass(frozen=True)
class Primitive:
    """An operation of MLX: its name, what it stores, and the arrays it reads and makes."""

    name: str
    inputs: tuple[int, ...]
    state: tuple[Any, ...]
    outputs: tuple[int, ...]
    specs: tuple[Spec, ...]  # of the outputs


Entry = Input | Constant | Primitive


@dataclass(frozen=True)
class Trace:
    """A function for inputs of some shapes and dtypes. The last inputs have the keywords."""

    keywords: tuple[str, ...]
    inputs: tuple[int, ...]
    specs: tuple[Spec, ...]  # of the inputs
    outputs: tuple[int, ...]
    entries: Sequence[Entry]


@dataclass
class File:
    """A function: its traces, and whether they hold for all shapes of as many axes."""

    shapeless: bool
    metadata: str = ""
    traces: list[Trace] = field(default_factory=list)


def read(data: bytes, name: str) -> File:
    """The function in the bytes of a file of that name."""
    reader = Reader(data, name)
    version = reader.text()
    if not version.startswith(_VERSIONS):
        raise reader.error(
            f"it was written by MLX {version[:20]!r}, and files of {_VERSIONS[0]}x are known"
        )
    count = reader.int32()
    if not 0 <= count * _MIN_TRACE <= len(data):
        raise reader.error(f"there are said to be {count} traces in {len(data)} bytes")
    file = File(reader.boolean(), reader.text())
    constants: dict[int, Constant] = {}
    file.traces = [_read_trace(reader, constants) for _ in range(count)]
    if reader.rest:
        raise reader.error(f"{reader.rest} bytes follow the last trace")
    return file


def _read_trace(reader: Reader, constants: dict[int, Constant]) -> Trace:
    keywords = reader.many(reader.text, "keywords", 8)
    inputs = reader.many(reader.identity, "inputs", 8)
    specs = reader.many(lambda: _read_spec(reader), "shapes of inputs", 13)
    outputs = reader.many(reader.identity, "outputs", 8)
    count = reader.length("operations", 10)
    entries = [_read_entry(reader, constants) for _ in range(count)]
    if len(specs) != len(inputs) or len(keywords) > len(inputs):
        raise reader.error(
            f"{len(inputs)} inputs have {len(specs)} shapes and {len(keywords)} keywords"
        )
    return Trace(tuple(keywords), tuple(inputs), tuple(specs), tuple(outputs), entries)


def _read_spec(reader: Reader) -> Spec:
    return Spec(reader.shape(), reader.dtype())


def _read_entry(reader: Reader, constants: dict[int, Constant]) -> Entry:
    """An entry; a constant that an earlier trace has as well comes without its elements."""
    identity = reader.identity()
    if reader.boolean():
        return _read_primitive(reader, identity)
    if not reader.boolean():
        return Input(identity)
    if identity not in constants:
        spec = _read_spec(reader)
        value = reader.elements(spec.shape, spec.dtype)
        constants[identity] = Constant(identity, value, spec.dtype)
    return constants[identity]


def _read_primitive(reader: Reader, identity: int) -> Primitive:
    inputs = tuple(reader.many(reader.identity, "inputs of an operation", 8))
    _, device, _ = reader.int32(), reader.int32(), reader.int32()  # stream, device and its number
    if device not in (0, 1):
        raise reader.error(f"there is no kind of device number {device}")
    name = reader.text()
    kinds = STATES.get(name)
    if kinds is None:
        raise reader.error(f"it has the operation {name[:40]!r}, which ingot cannot read")
    state = tuple(getattr(reader, kind)() for kind in kinds)
    siblings = reader.size()
    if siblings == 0:
        return Primitive(name, inputs, state, (identity,), (_read_spec(reader),))
    outputs = tuple(reader.many(reader.identity, "outputs of an operation", 8))
    shapes = reader.many(reader.shape, "shapes of outputs", 8)
    dtypes = reader.many(reader.dtype, "dtypes of outputs", 5)
    if not len(outputs) == len(shapes) == len(dtypes) == siblings + 1:
        raise reader.error(f"the outputs of {name} contradict each other")
    return Primitive(name, inputs, state, outputs, tuple(map(Spec, shapes, dtypes)))


def written(file: File) -> bytes:
    """The bytes of a file."""
    writer = Writer()
    writer.text(MLX_VERSION)
    writer.int32(len(file.traces))
    writer.boolean(file.shapeless)
    writer.text(file.metadata)
    known: set[int] = set()
    for trace in file.traces:
        _write_trace(writer, trace, known)
    return writer.bytes()


def _write_trace(writer: Writer, trace: Trace, known: set[int]) -> None:
    writer.many(writer.text, trace.keywords)
    writer.many(writer.identity, trace.inputs)
    writer.many(lambda spec: _write_spec(writer, spec), trace.specs)
    writer.many(writer.identity, trace.outputs)
    writer.many(lambda entry: _write_entry(writer, entry, known), trace.entries)


def _write_spec(writer: Writer, spec: Spec) -> None:
    writer.shape(spec.shape)
    writer.dtype(spec.dtype)


def _write_entry(writer: Writer, entry: Entry, known: set[int]) -> None:
    if isinstance(entry, Primitive):
        _write_primitive(writer, entry)
        return
    writer.identity(entry.identity)
    writer.boolean(False)
    writer.boolean(isinstance(entry, Constant))
    if isinstance(entry, Constant) and entry.identity not in known:
        known.add(entry.identity)
        _write_spec(writer, Spec(entry.value.shape, entry.dtype))
        writer.elements(entry.value)


def _write_primitive(writer: Writer, entry: Primitive) -> None:
    writer.identity(entry.outputs[0])
    writer.boolean(True)
    writer.many(writer.identity, entry.inputs)
    for _ in ("stream", "device", "number of the device"):
        writer.int32(0)
    writer.text(entry.name)
    for kind, value in zip(STATES[entry.name], entry.state, strict=True):
        getattr(writer, kind)(value)
    writer.size(len(entry.outputs) - 1)
    if len(entry.outputs) == 1:
        _write_spec(writer, entry.specs[0])
        return
    writer.many(writer.identity, entry.outputs)
    writer.many(writer.shape, [spec.shape for spec in entry.specs])
    writer.many(writer.dtype, [spec.dtype for spec in entry.specs])
