"""Collectives: every process of a group calls them, with arrays of the same shape and dtype.

Derivatives follow MLX. What all processes hold alike after a sum, a gather or a broadcast goes into
the same loss on each of them, so a process is given the derivative by its own array: the cotangent
itself, or its slice of it. After `sum_scatter` and `all_to_all` each process holds something else,
and the cotangents travel back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

import numpy as np

from ingot._native import (
    Dtype,
    SmallReduction,
    array,
    in_transform,
    like_input,
    make,
    set_callbacks,
    wrap,
)
from ingot.graph.communication.groups import Group, connected, group_of, init
from ingot.graph.communication.order import (
    Begin,
    Communication,
    Finish,
    in_order,
    in_two_steps,
    order,
)
from ingot.graph.communication.transport import Transport
from ingot.graph.device import StreamLike
from ingot.graph.dimension import holds_dimensions
from ingot.graph.dtype import int32
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import no_rule
from ingot.graph.shape import Shape, shape_text
from ingot.ops.elementwise.casting import as_array
from ingot.ops.elementwise.comparison import equal, where
from ingot.ops.shape.creation import zeros_like
from ingot.ops.shape.movement import broadcast_to, moveaxis, reshape
from ingot.ops.shape.slicing import element
from ingot.tuning_distributed import MIN_OVERLAPPED_BYTES

__all__ = [
    "all_gather",
    "all_max",
    "all_min",
    "all_sum",
    "all_to_all",
    "broadcast",
    "overlapped_sum",
    "sum_scatter",
]


_NOBODY = group_of(None)
_WHOLE = "functions that are transformed use the collective as a whole"


def _transport(group: Group) -> Transport:
    found = group._transport
    assert found is not None  # groups of one process have no ops
    return found


@dataclass(frozen=True)
class Collective(Communication, abstract=True):
    """A collective of one array; the other input is the token of the communication before."""

    group: Group

    @property
    def transport(self) -> Transport:
        return _transport(self.group)

    def infer(self, x: array, token: array) -> tuple[Shape, Dtype]:
        return x.shape, x.dtype

    def jvp(self, tangents: tuple[array | None, ...], out: array, x: array, token: array) -> Any:
        return None if tangents[0] is None else collect(self, tangents[0])

    def vmap(self, size: int, batched: tuple[bool, ...], x: array, token: array) -> array:
        """All examples communicate at once; those that share `x` depend on them by the token."""
        if not batched[0]:
            found = self.after(token, x)
            return broadcast_to(found, (size, *found.shape))
        return self.of_batch(token, x)

    def of_batch(self, token: array, x: array) -> array:
        """The results for examples along the first axis."""
        return self.after(token, x)

    def after(self, token: array, x: array) -> array:
        """The lazy result after a given token, which `vmap` follows."""
        return make(self, (x, token), *self.infer(x, token))


class Reduction(Collective, abstract=True):
    """One number of each element over all processes."""

    name: ClassVar[str]  # of the public function

    def evaluate(self, x: np.ndarray, token: np.ndarray) -> np.ndarray:
        return self.transport.reduce(self.name, x)

    def host_function(self) -> Callable[..., list[np.ndarray]]:
        """Remembers what reduces arrays of a shape and dtype, as evaluation does."""
        small: dict[Any, SmallReduction] = {}

        def run(x: np.ndarray, token: np.ndarray) -> list[np.ndarray]:
            key = x.shape, x.dtype
            reduction = small.get(key)
            if reduction is None:
                reduction = self.small_reduction(x)
                if reduction is None:
                    return [self.evaluate(x, token)]
                small[key] = reduction
            return [reduction.run(x)]

        return run

    def small_reduction(self, x: np.ndarray) -> SmallReduction | None:
        """The native reduction of arrays like `x`, if they are small."""
        return self.transport.small_reduction(self.name, x)


set_callbacks(
    reduction_type=Reduction,
    small_reduction=lambda node, op, values: cast(Reduction, op).small_reduction(values[0]),
)


class AllSum(Reduction):
    """The sum over all processes."""

    name = "all_sum"

    def vjp(self, cotangent: array, out: array, x: array, token: array) -> tuple[Any, ...]:
        return cotangent, None


@dataclass(frozen=True)
class BeginSum(Begin):
    """Begins the sum of the second input over all processes."""

    group: Group

    def infer(self, token: array, x: array) -> tuple[Shape, Dtype]:
        return (), int32

    def evaluate(self, token: np.ndarray, x: np.ndarray) -> np.ndarray:
        return _transport(self.group).begin(x)

    vjp = no_rule(_WHOLE)
    jvp = no_rule(_WHOLE)
    vmap = no_rule(_WHOLE)


@dataclass(frozen=True)
class FinishSum(Finish):
    """The sum over all processes that `BeginSum` began."""

    group: Group

    def infer(self, ticket: array, x: array, token: array) -> tuple[Shape, Dtype]:
        return x.shape, x.dtype

    def evaluate(self, ticket: np.ndarray, x: np.ndarray, token: np.ndarray) -> np.ndarray:
        return _transport(self.group).complete(int(ticket))

    vjp = no_rule(_WHOLE)
    jvp = no_rule(_WHOLE)
    vmap = no_rule(_WHOLE)


class _Extreme(Reduction, abstract=True):
    """The largest or smallest of each element."""

    def vjp(self, cotangent: array, out: array, x: array, token: array) -> tuple[Any, ...]:
        return where(equal(x, out), cotangent, zeros_like(cotangent)), None

    def jvp(self, tangents: tuple[array | None, ...], out: array, x: array, token: array) -> Any:
        tangent = tangents[0]
        if tangent is None:
            return None
        return collect(AllSum(self.group), where(equal(x, out), tangent, zeros_like(tangent)))


class AllMax(_Extreme):
    """The largest of each element."""

    name = "all_max"


class AllMin(_Extreme):
    """The smallest of each element."""

    name = "all_min"


class AllGather(Collective):
    """The arrays of all processes, stacked along a new first axis."""

    def infer(self, x: array, token: array) -> tuple[Shape, Dtype]:
        return (self.group.size(), *x.shape), x.dtype

    def evaluate(self, x: np.ndarray, token: np.ndarray) -> np.ndarray:
        return self.transport.gather(x)

    def vjp(self, cotangent: array, out: array, x: array, token: array) -> tuple[Any, ...]:
        return element(cotangent, 0, self.group.rank()), None

    def of_batch(self, token: array, x: array) -> array:
        return moveaxis(self.after(token, x), 0, 1)


class _OfBlocks(Collective, abstract=True):
    """A collective of arrays with a block for each process along a first axis of that length."""

    def of_batch(self, token: array, x: array) -> array:
        return self.after(token, moveaxis(x, 0, 1))


class SumScatter(_OfBlocks):
    """This process's block of the sum over all processes."""

    def infer(self, x: array, token: array) -> tuple[Shape, Dtype]:
        return x.shape[1:], x.dtype

    def evaluate(self, x: np.ndarray, token: np.ndarray) -> np.ndarray:
        return self.transport.scatter_sum(x)

    def vjp(self, cotangent: array, out: array, x: array, token: array) -> tuple[Any, ...]:
        return collect(AllGather(self.group), cotangent), None


