"""Traces: what a function did, which lines did it, and placeholders that are asked for values."""

from __future__ import annotations

import re
import weakref
from typing import Any

import numpy as np
import pytest
from tests.compiler.compiled_calls import call_of, traced

import ingot.core as mx
from ingot.compiler.trace.template import Template
from ingot.graph.dimension import Guards, symbolic_shape


def test_a_trace_calls_the_function_once_with_placeholders() -> None:
    seen = []

    def function(x: Any, k: int) -> Any:
        seen.append((x, k))
        return {"y": x * k}

    x = mx.array([1.0, 2.0])
    found = traced(function, x, 3)
    ((placeholder, k),) = seen
    assert k == 3
    assert placeholder is not x
    assert placeholder.shape == (2,)
    assert not placeholder._node.evaluated
    assert found.is_pure
    assert found.result.filled([x]) == {"y": x} or found.result.filled([x])["y"] is x
    assert [step.shape for step in found.tape.inputs] == [(2,)]
    assert found.tape.text().splitlines()[0] == "%0 = input argument 0 : float32[2]"


def test_steps_know_the_users_lines() -> None:
    def helper(x: Any) -> Any:
        return mx.softmax(x)  # many steps, one line

    def function(x: Any) -> Any:
        y = x + 1
        return helper(y)

    found = traced(function, mx.array([1.0, 2.0]))
    lines = {
        (type(step.op).__name__, step.source.line, step.source.function.rsplit(".", 1)[-1])
        for step in found.tape.steps
        if step.source is not None
    }
    first = function.__code__.co_firstlineno
    assert ("Add", first + 1, "function") in lines
    assert ("Exp", helper.__code__.co_firstlineno + 1, "helper") in lines
    assert all(step.source.filename == __file__ for step in found.tape.steps if step.source)
    assert re.fullmatch(r"test_trace\.py:\d+", found.tape.steps[-1].source.short)


def test_arrays_made_inside_are_no_constants_and_others_are() -> None:
    outside = mx.array([5.0]) * 2
    found = traced(lambda x: x + outside + mx.zeros(1) + mx.array([3.0]), mx.array([1.0]))
    constants = [step.value for step in found.tape.steps if step.is_constant]
    assert [value.tolist() for value in constants] == [[10.0], 0.0, [3.0]]


def test_evaluation_inside_of_what_is_known() -> None:
    def function(x: Any) -> Any:
        known = mx.arange(3) * 2
        assert known.tolist() == [0, 2, 4]
        mx.eval(known)
        return x + known

    found = traced(function, mx.zeros(3))
    assert "constant of 3 elements" in found.tape.text()


def test_templates() -> None:
    x, y = mx.array(1.0), mx.array(2.0)
    template = Template.of({"a": [x, 1], "b": (None, y), "c": {}})
    assert not template.is_array
    filled = template.filled([y, x])
    assert filled["a"][0] is y
    assert filled["b"][1] is x
    assert filled["c"] == {}
    assert filled["a"] is not template.filled([y, x])["a"]
    held = mx.array(3.0)
    reference = weakref.ref(held)
    template.filled([held, held])
    del held
    assert reference() is None
    assert Template.of(x).is_array
    assert not Template.of(3).is_array
    assert Template.of(3).filled([]) == 3
    assert Template.of([]).filled([]) == []
    guards = Guards()
    (n,) = symbolic_shape(0, (4,), guards)
    symbolic = Template.of([n, (n * 2, x)])
    assert symbolic.resolved(guards.values([(7,)]) or []).filled([x])[:1] == [7]


def test_numpy_arrays_become_arrays() -> None:
    tree = {"a": np.ones(2), "b": [1, mx.array(1.0)]}
    call = call_of(lambda x: x, tree["b"])
    assert call.with_arrays() is call
    (found,) = call_of(lambda x: x, tree).with_arrays().args
    assert isinstance(found["a"], mx.array)
    assert found["b"][1] is tree["b"][1]


# Placeholders


WAYS_OUT = (
    " has no value: compile only traces the function, with placeholders. Choose between values "
    "with mx.where or mx.cond instead of `if`; pass the array itself on, not its values; give "
    "lengths and counts as Python numbers; return it from the function; or capture the container "
    "that it is put into with outputs=. To look at values while debugging, call "
    "mx.disable_compile() first."
)

