"""What MLX promises besides the values of ops: each story is told to both libraries, and what it
returns must be equal.
"""

from __future__ import annotations

import gc
import importlib
import io
import itertools
import math
import random
import re
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import mlx.core
import numpy as np
import pytest

import ingot.core

Story = Callable[[Any], Any]


def _outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:  # the type is what is compared
        return type(error)


def _counted(mx: Any, function: Callable[..., Any], **options: Any) -> tuple[Any, list[int]]:
    """A compiled function, and a list that has one entry for each trace."""
    traces: list[int] = []

    def traced(*args: Any) -> Any:
        traces.append(len(args))
        return function(*args)

    return mx.compile(traced, **options), traces


def vmapped_products_without_shapes(mx: Any) -> Any:
    found = []
    for in_axes, shapes in (
        ((0, 0), [((2, 3, 4), (2, 4, 5)), ((3, 7, 6), (3, 6, 5))]),
        ((0, None), [((2, 3, 4), (4, 5)), ((2, 5, 4), (4, 5)), ((3, 7, 6), (6, 5))]),
        ((None, 0), [((3, 4), (2, 4, 5)), ((3, 6), (5, 6, 5))]),
    ):
        product = mx.vmap(lambda a, b: a @ b, in_axes=in_axes)
        compiled, traces = _counted(mx, product, shapeless=True)
        for a, b in shapes:
            result = compiled(mx.ones(a), mx.ones(b))
            found.append((len(traces), result.shape, result.sum().item()))
    return found


def state_that_gains_and_loses_items(mx: Any) -> Any:
    state = [mx.array(1.0)]

    def step(x: Any) -> Any:
        state[0] = state[0] + x
        return state[0] * len(state)

    compiled, traces = _counted(mx, step, inputs=state, outputs=state)
    found = []
    for count in (1, 1, 2, 3, 2, 1):
        while len(state) < count:
            state.append(mx.array(5.0))
        del state[count:]
        found.append((compiled(mx.array(1.0)).item(), len(traces), [x.item() for x in state]))
    return found


def nested_state_that_changes(mx: Any) -> Any:
    state: dict[str, Any] = {"a": [mx.array(1.0)], "b": {"c": mx.array(2.0)}}

    def step(x: Any) -> Any:
        state["a"][0] = state["a"][0] + x
        state.setdefault("made", x * 0)
        state["made"] = state["made"] + x
        return state["b"]["c"] * x

    compiled, traces = _counted(mx, step, inputs=state, outputs=state)
    found = [compiled(mx.array(3.0)).item(), compiled(mx.array(3.0)).item()]
    state["a"] = [state["a"][0], mx.array(3.0)]
    found.append(compiled(mx.array(1.0)).item())
    state["b"] = {"c": mx.array(4.0), "d": mx.array(2.0)}
    found.append(compiled(mx.array(1.0)).item())
    return found, len(traces), state["made"].item(), state["a"][0].item(), sorted(state)


def compiled_again_after_it_died(mx: Any) -> Any:
    factor, traces = [2.0], []

    def function(x: Any) -> Any:
        traces.append(1)
        return x * factor[0]

    def call(values: list[float]) -> None:
        values.append(mx.compile(function)(mx.array(1.0)).item())

    found: list[float] = []
    compiled = mx.compile(function)
    compiled(mx.array(1.0))
    call(found)  # shares the trace of the first
    del compiled
    gc.collect()
    factor[0] = 3.0
    call(found)
    gc.collect()
    factor[0] = 4.0
    other = threading.Thread(target=call, args=(found,))
    other.start()
    other.join()
    return found, len(traces)


def compiled_nodes_in_drawn_graphs(mx: Any) -> Any:
    drawn = io.StringIO()
    mx.export_to_dot(drawn, mx.compile(lambda x: mx.exp(x) * x + mx.sin(x))(mx.ones((2, 3))))
    (label,) = re.findall(r'label ?= ?"(Compiled\w*)"', drawn.getvalue())
    return label


def _address(x: Any) -> int:
    return int(np.asarray(x, copy=False).__array_interface__["data"][0])