class AllToAll(_OfBlocks):
    """Block r goes to process r; the result has one block from each."""

    def evaluate(self, x: np.ndarray, token: np.ndarray) -> np.ndarray:
        return self.transport.exchange_blocks(x)

    def vjp(self, cotangent: array, out: array, x: array, token: array) -> tuple[Any, ...]:
        return collect(self, cotangent), None

    def of_batch(self, token: array, x: array) -> array:
        return moveaxis(super().of_batch(token, x), 1, 0)


@dataclass(frozen=True)
class BroadcastFrom(Collective):
    """The array of one process."""

    root: int

    def evaluate(self, x: np.ndarray, token: np.ndarray) -> np.ndarray:
        return self.transport.broadcast(x, self.root)

    def vjp(self, cotangent: array, out: array, x: array, token: array) -> tuple[Any, ...]:
        return cotangent if self.group.rank() == self.root else zeros_like(cotangent), None


def collect(op: Collective, x: array, stream: StreamLike = None) -> array:
    """The lazy result of a collective, after all communication that was called before."""
    return in_order(op, (x,), *op.infer(x, x), stream)


def _operand(name: str, x: Any, group: Group | None) -> tuple[array, Group]:
    return as_array(name, x), init() if group is None else group


def _reduced(kind: type[Reduction], x: Any, group: Group | None, stream: StreamLike) -> array:
    """The general case of the functions below."""
    x, group = _operand(kind.name, x, group)
    if group.size() == 1:
        return wrap(x)
    op = group._ops.get(kind)
    if op is None:
        # One op for all calls: evaluation looks up what to do by its identity.
        op = group._ops[kind] = kind(group)
    return in_order(op, (x,), x.shape, x.dtype, stream)


