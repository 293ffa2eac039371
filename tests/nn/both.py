"""The same layer in ingot and in MLX: same seed, same parameters, same inputs, compared results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import mlx.core
import mlx.nn
import mlx.utils
import numpy as np

import ingot.core
import ingot.nn
import ingot.nn.utils
import ingot.utils

INGOT = SimpleNamespace(mx=ingot.core, nn=ingot.nn, utils=ingot.utils, nn_utils=ingot.nn.utils)
MLX = SimpleNamespace(mx=mlx.core, nn=mlx.nn, utils=mlx.utils, nn_utils=mlx.nn.utils)
BOTH = (INGOT, MLX)

Library = Any


def numbers(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Uniform float32 numbers."""
    return np.random.uniform(low, high, shape).astype(np.float32)


def flat(library: Library, tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a tree of either library, by path, as NumPy arrays."""
    leaves = library.utils.tree_flatten(tree)
    library.mx.eval([leaf for _, leaf in leaves])
    return {path: np.array(leaf) for path, leaf in leaves}


def assert_same(ours: dict[str, Any], theirs: dict[str, Any], rtol: float, atol: float) -> None:
    """Fails unless both have the same paths, shapes, dtypes and, within rounding, numbers."""
    assert list(ours) == list(theirs)
    for path, value in ours.items():
        expected = theirs[path]
        assert value.shape == expected.shape, path
        assert value.dtype == expected.dtype, path
        np.testing.assert_allclose(value, expected, rtol=rtol, atol=atol, err_msg=path)


@dataclass
class Case:
    """A layer, the shapes of its inputs (or the inputs), and how to make it."""

    name: str
    make: Callable[[Any], Any]  # of the module `nn`
    inputs: Sequence[Any]
    keywords: dict[str, Any] = field(default_factory=dict)
    rtol: float = 2e-5
    atol: float = 2e-6

    def __repr__(self) -> str:
        return self.name

    def arrays(self) -> list[Any]:
        return [numbers(*x) if isinstance(x, tuple) else x for x in self.inputs]


def as_inputs(library: Library, arrays: Sequence[Any]) -> list[Any]:
    """NumPy arrays as the library's; all else as it is."""
    return [library.mx.array(x) if isinstance(x, np.ndarray) else x for x in arrays]


def run_layer(library: Library, case: Case, arrays: Sequence[Any]) -> dict[str, Any]:
    """All that can be compared of a layer: its text, parameters, outputs and gradients."""
    library.mx.random.seed(17)
    model = case.make(library.nn)
    start = flat(library, model.parameters())
    text = repr(model)
    # Parameters that begin at 0 or 1 would hide mistakes.
    rng = np.random.default_rng(5)
    shifted = {
        path: library.mx.array(
            value + rng.uniform(-0.3, 0.3, value.shape).astype(np.float32)
            if value.dtype == np.float32
            else value
        )
        for path, value in start.items()
    }
    model.load_weights(list(shifted.items()))
    inputs = as_inputs(library, arrays)
    outputs = flat(library, {"out": model(*inputs, **case.keywords)})

    followed = [i for i, x in enumerate(arrays) if _is_floating(x)]
    model.load_weights(list(shifted.items()))  # running statistics begin again

    def loss(*arguments: Any) -> Any:
        result = library.utils.tree_flatten({"out": model(*arguments, **case.keywords)})
        total = library.mx.array(0.0)
        for number, (_, leaf) in enumerate(result):
            ramp = library.mx.arange(leaf.size).reshape(leaf.shape) / leaf.size + 0.5 + number
            total = total + (leaf * ramp).sum()
        return total

    gradients: dict[str, Any] = {}
    if followed:
        by_input = library.mx.grad(loss, argnums=followed)(*inputs)
        gradients["inputs"] = by_input
    if library.utils.tree_flatten(model.trainable_parameters()):
        model.load_weights(list(shifted.items()))
        gradients["parameters"] = library.nn.value_and_grad(model, loss)(*inputs)[1]
    return {
        "text": text,
        "start": start,
        "outputs": outputs,
        "gradients": flat(library, gradients),
        "after": flat(library, model.parameters()),
    }


def _is_floating(x: Any) -> bool:
    return isinstance(x, np.ndarray) and np.issubdtype(x.dtype, np.floating)
