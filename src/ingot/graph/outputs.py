"""Ops with several outputs: one node computes all of them, and one `Output` node extracts each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ingot import _native
from ingot._native import Dtype, array, make
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import Op, no_rule
from ingot.graph.roles.host import Host

if TYPE_CHECKING:
    from ingot.graph.device import StreamLike
    from ingot.graph.shape import Shape

__all__ = ["Output", "apply_multiple", "output_ops", "outputs_of"]


@dataclass(frozen=True)
class Output(Host):
    """One of the outputs of an op; transforms look through it to that op."""

    only_calls = True

    index: int

    def infer(self, whole: array) -> tuple[Shape, Dtype]:
        shapes: Any = whole.shape
        dtypes: Any = whole.dtype
        return shapes[self.index], dtypes[self.index]

    def evaluate(self, outputs: Any) -> Any:
        return outputs[self.index]

    vjp = no_rule("transforms collect the cotangents of all outputs for the op behind it")
    jvp = no_rule("transforms take the tangents of all outputs from the op behind it")
    vmap = no_rule("transforms take all outputs from the op behind it")


@lru_cache(256)
def output_ops(count: int) -> tuple[Output, ...]:
    """The ops that extract each of several outputs."""
    return tuple(map(Output, range(count)))


def apply_multiple(op: Op, *inputs: array, stream: StreamLike = None) -> tuple[array, ...]:
    """The lazy results of an op with several outputs."""
    outputs: Sequence[tuple[Shape, Dtype]] = op.infer(*inputs)
    shapes = tuple(shape for shape, _ in outputs)
    dtypes = tuple(dtype for _, dtype in outputs)
    return outputs_of(make(op, inputs, shapes, dtypes, stream))


def outputs_of(whole: Any) -> tuple[array, ...]:
    """The outputs of a node with several, as arrays."""
    ops = output_ops(len(whole.shape))
    return tuple(
        make(op, (whole,), shape, dtype)
        for op, shape, dtype in zip(ops, whole.shape, whole.dtype, strict=True)
    )


_native.set_callbacks(output_type=Output, outputs_of=outputs_of)
