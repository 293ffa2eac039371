"""The table of what C calls in Python: the C half and the typed half say the same."""

from __future__ import annotations

import dataclasses
import inspect
from collections import deque
from typing import Any

import pytest

import ingot.core as mx
from ingot import _native
from ingot.compiler.call.function import CompiledFunction
from ingot.compiler.call.symbolic_program import SymbolicProgram
from ingot.compiler.run.program import Compiled, Program
from ingot.graph.callbacks import Callbacks
from ingot.graph.op import Op
from ingot.graph.outputs import Output
from ingot.graph.roles import Pointwise
from ingot.graph.state import state_lock

OURS = (Op, Pointwise, Output, Compiled, Program, SymbolicProgram, CompiledFunction)
CLASSES = {kind.__name__: kind for kind in (*OURS, type(state_lock), deque)}


def test_both_halves_have_the_same_names() -> None:
    assert set(Callbacks.__annotations__) == set(_native.callback_table())


def test_required_callbacks_cannot_be_unset() -> None:
    types = Callbacks.__annotations__
    may_be_none = {name for name, kind in types.items() if kind.__forward_arg__.endswith("| None")}
    required = {name for name, (is_required, _) in _native.callback_table().items() if is_required}
    assert required
    assert may_be_none
    assert not required & may_be_none
    for name in required:
        with pytest.raises(TypeError, match=f"{name} cannot be taken away"):
            _native.set_callbacks(**{name: None})  # type: ignore[misc]


def test_importing_the_package_sets_all_that_C_requires() -> None:
    assert mx.array(1).item() == 1
    table = _native.callback_table()
    assert [name for name, (is_required, is_set) in table.items() if is_required > is_set] == []


def test_a_name_that_C_does_not_know_is_refused() -> None:
    with pytest.raises(TypeError, match="no callback named constrict"):
        _native.set_callbacks(constrict=print)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="keyword arguments only"):
        _native.set_callbacks(print)  # type: ignore[misc]


def has(kind: type[Any], name: str) -> bool:
    """Whether instances of a class have an attribute: declared, defined or set by `__init__`."""
    if any(
        name in vars(base) or name in vars(base).get("__annotations__", {}) for base in kind.mro()
    ):
        return True
    if dataclasses.is_dataclass(kind):
        return name in {field.name for field in dataclasses.fields(kind)}
    is_ours = kind.__module__.startswith("ingot")
    return is_ours and f"self.{name}" in inspect.getsource(kind)


@pytest.mark.parametrize(("kind", "name"), _native.attribute_table())
def test_attributes_that_C_reads_by_name_exist(kind: str, name: str) -> None:
    assert has(CLASSES[kind], name)
    assert not has(CLASSES[kind], name + "_that_nobody_has")
