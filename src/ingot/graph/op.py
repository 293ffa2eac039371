"""Ops: the base class with its six rules, the registry of all ops, their application to arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache, partial
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ingot._native import array, make
from ingot.graph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ingot.graph.device import StreamLike

__all__ = [
    "RULES",
    "Change",
    "Missing",
    "Op",
    "apply",
    "apply_change",
    "changed_copy",
    "no_rule",
    "overrides",
    "parameters",
    "registry",
    "zero_jvp",
    "zero_vjp",
]

RULES = ("infer", "evaluate", "vjp", "jvp", "vmap", "emit")

# A function and its arguments, which modify an array. It must be a C function: no signal interrupts
# it, so arrays are never left half-modified.
Change = tuple[Any, ...]

_registry: dict[str, type[Op]] = {}


class Missing:
    """Marks a rule that an op cannot have, with the reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.rule = "rule"

    def __set_name__(self, owner: type, name: str) -> None:
        self.rule = name

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        return partial(self.refuse, owner.__name__)

    def refuse(self, owner: str, *_: Any) -> Any:
        """Raise the reason."""
        raise ValueError(f"[{owner}] has no {self.rule} rule: {self.reason}.")


def apply_change(change: Change) -> None:
    """Carry out what a `change` rule returned."""
    function, *arguments = change
    function(*arguments)


def changed_copy(op: Op, x: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """The `evaluate` rule of ops that are a change of their first input: it changes a copy."""
    result = x.copy()
    assert op.change is not None
    apply_change(op.change(result, *others))
    return result


def no_rule(reason: str) -> Any:
    """Declare that an op cannot have the rule it is assigned to, and why."""
    return Missing(reason)


def zero_vjp(op: Op, cotangent: Any, out: Any, *inputs: array) -> tuple[None, ...]:
    """The `vjp` rule of ops whose derivatives are zero by all inputs."""
    return (None,) * len(inputs)


def zero_jvp(op: Op, tangents: Any, out: Any, *inputs: array) -> None:
    """The `jvp` rule of the same ops."""
    return None


@dataclass(frozen=True, eq=False)
class Op:
    """One kind of array operation with all of its rules.

    Subclasses with fields are frozen dataclasses; those without inherit all that from here, which
    makes them faster to import.

    The rules are methods of the subclass; docs/internals/graph.md has the table of what each takes
    and returns. `Any` in their types leaves each op free to name its inputs.
    """

    several_outputs: ClassVar[bool] = False

    # The dtypes, as the bits of `dtype_mask`, for which it is a math function, in which NumPy and
    # kernels may differ in the last bits. For others the results are bit-identical.
    approximate: ClassVar[int] = 0
    takes_bits: ClassVar[bool] = False  # reinterprets bits, which may be NaN, as numbers

    # The first of the inputs that are indices, by which there is no derivative.
    first_index: ClassVar[int | None] = None

    def expanded(self, build: Callable[..., Any], *inputs: Any) -> Any | None:
        """The same result in terms of ops that kernels support, for compiled programs.

        `build(op, *inputs)` returns the result of an op; inputs and results have a shape and a
        dtype. None if the op is not expanded.
        """
        return None

    def narrowed(self, view: Op, shape: Any) -> Op | None:
        """An op of the same inputs that computes only the elements visible through a view of that
        shape; None if computing the whole result is as fast.
        """
        return None

    def only_output(self, index: int) -> Op | None:
        """An op of the same inputs that computes only one of several outputs; None if computing all
        is as fast.
        """
        return None

    def with_leading_outputs(self, extents: dict[int, Any], *inputs: Any) -> Op | None:
        """An op of the same inputs whose outputs are leading parts of its own, or None. `extents`
        has the outputs that are read, with how far along each axis.
        """
        return None

    def interval(self, *inputs: Any) -> tuple[int, int] | None:
        """The smallest and the largest integer that its elements may be, given those of its inputs,
        which are None for inputs of other numbers; None if nothing is known. Results beyond the
        dtype, which wrap around, need no care.
        """
        return None

    # For ops without fields: two of a class are equal. Ops declared with eq=False compare by
    # identity.

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and not fields(self))

    def __hash__(self) -> int:
        return hash(type(self))

    def is_no_op(self, *inputs: Any) -> bool:
        """Whether the result equals the first input; used by the simplifier."""
        return False

    orders: ClassVar[bool] = False  # outputs must not be used before all inputs are computed

    def passed_input(self, index: int) -> int | None:
        """The input that output `index` passes through unchanged; None if the output is
        computed.
        """
        return None

    @property
    def only_carries_rules(self) -> bool:
        """Whether it is a custom function, which has rules for transforms and otherwise passes
        inputs through.
        """
        return self.several_outputs and not self.orders and self.passed_input(0) is not None

    def block_axis(self, *inputs: Any) -> int | None:
        """An axis, counted from the front, of all inputs and results along which `evaluate` may be
        called slice by slice with the same results; None if there is none.
        """
        return None

    worth_cutting: ClassVar[int] = 1 << 22  # minimum elements for evaluation in blocks

    # (inputs, check) -> results: for ops that run other ops; `check` is called on each of these
    step_by_step: ClassVar[Callable[..., Any] | None] = None

    def programs(self) -> tuple[tuple[str, Any], ...]:
        """The programs that the op runs, such as the body of a loop, and what each is."""
        return ()

    only_calls: ClassVar[bool] = False  # for profiles: its work is attributed to the ops it calls

    @property
    def title(self) -> str:
        """The name in profiles."""
        return type(self).__name__

    # Like `evaluate`, with a donated first input: returns the `Change` that turns it into the
    # result, without applying it. None: no such rule.
    change: ClassVar[Callable[..., Change] | None] = None

    infer: ClassVar[Callable[..., Any]]
    evaluate: ClassVar[Callable[..., Any]]
    vjp: ClassVar[Callable[..., Any]]
    jvp: ClassVar[Callable[..., Any]]
    vmap: ClassVar[Callable[..., Any]]
    emit: ClassVar[Callable[..., Any]]

    # The attributes and methods that roles require of their ops, with the role that requires them;
    # None for classes without a role.
    _asked: ClassVar[dict[str, type[Op]] | None] = None

    def __init_subclass__(
        cls, *, abstract: bool = False, role: bool = False, **keywords: Any
    ) -> None:
        super().__init_subclass__(**keywords)
        if role:
            cls._asked = {**(cls._asked or {}), **dict.fromkeys(_left_open(cls), cls)}
        elif not abstract:
            _check_complete(cls)
            _registry[cls.__name__] = cls