USES: dict[str, Any] = {
    "print": print,
    "str": str,
    "repr": repr,
    "format": lambda z: f"{z:.3f}",
    "item": lambda z: z.item(),
    "bool": bool,
    "int": int,
    "float": float,
    "complex": complex,
    "index": lambda z: [1, 2][z.astype(mx.int32)] if z.ndim else [1][z],
    "numpy": np.array,
    "asarray": np.asarray,
    "tolist": lambda z: z.tolist(),
    "memoryview": memoryview,
    "bytes": bytes,
    "dlpack": np.from_dlpack,
    "eval": mx.eval,
    "if": lambda z: 1 if z > 0 else 2,
    "while": lambda z: [None for _ in iter(lambda: bool(z), False)],
    "items": lambda z: [float(item) for item in z[None]],
    "indexing a list": lambda z: [1][int(z)],
}


@pytest.mark.parametrize("use", USES)
def test_placeholders_have_no_values(use: str) -> None:
    def function(x: Any) -> Any:
        z = -x
        USES[use](z)
        return z

    with pytest.raises(ValueError, match=r"\[") as caught:
        mx.compile(function)(mx.array(1))
    message = str(caught.value)
    assert message.endswith(WAYS_OUT)
    name = "test_placeholders_have_no_values.<locals>.function"
    line = function.__code__.co_firstlineno + 1
    expected = f"[eval] the array made at {__file__}:{line} in {name}{WAYS_OUT}"
    derived = use in ("if", "items", "index")  # made from z where it is used
    assert message == expected or derived


def test_arguments_and_captured_state_have_names() -> None:
    state = {"w": [mx.array(1.0)]}
    with pytest.raises(ValueError, match=r"\[") as caught:
        mx.compile(lambda x, scale: float(scale))(mx.array(1.0), mx.array(2.0))
    assert str(caught.value) == "[eval] argument `scale`" + WAYS_OUT
    with pytest.raises(ValueError, match=r"\[") as caught:
        mx.compile(lambda x: float(x["a"][1]))({"a": [3, mx.array(2.0)]})
    assert str(caught.value) == "[eval] argument `x`['a'][1]" + WAYS_OUT
    with pytest.raises(ValueError, match=r"\[") as caught:
        mx.compile(lambda x: float(state["w"][0]), inputs=state)(mx.array(1.0))
    assert str(caught.value) == "[eval] captured inputs['w'][0]" + WAYS_OUT
    assert state["w"][0].item() == 1.0


def test_what_is_derived_from_an_escaped_placeholder_names_its_line() -> None:
    kept = []

    def function(x: Any) -> Any:
        kept.append(mx.exp(x))
        return x

    with pytest.warns(mx.UndeclaredStateWarning):
        mx.compile(function)(mx.array([1.0, 2.0]))
    line = function.__code__.co_firstlineno + 1
    with pytest.raises(ValueError, match=rf"made at .*test_trace\.py:{line} in "):
        print(kept[0][0] * 2)


def test_vmap_has_other_advice() -> None:
    with pytest.raises(ValueError, match=r"\[") as caught:
        mx.vmap(lambda x: float(x))(mx.array([1.0]))
    assert str(caught.value) == (
        "[eval] the array has no value while vmap or a loop like mx.scan traces its function: "
        "choose between values with mx.where or mx.cond instead of `if`, or return it from the "
        "function and look at the results."
    )


@pytest.mark.parametrize("wrap", [lambda function: function, mx.compile])
def test_what_a_loop_computes_has_the_advice_for_loops_and_its_line(wrap: Any) -> None:
    def condition(x: Any) -> Any:
        return bool(x > 0)

    line = condition.__code__.co_firstlineno + 1
    message = rf"made at .*test_trace\.py:{line} in .* has no value while .*loop.*mx\.where"
    with pytest.raises(ValueError, match=message):
        wrap(lambda x: mx.while_loop(condition, lambda x: x - 1, x))(mx.array(3))


def test_iteration_over_a_placeholder_unrolls() -> None:
    compiled = mx.compile(lambda x: sum(row * i for i, row in enumerate(x)))
    x = mx.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert compiled(x).tolist() == [13.0, 16.0]


def test_nodes_of_one_line_share_its_source() -> None:
    def function(x: mx.array) -> mx.array:
        for _ in range(3):
            x = mx.exp(x) + mx.sin(x)  # three instructions, three times
        return -x

    sources = [step.source for step in traced(function, mx.ones(3)).tape.steps if step.op]
    assert len({id(source) for source in sources}) == 2
    assert [source.line for source in sources] == [sources[0].line] * 9 + [sources[0].line + 1]