def _blocks(name: str, x: array, size: int) -> array:
    """`x` with its first axis cut into a block for each process."""
    if x.ndim == 0 or x.shape[0] % size:
        raise ValueError(
            f"[{name}] the first axis is cut into equal blocks for {size} processes, which an "
            f"array of shape {shape_text(x.shape)} does not allow."
        )
    return reshape(x, (size, x.shape[0] // size, *x.shape[1:]))


def all_sum(x: Any, *, group: Group | None = None, stream: StreamLike = None) -> array:
    """The sum of the arrays of all processes of a group; of bools, whether any is true.

    Args:
        x: The array of this process. Sums of half precision are computed in float32.
        group: The group, all processes by default.
        stream: The stream or device to run on.
    """
    # For small arrays Python takes longest, so that outside transforms there is just one call.
    op = (group or connected.group or _NOBODY)._ops.get(AllSum)
    result = None if op is None or type(x) is not array else like_input(op, x, stream, order)
    return _reduced(AllSum, x, group, stream) if result is None else result


def overlapped_sum(x: array, group: Group, stream: StreamLike = None) -> array:
    """The sum over all processes; later work that does not need it does not wait for it.

    Blocking for small arrays, and in functions that a transform other than compile calls. Ranks
    decide by what they have in common, because MPI does not match the two kinds of sums.
    """
    if in_transform() or holds_dimensions(x.shape) or x.nbytes < MIN_OVERLAPPED_BYTES:
        return all_sum(x, group=group, stream=stream)
    return in_two_steps(BeginSum(group), FinishSum(group), x, stream)


def all_max(x: Any, *, group: Group | None = None, stream: StreamLike = None) -> array:
    """The largest of the elements of all processes of a group; NaN where one is NaN.

    Args:
        x: The array of this process.
        group: The group, all processes by default.
        stream: The stream or device to run on.
    """
    # For small arrays Python takes longest, so that outside transforms there is just one call.
    op = (group or connected.group or _NOBODY)._ops.get(AllMax)
    result = None if op is None or type(x) is not array else like_input(op, x, stream, order)
    return _reduced(AllMax, x, group, stream) if result is None else result


def all_min(x: Any, *, group: Group | None = None, stream: StreamLike = None) -> array:
    """The smallest of the elements of all processes of a group; NaN where one is NaN.

    Args:
        x: The array of this process.
        group: The group, all processes by default.
        stream: The stream or device to run on.
    """
    # For small arrays Python takes longest, so that outside transforms there is just one call.
    op = (group or connected.group or _NOBODY)._ops.get(AllMin)
    result = None if op is None or type(x) is not array else like_input(op, x, stream, order)
    return _reduced(AllMin, x, group, stream) if result is None else result


def all_gather(x: Any, *, group: Group | None = None, stream: StreamLike = None) -> array:
    """The arrays of all processes of a group, concatenated along the first axis.

    Args:
        x: The array of this process. Scalars become the elements of a vector.
        group: The group, all processes by default.
        stream: The stream or device to run on.
    """
    x, group = _operand("all_gather", x, group)
    if group.size() == 1:
        return wrap(x)
    gathered = collect(AllGather(group), x, stream)
    if x.ndim == 0:
        return gathered
    return reshape(gathered, (group.size() * x.shape[0], *x.shape[1:]))


def sum_scatter(x: Any, *, group: Group | None = None, stream: StreamLike = None) -> array:
    """This process's block, along the first axis, of the sum of the arrays of all processes.

    Args:
        x: The array of this process; its first axis is a multiple of the number of processes.
        group: The group, all processes by default.
        stream: The stream or device to run on.
    """
    x, group = _operand("sum_scatter", x, group)
    if group.size() == 1:
        return wrap(x)
    return collect(SumScatter(group), _blocks("sum_scatter", x, group.size()), stream)


def all_to_all(x: Any, *, group: Group | None = None, stream: StreamLike = None) -> array:
    """Block r of each process goes to process r: blocks of all processes, in their order.

    Args:
        x: The array of this process, with a block for each process along the first axis.
        group: The group, all processes by default.
        stream: The stream or device to run on.
    """
    x, group = _operand("all_to_all", x, group)
    if group.size() == 1:
        return wrap(x)
    blocks = _blocks("all_to_all", x, group.size())
    return reshape(collect(AllToAll(group), blocks, stream), x.shape)


def broadcast(
    x: Any, root: int = 0, *, group: Group | None = None, stream: StreamLike = None
) -> array:
    """The array of one process of a group.

    Args:
        x: The array of this process: what the others get, or an array like it.
        root: The process whose array it is.
        group: The group, all processes by default.
        stream: The stream or device to run on.
    """
    x, group = _operand("broadcast", x, group)
    if not 0 <= root < group.size():
        raise ValueError(
            f"[broadcast] there is no process {root} in a group of size {group.size()}."
        )
    return wrap(x) if group.size() == 1 else collect(BroadcastFrom(group, root), x, stream)
