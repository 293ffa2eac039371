"""Ops: the base class with its six rules, the registry of all ops, their application to arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from ingot import _native
from ingot._native import Dtype, array, make

if TYPE_CHECKING:
    from ingot.graph.device import StreamLike
    from ingot.graph.shape import Shape

__all__ = [
    "RULES",
    "Change",
    "Missing",
    "Op",
    "Output",
    "apply",
    "apply_multiple",
    "carry_out",
    "no_rule",
    "outputs_of",
    "registry",
]

RULES = ("infer", "evaluate", "vjp", "jvp", "vmap", "emit")

# A function and its arguments, which changes an array. It must be one in C: no signal interrupts
# those, so arrays are as they were or as they should be.
Change = tuple[Any, ...]

_registry: dict[str, type[Op]] = {}


class Missing:
    """Stands where an op cannot have a rule, and says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.rule = "rule"
        self.owner = "op"

    def __set_name__(self, owner: type, name: str) -> None:
        self.rule = name
        self.owner = owner.__name__

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        return self.refuse

    def refuse(self, *_: Any) -> Any:
        """Raises the reason."""
        raise ValueError(f"[{self.owner}] has no {self.rule} rule: {self.reason}.")


def carry_out(change: Change) -> None:
    """Calls the function of a change."""
    function, *arguments = change
    function(*arguments)


def no_rule(reason: str) -> Any:
    """Declares that an op cannot have the rule it is assigned to, and why."""
    return Missing(reason)


@dataclass(frozen=True, eq=False)
class Op:
    """One kind of array operation with all of its rules.

    Subclasses with fields are frozen dataclasses; those without inherit all that from here, which
    makes them quicker to import.

    The rules are methods of the subclass; docs/architecture.md has the table of what each takes and
    returns. `Any` in their types leaves each op free to name its inputs.
    """

    several_outputs: ClassVar[bool] = False

    # What the fuser asks: "map" (each element by itself), "reduce", "view" (elements only addressed
    # otherwise), "count" (elements are their positions, which loops know), "gather" (elements of
    # the first input at indices), "scatter" (a copy with updates at indices), "assemble" (inputs
    # copied to their places), "check" (the first input unless the second says no) or "single".
    role: ClassVar[str] = "single"
    why_single: ClassVar[str] = "its elements depend on many others"
    keeps_order: ClassVar[bool] = False  # a view whose elements keep their order in memory
    broadcasts: ClassVar[bool] = False  # a view that repeats elements
    # The dtypes, as the bits of `dtype_mask`, for which it is a math function: what NumPy and what
    # kernels give may differ in the last places. Else both give the same bits.
    approximate: ClassVar[int] = 0
    takes_bits: ClassVar[bool] = False  # reads bits as numbers, which may be NaN, and computes none
    sums: ClassVar[bool] = False  # a reduction whose partial results want more precision
    contracts: ClassVar[bool] = False  # a product of stacks of matrices, which BLAS can compute

    def layout(self, shape: Any, strides: Any) -> tuple[int, tuple[int, ...]] | None:
        """For views: where their elements are, given the strides in bytes of the input.

        The offset of the first one and the strides, in bytes; None if no strides lead to them.
        """
        raise NotImplementedError

    def expanded(self, build: Callable[..., Any], *inputs: Any) -> Any | None:
        """The same result in ops that kernels are made of, for compiled programs.

        `build(op, *inputs)` gives the result of an op; inputs and results have a shape and a dtype.
        None if the op stays as it is.
        """
        return None

    def widens(self, *inputs: Any) -> bool:
        """For maps: whether the result is a cast of the one input that takes more memory than it,
        and next to no time, so that who needs it better makes it anew.
        """
        return False

    @property
    def paired_elements(self) -> int:
        """For maps that make two elements for the work of one: how many elements there are.

        The first input is an element's position among them. `emit_pair(k, position, *inputs)` gives
        the element at a position in the front half and that at the same position in the back half,
        if both have the same inputs otherwise. Of an odd number, the front half has one more, and
        is not asked for the pair of its last.
        """
        return 0

    emit_pair: ClassVar[Callable[..., tuple[Any, Any]]]

    def pieces(self, *inputs: Any) -> list[tuple[int, Op]]:
        """For ops that assemble their result: which input is copied to which slice, in order."""
        raise NotImplementedError

    # Ops without fields inherit these: two of a class are equal. So do ops that are declared with
    # eq=False, each of which equals itself only.

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and not fields(self))

    def __hash__(self) -> int:
        return hash(type(self))

    def is_no_op(self, *inputs: Any) -> bool:
        """Whether the result is the first input; what the simplifier asks."""
        return False

    orders: ClassVar[bool] = False  # its outputs must not be used before all its inputs are there

    def passed_input(self, index: int) -> int | None:
        """Which input output `index` of several is, unchanged; None if the outputs are computed."""
        return None

    def block_axis(self, *inputs: Any) -> int | None:
        """An axis, counted from the front, of all inputs and results along which `evaluate` may be
        called for one part after the other, with the same results; None if there is none.
        """
        return None

    worth_cutting: ClassVar[int] = 1 << 22  # elements from which on that may take long

    only_calls: ClassVar[bool] = False  # for profiles: its work is counted where it is done

    @property
    def title(self) -> str:
        """What profiles call it."""
        return type(self).__name__

    # As `evaluate`, where nobody else has the first input: the `Change` that makes it the result,
    # with nothing changed so far. None: no such rule.
    change: ClassVar[Callable[..., Change] | None] = None

    infer: ClassVar[Callable[..., Any]]
    evaluate: ClassVar[Callable[..., Any]]
    vjp: ClassVar[Callable[..., Any]]
    jvp: ClassVar[Callable[..., Any]]
    vmap: ClassVar[Callable[..., Any]]
    emit: ClassVar[Callable[..., Any]]

    def __init_subclass__(cls, *, abstract: bool = False, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if not abstract:
            _registry[cls.__name__] = cls


def registry() -> dict[str, type[Op]]:
    """All ops by name."""
    return dict(_registry)


def apply(op: Op, *inputs: array, stream: StreamLike = None) -> array:
    """The lazy result of an op with one output."""
    shape, dtype = op.infer(*inputs)
    return make(op, inputs, shape, dtype, stream)


def apply_multiple(op: Op, *inputs: array, stream: StreamLike = None) -> tuple[array, ...]:
    """The lazy results of an op with several outputs."""
    outputs: Sequence[tuple[Shape, Dtype]] = op.infer(*inputs)
    shapes = tuple(shape for shape, _ in outputs)
    dtypes = tuple(dtype for _, dtype in outputs)
    return outputs_of(make(op, inputs, shapes, dtypes, stream))


def outputs_of(whole: Any) -> tuple[array, ...]:
    """The outputs of a node with several, as arrays."""
    return tuple(
        make(Output(index), (whole,), shape, dtype)
        for index, (shape, dtype) in enumerate(zip(whole.shape, whole.dtype, strict=True))
    )


Partial = array | int | None | Callable[[], array]


@dataclass(frozen=True)
class Output(Op):
    """One of the results of an op with several; transforms look through it to that op."""

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
    emit = no_rule("the op behind it is emitted as a whole")


_native.set_callbacks(output_type=Output, outputs_of=outputs_of)