def _left_open(role: type[Op]) -> list[str]:
    """The attributes and methods that a role declares but leaves to its ops."""
    own = vars(role)
    attributes = [name for name in get_annotations(role) if name not in own]
    return attributes + [name for name, value in own.items() if _is_abstract(value)]


def _is_abstract(value: Any) -> bool:
    return getattr(value, "__isabstractmethod__", False) is True


def _check_complete(kind: type[Op]) -> None:
    """Raise unless an op has a role and everything it requires: attributes, methods and fields."""
    if kind._asked is None:
        raise TypeError(
            f"[{kind.__name__}] has no role: derive it from one of the classes in "
            "ingot.graph.roles, from Host if only NumPy can compute it."
        )
    for name, role in kind._asked.items():
        found = getattr(kind, name, None)
        is_field = found is None and any(
            name in get_annotations(base) for base in kind.__mro__ if "_asked" not in vars(base)
        )
        if not is_field and (found is None or _is_abstract(found)):
            raise TypeError(
                f"[{kind.__name__}] is a {role.__name__} and lacks {name!r}: the docstring of "
                f"{role.__name__} in {role.__module__} says what to write."
            )


def registry() -> dict[str, type[Op]]:
    """All ops by name."""
    return dict(_registry)


def apply(op: Op, *inputs: array, stream: StreamLike = None) -> array:
    """The lazy result of an op with one output."""
    shape, dtype = op.infer(*inputs)
    return make(op, inputs, shape, dtype, stream)


Partial = array | int | None | Callable[[], array]


def parameters(op: Op | None) -> dict[str, Any]:
    """The fields of an op by name."""
    kind: Any = type(op)
    return {name: getattr(op, name) for name in _field_names(kind)}


@cache
def overrides(kind: type[Op], name: str) -> bool:
    """Whether a class of ops has its own version of a method of `Op`, or of the role that
    introduces it.
    """
    first = next(base for base in reversed(kind.__mro__) if name in vars(base))
    return getattr(kind, name) is not vars(first)[name]


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple([field.name for field in fields(kind)]) if is_dataclass(kind) else ()
