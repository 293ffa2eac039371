"""Programs from disk behave as those that were compiled: results, errors, profiles, reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.processes import output_of

import ingot
import ingot.core as mx
from ingot.compiler import pipeline
from ingot.utils import tree_flatten

X = mx.array(np.random.default_rng(5).standard_normal((6, 40)).astype(np.float32))
W = mx.array(np.random.default_rng(6).standard_normal((40, 33)).astype(np.float32))

pytestmark = pytest.mark.usefixtures("program_folder")


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function after which nothing can be compiled."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the pipeline runs")

    return lambda: monkeypatch.setattr(pipeline, "run_pipeline", refuse)


def with_state(x: mx.array, w: mx.array) -> Any:
    return mx.random.normal(x.shape, key=mx.random.key(7)) + x


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a map": (lambda x: mx.tanh(x) * 2 + 1, (X,)),
    "rows": (lambda x: mx.softmax(x, axis=-1), (X,)),
    "a product": (lambda x, w: mx.maximum(x @ w, 0).sum(axis=0), (X, W)),
    "halves": (lambda x: x.astype(mx.bfloat16) * 3, (X,)),
    "constants": (lambda x: x + mx.arange(40), (X,)),
    "a gather": (lambda x, i: x[i], (X, mx.array([4, 0, 2]))),
    "a scatter": (lambda x, i: x.at[i].add(1), (X, mx.array([4, 0, 4]))),
    "a host step": (lambda x: mx.linalg.eigvalsh(x @ x.T, stream=mx.cpu), (X,)),
    "a sort": (lambda x: mx.sort(x, axis=-1), (X,)),
    "several outputs": (lambda x: (x + 1, {"sum": x.sum(), "x": x}), (X,)),
    "random numbers": (with_state, (X, W)),
    "a loop": (lambda x: mx.fori_loop(0, 3, lambda i, x: x * 2, x), (X,)),
    "a transposed input": (lambda x, w: x @ w, (X, mx.array(np.array(W).T.copy()).T)),
    "a gradient": (mx.grad(lambda x: (mx.tanh(x) ** 2).sum()), (X,)),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_are_the_same(name: str) -> None:
    function, args = CALLS[name]
    first = mx.compile(lambda *args: function(*args))(*args)
    mx.eval(first)
    again = mx.compile(lambda *args: function(*args))(*args)
    one, other = (dict(tree_flatten([each])) for each in (first, again))
    assert one.keys() == other.keys()
    for key, value in one.items():
        np.testing.assert_array_equal(
            np.array(value.astype(mx.float32)), np.array(other[key].astype(mx.float32))
        )


@pytest.mark.parametrize("name", [name for name in CALLS if name not in ("a loop", "a host step")])
def test_no_pass_runs_for_what_is_stored(name: str, refusing: Callable[[], None]) -> None:
    function, args = CALLS[name]
    mx.eval(mx.compile(lambda *args: function(*args))(*args))
    refusing()
    mx.eval(mx.compile(lambda *args: function(*args))(*args))


def test_a_new_layout_of_a_stored_program() -> None:
    """The entry for contiguous inputs is read; code for others is made when it is needed."""
    function = CALLS["a map"][0]
    mx.eval(mx.compile(lambda x: function(x))(X))
    again = mx.compile(lambda x: function(x))
    expected = again(X)
    columns = mx.array(np.array(X).T.copy()).T
    for _ in range(3):
        np.testing.assert_array_equal(np.array(again(columns)), np.array(expected))


def test_training_in_place() -> None:
    def trained() -> list[float]:
        state = {"w": mx.zeros((40,)), "n": mx.array(0)}

        def step(x: mx.array, y: mx.array) -> mx.array:
            def loss(w: mx.array) -> mx.array:
                return ((x @ w - y) ** 2).mean()

            value, gradient = mx.value_and_grad(loss)(state["w"])
            state["w"] = state["w"] - 0.1 * gradient
            state["n"] = state["n"] + 1
            return value

        compiled = mx.compile(step, inputs=state, outputs=state)
        losses = [compiled(X, X[:, 0]).item() for _ in range(5)]
        assert state["n"].item() == 5
        return losses

    assert trained() == trained()


def test_errors_name_the_line() -> None:
    def taken(x: mx.array, i: mx.array) -> mx.array:
        return x[i] * 2  # the user's line

    messages = []
    for _ in range(2):
        with pytest.raises(IndexError) as caught:
            mx.eval(mx.compile(lambda x, i: taken(x, i))(X, mx.array([3, 70])))
        messages.append("".join(map(str, (caught.value, *getattr(caught.value, "__notes__", ())))))
    assert messages[0] == messages[1]
    assert "70" in messages[0]
    assert "test_programs.py" in messages[0]


def test_profiles_name_the_kernels() -> None:
    names = []
    for _ in range(2):
        function = mx.compile(lambda x: mx.softmax(x, axis=-1) + 1)
        with ingot.profile() as found:
            mx.eval(function(X))
        names.append({row.name for row in found.rows if row.kind == "kernel"})
    assert names[0] == names[1] != set()


def test_explanations_have_every_form() -> None:
    function = CALLS["a product"][0]
    texts = []
    for _ in range(2):
        compiled = mx.compile(function)
        mx.eval(compiled(X, W))
        texts.append(str(compiled.explain(X, W).stages.schedule.text()))
    assert texts[0] == texts[1]


NEW_PROCESS = """
import sys
import ingot
import ingot.core as mx
f = mx.compile(lambda x: mx.softmax(x * 2, axis=-1))
print(f(mx.array([[1.0, 2.0, 3.0]])).tolist())
print("ingot.compiler.pipeline" in sys.modules, "llvmlite" in sys.modules)
"""


def test_a_second_process_loads_neither_the_passes_nor_llvm(program_folder: Path) -> None:
    variables = {"INGOT_CACHE_DIR": str(program_folder), "INGOT_VERIFY": "0"}
    outputs = [output_of(NEW_PROCESS, **variables).decode().splitlines() for _ in range(2)]
    assert outputs[0][0] == outputs[1][0]
    assert outputs[0][1].startswith("True")
    assert outputs[1][1] == "False False"
