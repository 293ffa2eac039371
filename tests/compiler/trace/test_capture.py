"""Captured state: containers that compiled functions read and update, and random state."""

from __future__ import annotations

import gc
import re
import weakref
from collections import defaultdict, namedtuple
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.graph import state as implicit
from ingot.graph.state import current_state, register_implicit_state


def values(tree: Any) -> Any:
    """The tree with numbers in place of arrays."""
    if isinstance(tree, mx.array):
        return tree.tolist()
    if isinstance(tree, dict):
        return {key: values(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [values(value) for value in tree]
    return tree


def _without_numbers(tree: Any) -> str:
    return re.sub(r"-?\d+\.\d+(e-\d+)?", "#", repr(values(tree)))


def _numbers(tree: Any) -> list[float]:
    return [float(text) for text in re.findall(r"-?\d+\.\d+(?:e-\d+)?", repr(values(tree)))]


Point = namedtuple("Point", "x y")


def append(state: Any, x: Any) -> Any:
    state.append(x * 2)
    return len(state)


def assign_item(state: Any, x: Any) -> Any:
    state[0] = state[0] + x
    return state[0] * 1


def update_in_place(state: Any, x: Any) -> Any:
    state[0] += x
    return state[0] * 2


def write_into(state: Any, x: Any) -> Any:
    state[0][0] = x.sum()


def swap(state: Any, x: Any) -> Any:
    state[0], state[1] = state[1], state[0]
    return state[0] - x


def nested(state: Any, x: Any) -> Any:
    state["layers"][0]["w"] = state["layers"][0]["w"] * x
    state["layers"].append({"w": x + 1, "name": "new"})
    state["step"] = state.get("step", 0)
    return state["layers"][0]["w"].sum()


def rebuild(state: Any, x: Any) -> Any:
    old = state.pop("a")
    state["b"] = {"moved": old, "sum": old + x, "both": (old, [x * 3])}


def clear(state: Any, x: Any) -> Any:
    state.clear()
    state["only"] = x


def alias(state: Any, x: Any) -> Any:
    new = x + state[0]
    state[0] = new
    state.append(new)
    state.append([new])


def named_tuple(state: Any, x: Any) -> Any:
    state[0] = Point(state[0].y + x, state[0].x)


def default_dict(state: Any, x: Any) -> Any:
    made = defaultdict(list)
    made["a"].append(x)
    state[0] = made


def only_constants(state: Any, x: Any) -> Any:
    state.append(len(state))
    if len(state) > 2:
        del state[0]


def only_swaps(state: Any, x: Any) -> Any:
    state.reverse()


def counters(state: Any, x: Any) -> Any:
    state["t"] = state["t"] + 1
    state["m"] = 0.9 * state["m"] + 0.1 * x
    return state["m"] / (1 - 0.9 ** state["t"])


A = [1.0, 2.0]
B = [3.0, 5.0]

CASES: list[tuple[Callable[..., Any], Callable[[], Any]]] = [
    (append, list),
    (assign_item, lambda: [mx.array(A)]),
    (update_in_place, lambda: [mx.array(A), 3]),
    (write_into, lambda: [mx.array(A)]),
    (swap, lambda: [mx.array(A), mx.array(B)]),
    (nested, lambda: {"layers": [{"w": mx.array(A)}], "step": 0}),
    (rebuild, lambda: {"a": mx.array(A), "b": 1}),
    (clear, lambda: {"a": mx.array(A), "b": [mx.array(B)]}),
    (alias, lambda: [mx.array(A)]),
    (named_tuple, lambda: [Point(mx.array(A), mx.array(B))]),
    (default_dict, lambda: [None]),
    (only_constants, list),
    (only_swaps, lambda: [mx.array(A), mx.array(B), 3]),
    (counters, lambda: {"t": mx.array(0), "m": mx.array(A)}),
]


@pytest.mark.parametrize("capture", ["both", "same"])
@pytest.mark.parametrize(("function", "make"), CASES, ids=lambda case: case.__name__)
def test_containers_after_compiled_calls_are_as_after_uncompiled_ones(
    function: Any, make: Any, capture: str
) -> None:
    expected_state, found_state = make(), make()
    compiled = mx.compile(
        lambda x: function(found_state, x),
        inputs=found_state,
        outputs=found_state if capture == "same" else [found_state],
    )
    for call in range(4):
        x = mx.array([0.5, 1.5]) * (call + 1)
        if function is rebuild and call > 0:
            expected_state["a"], found_state["a"] = mx.array(A), mx.array(A)
        expected = function(expected_state, x)
        found = compiled(x)
        assert values(found) == pytest.approx(values(expected))
        assert type(found_state) is type(expected_state)
        assert _without_numbers(found_state) == _without_numbers(expected_state)
        np.testing.assert_allclose(
            _numbers(found_state), _numbers(expected_state), rtol=1e-5, atol=1e-5
        )


def test_types_of_new_containers_are_kept() -> None:
    state: list[Any] = [None, Point(mx.array(1.0), 2)]
    compiled = mx.compile(
        lambda x: (default_dict(state, x), named_tuple(state[1:], x))[0], outputs=state
    )
    for _ in range(2):
        compiled(mx.array(1.0))
        assert type(state[0]) is defaultdict
        assert state[0].default_factory is list
        assert type(state[1]) is Point


def test_identities_are_kept() -> None:
    inner = {"w": mx.array(1.0)}
    state = [inner, mx.array(2.0)]
    handles = (inner["w"], state[1])

    @partial(mx.compile, inputs=state, outputs=state)
    def function(x: Any) -> Any:
        state[0]["w"] += x
        state[1] *= x
        return None

    for _ in range(3):
        function(mx.array(2.0))
    assert state[0] is inner
    assert inner["w"] is handles[0]
    assert state[1] is handles[1]
    assert values(state) == [{"w": 7.0}, 16.0]


def test_shared_arrays_are_updated_together() -> None:
    def run(compiles: bool, shared: bool) -> Any:
        first = mx.array(1.0)
        state = [first, first if shared else mx.array(1.0)]

        def function(x: Any) -> Any:
            state[0] += x
            return state[1] * 10

        wrapped = mx.compile(function, inputs=state, outputs=state) if compiles else function
        return [values(wrapped(mx.array(2.0))) for _ in range(3)], values(state)

    for shared in (False, True):
        assert run(True, shared) == run(False, shared)


def test_arrays_that_become_shared_later() -> None:
    state = [mx.array(1.0), mx.array(1.0)]

    @partial(mx.compile, inputs=state, outputs=state)
    def function(x: Any) -> Any:
        state[0] += x
        return state[1] * 10

    assert function(mx.array(2.0)).item() == 10.0
    state[1] = state[0]
    assert function(mx.array(2.0)).item() == 50.0


def test_an_argument_that_is_captured_as_well() -> None:
    state = [mx.array(1.0)]

    def function(x: Any) -> Any:
        state[0] += 1
        return x * 10

    compiled = mx.compile(function, inputs=state, outputs=state)
    assert compiled(state[0]).item() == 20.0
    assert compiled(mx.array(5.0)).item() == 50.0
    assert compiled(state[0]).item() == 40.0


def test_only_inputs() -> None:
    state = {"w": mx.array(1.0)}
    compiled = mx.compile(lambda x: x * state["w"], inputs=state)
    assert compiled(mx.array(2.0)).item() == 2.0
    state["w"] = mx.array(5.0)
    assert compiled(mx.array(2.0)).item() == 10.0
    state["w"] += 1
    assert compiled(mx.array(2.0)).item() == 12.0
    state["w"] = mx.array([1.0, 2.0])
    assert compiled(mx.array(2.0)).tolist() == [2.0, 4.0]
    state["unused"] = mx.array(3)
    assert compiled(mx.array(2.0)).tolist() == [2.0, 4.0]
    assert compiled.cache_info().misses == 3


def test_only_outputs_see_constants() -> None:
    state = [mx.array(1.0)]

    @partial(mx.compile, outputs=state)
    def function(x: Any) -> Any:
        state[0] = state[0] + x
        return x

    function(mx.array(2.0))
    assert state[0].item() == 3.0
    function(mx.array(2.0))  # what is not an input is a constant: it is 1.0 for ever
    assert state[0].item() == 3.0


def test_arrays_that_are_closed_over_are_constants() -> None:
    state = [mx.array(1.0)]
    compiled = mx.compile(lambda x: x + state[0])
    assert compiled(mx.array(1.0)).item() == 2.0
    state[0] = mx.array(5.0)
    assert compiled(mx.array(1.0)).item() == 2.0


def test_an_array_as_captured_state() -> None:
    counter = mx.array(0)

    @partial(mx.compile, inputs=counter, outputs=counter)
    def function() -> None:
        nonlocal counter
        counter += 1

    for _ in range(3):
        function()
    assert counter.item() == 3


def test_growing_state_compiles_for_each_size() -> None:
    state: list[Any] = []
    compiled = mx.compile(lambda x: append(state, x), inputs=state, outputs=state)
    assert [compiled(mx.array(float(i))) for i in range(4)] == [1, 2, 3, 4]
    assert values(state) == [0.0, 2.0, 4.0, 6.0]
    reasons = [miss.reason for miss in compiled.cache_info().reasons]
    assert reasons[1] == "captured inputs[0] is new; captured inputs is gone"
    assert reasons[2] == "captured inputs[1] is new"


def test_two_states_of_one_function() -> None:
    def step(x: Any) -> Any:
        return x + first[0] + second[0]

    first, second = [mx.array(1.0)], [mx.array(10.0)]
    by_first = mx.compile(step, inputs=first)
    by_second = mx.compile(step, inputs=second)
    assert by_first(mx.array(0.0)).item() == 11.0
    assert by_second(mx.array(0.0)).item() == 11.0
    first[0], second[0] = mx.array(2.0), mx.array(20.0)
    assert by_first(mx.array(0.0)).item() == 12.0
    assert by_second(mx.array(0.0)).item() == 21.0
    again = mx.compile(step, inputs=first)
    assert again(mx.array(0.0)).item() == 12.0
    assert again.cache_info().misses == 1


def test_state_under_transforms() -> None:
    state = [mx.array(3.0)]
    compiled = mx.compile(lambda x: x * x * state[0], inputs=state)
    assert mx.grad(compiled)(mx.array(2.0)).item() == 12.0
    state[0] = mx.array(5.0)
    assert mx.grad(compiled)(mx.array(2.0)).item() == 20.0
    assert mx.compile(mx.grad(compiled), inputs=state)(mx.array(2.0)).item() == 20.0


def test_captured_state_dies_with_the_function() -> None:
    class Model:
        def __init__(self) -> None:
            self.state = [mx.array(1.0), self]
            self.step = mx.compile(self.forward, inputs=self.state[:1], outputs=self.state)

        def forward(self, x: Any) -> Any:
            self.state[0] = self.state[0] + x
            return x

    model = Model()
    model.step(mx.array(1.0))
    assert model.state[0].item() == 2.0
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None


def test_the_graph_of_a_state_does_not_grow() -> None:
    state = [mx.array(0.0)]
    compiled = mx.compile(lambda x: assign_item(state, x), inputs=state, outputs=state)
    for _ in range(1000):
        compiled(mx.array(1.0))
    assert state[0].item() == 1000.0


# Implicit state


@pytest.fixture
def counter() -> Iterator[list[Any]]:
    made = register_implicit_state([mx.array(0)])
    yield made
    implicit._states[:] = [state for state in implicit._states if state is not made]


def draw(counter: list[Any]) -> Any:
    """A toy generator: the numbers 0, 1, 2..."""
    state = current_state(counter)
    number = state[0]
    state[0] = number + 1
    return number * 1


@pytest.mark.parametrize("captured", ["no", "inputs", "outputs", "both"])
def test_implicit_state_is_followed(counter: list[Any], captured: str) -> None:
    def function(x: Any) -> Any:
        return x + draw(counter), draw(counter)

    capture = {
        "no": {},
        "inputs": {"inputs": [counter]},
        "outputs": {"outputs": [counter]},
        "both": {"inputs": [counter], "outputs": [counter]},
    }[captured]
    compiled = mx.compile(function, **capture)
    zero = mx.array(0)
    assert values(compiled(zero)) == [0, 1]
    assert values(compiled(zero)) == [2, 3]
    assert values(function(zero)) == [4, 5]
    assert values(compiled(zero)) == [6, 7]
    counter[0] = mx.array(100)
    assert values(compiled(zero)) == [100, 101]
    assert values(mx.vmap(compiled)(mx.array([0, 10]))) == [[102, 112], [103, 103]]
    assert compiled.cache_info().misses == 1


def test_implicit_state_that_is_only_read(counter: list[Any]) -> None:
    compiled = mx.compile(lambda x: x + current_state(counter)[0])
    assert compiled(mx.array(1)).item() == 1
    counter[0] = mx.array(5)
    assert compiled(mx.array(1)).item() == 6
    mx.compile(lambda x: x + 1)(mx.array(1))
    assert counter[0].item() == 5


def test_implicit_state_of_another_shape_is_traced_once() -> None:
    state = [mx.array([1.0, 2.0])]  # nobody registered it: reading it is enough
    compiled = mx.compile(lambda x: x + current_state(state, "the numbers")[0].sum())
    one = mx.array(1.0)
    for values_there, total in (([1, 2], 4), ([1, 2, 3], 7), ([5, 6], 12), ([1, 1, 1], 4)):
        state[0] = mx.array(values_there).astype(mx.float32)
        assert compiled(one).item() == total
    info = compiled.cache_info()
    assert (info.misses, info.hits) == (2, 2)
    assert "a state that it reads" in info.reasons[-1].reason


def test_implicit_state_after_an_exception(counter: list[Any]) -> None:
    def function(x: Any, fails: bool) -> Any:
        number = draw(counter)
        if fails:
            raise KeyError("inside")
        return number

    compiled = mx.compile(function)
    with pytest.raises(KeyError):
        compiled(mx.array(0), True)
    assert counter[0].item() == 0
    assert compiled(mx.array(0), False).item() == 0
    assert counter[0].item() == 1


# Random numbers


def numbers(shape: tuple[int, ...] = (3,)) -> Any:
    return mx.random.uniform(shape=shape), mx.random.normal(shape)


@pytest.mark.parametrize("captured", ["no", "both", "tree"])
def test_random_numbers(captured: str) -> None:
    capture: dict[str, Any] = {}
    if captured == "both":
        capture = {"inputs": mx.random.state, "outputs": mx.random.state}
    elif captured == "tree":
        state = [{"w": mx.array(1.0)}, mx.random.state]
        capture = {"inputs": state, "outputs": state}
    compiled = mx.compile(numbers, **capture)
    mx.random.seed(7)
    expected = [values(numbers()) for _ in range(4)]
    for _ in range(2):
        mx.random.seed(7)
        found = [values(compiled()) for _ in range(4)]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert len({str(pair) for pair in found}) == 4
    mx.random.seed(7)
    mixed = [values(compiled()), values(numbers()), values(compiled()), values(numbers())]
    np.testing.assert_allclose(mixed, expected, rtol=1e-6)
    assert compiled.cache_info().misses == 1


def test_random_numbers_from_explicit_keys() -> None:
    compiled = mx.compile(lambda key: mx.random.uniform(shape=(4,), key=key))
    for seed in (1, 2, 1):
        key = mx.random.key(seed)
        assert compiled(key).tolist() == mx.random.uniform(shape=(4,), key=key).tolist()


def test_dropout_in_a_compiled_gradient() -> None:
    def loss(x: Any) -> Any:
        return (x * mx.random.bernoulli(0.5, x.shape)).sum()

    step = mx.compile(mx.value_and_grad(loss))
    x = mx.ones((50,))
    masks = []
    for _ in range(3):
        value, gradient = step(x)
        assert value.item() == gradient.sum().item()
        masks.append(str(gradient.tolist()))
    assert len(set(masks)) == 3