def donated_no_ops_and_files(mx: Any) -> Any:
    """What is loaded, and results that are views of what nothing else refers to."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        numbers = mx.arange(3000, dtype=mx.float32)
        mx.save(f"{folder}/a.npy", numbers)
        mx.savez(f"{folder}/a.npz", a=numbers)
        mx.save_safetensors(f"{folder}/a.safetensors", {"a": numbers})
        mx.save_gguf(f"{folder}/a.gguf", {"a": numbers})
        sources: dict[str, Callable[[], Any]] = {
            "npy": lambda: mx.load(f"{folder}/a.npy"),
            "npz": lambda: mx.load(f"{folder}/a.npz")["a"],
            "safetensors": lambda: mx.load(f"{folder}/a.safetensors")["a"],
            "gguf": lambda: mx.load(f"{folder}/a.gguf")["a"],
            "contiguous": lambda: mx.contiguous(numbers + 1),
            "stop_gradient": lambda: mx.stop_gradient(numbers + 1),
            "reshape": lambda: (numbers + 1).reshape(3, 1000),
            "expand_dims": lambda: mx.expand_dims(numbers + 1, 0),
            "view": lambda: (numbers + 1).view(mx.int32),
            "depends": lambda: mx.depends(numbers + 1, mx.array(1)),
            "shared": lambda: mx.reshape(numbers, (3, 1000)),
        }
        for name, make in sources.items():
            compiled = mx.compile(lambda x: x * x + 3)
            x = make()
            mx.eval(x)
            before, expected = _address(x), np.array(x) * np.array(x) + 3
            y = compiled(x)
            del x
            mx.eval(y)
            found[name] = _address(y) == before, np.array_equal(np.array(y), expected)
        found["kept"] = True, numbers[:3].tolist() == [0, 1, 2]
    return found


def views_updated_in_place(mx: Any) -> Any:
    """A view of all elements may be overwritten only where nothing else refers to them."""
    base = mx.arange(100_000)
    view = base.reshape(100, 1000)
    mx.eval(base, view)
    view[0, 0] = -1
    mx.eval(view)
    seen = np.asarray(view, copy=False)
    view[0, 1] = -2
    mx.eval(view)
    alone = (base + 0).reshape(1000, 100)
    mx.eval(alone)
    flipped = alone.T
    alone[0, 1] = -3
    mx.eval(alone, flipped)
    if mx is ingot.core:
        assert seen[0, :3].tolist() == [-1, 1, 2]  # MLX overwrites what NumPy sees
    shown = base[:3], view[0, :3], alone[0, :3], flipped[:3, 0]
    return [one.tolist() for one in shown]


def donated_inputs(mx: Any) -> Any:
    found = []
    for length in (16, 1000, 100_003):
        compiled = mx.compile(lambda x: mx.sin(x) + 1)
        for _ in range(3):
            x = mx.arange(length, dtype=mx.float32)
            mx.eval(x)
            before = _address(x)
            y = compiled(x)
            del x
            mx.eval(y)
            found.append(_address(y) == before)
    return found


def errors_of_the_background(mx: Any) -> Any:
    def fail() -> None:
        kept = mx.linalg.inv(mx.zeros((2, 2)), stream=mx.cpu)
        mx.async_eval(kept)
        mx.synchronize()

    return _outcome(fail), _outcome(mx.synchronize), (mx.ones(2) + 1).tolist()


def streams_of_other_threads(mx: Any) -> Any:
    made = mx.new_stream(mx.cpu)
    x = mx.ones(3)
    mx.eval(x)
    found: list[Any] = []

    def use() -> None:
        found.append(_outcome(lambda: mx.eval(mx.add(x, 1, stream=made))))
        found.append(_outcome(lambda: mx.synchronize(made)))
        own = mx.new_stream(mx.cpu)
        found.append(mx.add(x, 1, stream=own).tolist())

    other = threading.Thread(target=use)
    other.start()
    other.join()
    local = mx.new_thread_local_stream(mx.cpu)
    return found, mx.add(x, 1, stream=local).tolist()


def limits_of_memory(mx: Any) -> Any:
    first = mx.set_memory_limit(10**9)
    found = [mx.set_memory_limit(2 * 10**9), mx.get_memory_limit(), mx.set_memory_limit(first)]
    limit = mx.set_cache_limit(10**8)
    found += [mx.set_cache_limit(0)]
    mx.eval(mx.zeros((1000, 1000)) + 1)
    found += [mx.get_cache_memory(), mx.set_cache_limit(limit), mx.clear_cache()]
    found += [mx.reset_peak_memory()]
    before = mx.get_active_memory()
    x = mx.zeros((1024, 1024)) + 1.0
    mx.eval(x)
    found.append(mx.get_active_memory() - before)
    del x
    return [*found, mx.get_active_memory() - before]


def padding_by_arrays(mx: Any) -> Any:
    x = mx.arange(6.0).reshape(2, 3)
    values = 2.5, mx.array(2.5), mx.array([2.5]), mx.array([[2, 3], [4, 5]]), mx.array(True)
    found = [mx.pad(x, 1, constant_values=value).tolist() for value in values]
    found.append(mx.pad(x, mx.array(1)).tolist())
    found.append(mx.vmap(lambda x: mx.pad(x, 1, constant_values=mx.array(3.0)))(x).tolist())
    found.append(mx.vmap(lambda x: mx.pad(x, 1), out_axes=(1,))(x).tolist())

    def batched(values: Any) -> Any:
        return mx.vmap(lambda v: mx.pad(x, 1, constant_values=v))(values)

    found.append(_outcome(lambda: batched(mx.array([1.0, 2.0]))))
    padded = mx.grad(lambda v: mx.pad(x, 1, constant_values=v * v).sum())
    return [*found, padded(mx.array(3.0)).item() if mx is ingot.core else 14 * 6.0]


def values_put_along_an_axis(mx: Any) -> Any:
    """Indices and values broadcast against each other, and against the array but for the axis."""
    shapes = [(2, 3), (1, 3), (2, 1), (0, 3), (2, 0)]

    def put(shape: Any, indices: Any, values: Any, axis: int) -> Any:
        a = -1 - mx.arange(math.prod(shape)).reshape(shape)
        where = mx.arange(math.prod(indices)).reshape(indices) % (shape[axis] or 1)
        new = 1 + mx.arange(math.prod(values)).reshape(values)
        return mx.put_along_axis(a, where, new, axis).tolist()

    cases = itertools.product(shapes, shapes, [*shapes, (1, 2, 3), ()], (0, 1))
    return [_outcome(partial(put, *case)) for case in cases]


def weights_in_a_dict(mx: Any) -> Any:
    """What `mx.load` returns may be loaded as it is."""
    nn: Any = importlib.import_module(mx.__name__.replace("core", "nn"))
    model = nn.Linear(2, 1)
    model.load_weights({"weight": mx.array([[1.0, 2.0]]), "bias": mx.array([3.0])})
    model.load_weights({"bias": mx.array([4.0]), "other": mx.array(1)}, strict=False)
    return model(mx.ones((1, 2))).tolist(), _outcome(lambda: model.load_weights({"bias": 1}))


def kinds_of_results(mx: Any) -> Any:
    rows = mx.array([[1, 2], [3, 4]])
    iterator = iter(rows)
    return (
        type(mx.quantize(mx.ones((4, 64)))),
        type(mx.meshgrid(mx.ones(2), mx.ones(2))),
        isinstance(iterator, mx.ArrayIterator),
        next(iterator).tolist(),
        [row.tolist() for row in rows],
    )


STORIES = [
    vmapped_products_without_shapes,
    state_that_gains_and_loses_items,
    nested_state_that_changes,
    compiled_again_after_it_died,
    compiled_nodes_in_drawn_graphs,
    donated_inputs,
    donated_no_ops_and_files,
    views_updated_in_place,
    errors_of_the_background,
    streams_of_other_threads,
    limits_of_memory,
    padding_by_arrays,
    values_put_along_an_axis,
    weights_in_a_dict,
    kinds_of_results,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_story(story: Story) -> None:
    ours = story(ingot.core)
    theirs = story(mlx.core)
    assert ours == theirs


# Calls whose exception programs catch, and words of the message that they look for.
ERRORS: dict[str, tuple[str, str]] = {
    "mx.array([[1, 2], [3]])": ("ValueError", "Initialization encountered non-uniform length."),
    "mx.array([[1, 2], 3])": ("ValueError", "Initialization encountered non-uniform length."),
    "nn.init.glorot_uniform()(mx.zeros((3,)))": ("ValueError", "at least 2 dimensional input"),
    "nn.init.he_normal()(mx.zeros(()))": ("ValueError", "0 dimensions"),
    "nn.init.orthogonal()(mx.zeros((2, 3, 4)))": ("ValueError", "3D array"),
    "nn.init.sparse(0.5)(mx.zeros((3,)))": ("ValueError", "2 dimensions"),
    "optim.RMSprop(0.1, eps=-1.0)": ("ValueError", "epsilon should be >0"),
    "optim.Adagrad(0.1, eps=-1.0)": ("ValueError", "epsilon should be >0"),
    "optim.AdaDelta(0.1, eps=-1.0)": ("ValueError", "epsilon should be >0"),
    "optim.AdaDelta(0.1, rho=-1.0)": ("ValueError", "rho should be >=0"),
    "mx.zeros((2**31,))": ("OverflowError", ""),
    "mx.zeros((2, -2**31 - 1))": ("OverflowError", ""),
    "mx.repeat(mx.arange(3), 2**31 - 1)": ("OverflowError", ""),
    "mx.tile(mx.arange(3), 2**31 - 1)": ("OverflowError", ""),
    "mx.reshape(x, (2**31,))": ("OverflowError", ""),
    "mx.eye(-2**31)": ("ValueError", ""),
    "mx.can_cast(None, mx.float32)": ("TypeError", ""),
    "mx.isdtype(mx.float32, None)": ("TypeError", ""),
    "mx.issubdtype(None, mx.floating)": ("TypeError", ""),
    "mx.savez('/no/such/folder/x', x)": ("FileNotFoundError", "/no/such/folder/x"),
    "mx.put_along_axis(x[:, :0], mx.array([0]), x, 1)": ("ValueError", ""),
    "mx.qqmm(mx.ones((2, 64)), mx.ones((4, 64)), mode='nvfp4', global_scale_x=mx.array(1.0))": (
        "ValueError",
        "global_scale_x and global_scale_w",
    ),
    "mx.broadcast_to(mx.array(1.0), (2**33,))": ("OverflowError", ""),
    "mx.concatenate([mx.zeros((2**31 - 1,)), mx.zeros((10,))])": ("OverflowError", ""),
    "mx.repeat(x, 2**31)": ("TypeError", ""),
    "mx.tile(x, (2**31,))": ("TypeError", ""),
    "mx.eye(2**31)": ("TypeError", ""),
    "mx.sum(x, axis=2**31)": ("TypeError", ""),
    "mx.sum(x, axis=-2**31 - 1)": ("TypeError", ""),
    "mx.expand_dims(x, 2**31)": ("TypeError", ""),
    "mx.take(x, 0, axis=2**31)": ("TypeError", ""),
    "mx.transpose(x, (2**31, 0))": ("TypeError", ""),
    "mx.searchsorted(x, mx.array(1.0))": ("ValueError", ""),
    "mx.searchsorted(mx.array([1.0]), mx.array(1.0), side='middle')": ("ValueError", ""),
    "mx.take_along_axis(x, mx.zeros((0,)), 1)": ("ValueError", ""),
    "mx.fft.fftn(mx.array(1.0), (2, 2), (0, 1))": ("ValueError", ""),
    "mx.fft.ifft2(x, (2, 2), (3, 2, 1))": ("ValueError", ""),
    "mx.slice(mx.array(1), mx.array([0, 1]), (0, 1), (1, 2))": ("ValueError", ""),
    "mx.vmap(lambda x: (mx.async_eval(x * 2), x)[1])(x)": ("ValueError", "[async_eval]"),
    "mx.compile(lambda x: (mx.async_eval(x), x)[1])(x)": ("ValueError", "[async_eval]"),
    "mx.compile(lambda o: x)(Foreign())": ("ValueError", "Foreign"),
    "mx.compile(lambda o: x)([Foreign()])": ("ValueError", "Foreign"),
    "mx.compile(lambda o: x)(o={1, 2})": ("ValueError", "set"),
    "mx.set_memory_limit(-1)": ("TypeError", ""),
    "mx.set_cache_limit(1.5)": ("TypeError", ""),
}


class Foreign:
    """An object that a trace cannot follow."""


@pytest.mark.parametrize("library", ["mlx", "ingot"])
@pytest.mark.parametrize("call", ERRORS)
def test_errors(call: str, library: str) -> None:
    kind, words = ERRORS[call]
    names = {
        "mx": __import__(f"{library}.core").core,
        "nn": __import__(f"{library}.nn").nn,
        "optim": __import__(f"{library}.optimizers").optimizers,
        "Foreign": Foreign,
    }
    names["x"] = names["mx"].ones((2, 3))
    with pytest.raises(Exception, match=re.escape(words) or ".") as caught:
        eval(call, names)
    assert kind in [one.__name__ for one in type(caught.value).__mro__]


@pytest.mark.parametrize("seed", range(40))
def test_paths_of_einsum(seed: int) -> None:
    draw = random.Random(seed)
    letters = "abcdefgh"[: draw.randint(2, 7)]
    sizes = {letter: draw.randint(1, 6) for letter in letters}
    inputs = [draw.sample(letters, draw.randint(1, min(4, len(letters)))) for _ in range(5)]
    used = sorted(set().union(*inputs))
    result = draw.sample(used, draw.randint(0, min(4, len(used))))
    subscripts = ",".join(map("".join, inputs)) + "->" + "".join(result)
    shapes = [[sizes[letter] for letter in one] for one in inputs]
    ours = ingot.core.einsum_path(subscripts, *map(ingot.core.zeros, shapes))
    assert ours == mlx.core.einsum_path(subscripts, *map(mlx.core.zeros, shapes))
