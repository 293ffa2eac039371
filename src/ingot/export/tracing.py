"""The trace of a function that is exported: run on placeholders, emitted as primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingot import _native
from ingot._native import array, placeholder, wrap
from ingot.export.emitting.arrangement import ARRANGEMENT
from ingot.export.emitting.convolutions import CONVOLUTIONS
from ingot.export.emitting.elementwise import ELEMENTWISE
from ingot.export.emitting.emitter import Emitter
from ingot.export.emitting.matrices import MATRICES
from ingot.export.emitting.shapeless import ShapelessEmitter
from ingot.export.emitting.symbols import Symbols
from ingot.export.format import Input, Spec, Trace
from ingot.graph.dimension import Guards, symbolic_shape

__all__ = ["new_emitter", "traced"]


def new_emitter(shapeless: bool) -> Emitter:
    """An emitter for the traces of one file."""
    kind = ShapelessEmitter if shapeless else Emitter
    return kind({**ELEMENTWISE, **ARRANGEMENT, **CONVOLUTIONS, **MATRICES})


def traced(
    emitter: Emitter,
    function: Callable[..., Any],
    args: Sequence[array],
    kwargs: dict[str, array],
) -> Trace:
    """The trace of a function for arguments of their shapes and dtypes; keywords are sorted."""
    keywords = sorted(kwargs)
    inputs = [*args, *(kwargs[name] for name in keywords)]
    guards = Guards([f"input {number}" for number in range(len(inputs))])
    shapes = [
        symbolic_shape(number, x.shape, guards)
        if isinstance(emitter, ShapelessEmitter)
        else x.shape
        for number, x in enumerate(inputs)
    ]
    leaves = [placeholder(shape, x.dtype) for shape, x in zip(shapes, inputs, strict=True)]
    nodes = [leaf._node for leaf in leaves]  # the function may make the arrays refer to others
    with _native.tracing:
        named = dict(zip(keywords, leaves[len(args) :], strict=True))
        outputs = _outputs(function(*leaves[: len(args)], **named))
    guards.close()
    if isinstance(emitter, ShapelessEmitter):
        emitter.begin_with(Symbols(guards))
    else:
        emitter.begin()
    values = [emitter.new(node.shape, node.dtype) for node in nodes]
    emitter.entries.extend(Input(value.identity) for value in values)
    found = emitter.graph(outputs, dict(zip(nodes, values, strict=True)))
    return Trace(
        tuple(keywords),
        tuple(value.identity for value in values),
        tuple(Spec(x.shape, x.dtype) for x in inputs),
        tuple(value.identity for value in found),
        emitter.entries,
    )


def _outputs(result: Any) -> list[array]:
    outputs = [result] if isinstance(result, array) else result
    if not isinstance(outputs, (list, tuple)) or not all(isinstance(x, array) for x in outputs):
        raise ValueError(
            "[export_function] Outputs can be either a single array, a tuple, or a list of arrays, "
            f"got {type(result).__name__}."
        )
    return [wrap(x) for x in outputs]
