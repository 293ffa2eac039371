"""Functions without shapes: one file for all lengths, with the results of the function itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mlx
import mlx.nn as mlx_nn
import numpy as np
import pytest

import ingot.core as mx
import ingot.nn as nn

Shapes = list[tuple[int, ...]]

FUNCTIONS: dict[str, tuple[Callable[..., Any], Shapes, Shapes]] = {
    "sum of two": (lambda mx, x, y: x + y, [(2, 3), (3,)], [(5, 7), (7,)]),
    "mean": (lambda mx, x: x.mean() + x.var(1), [(2, 3)], [(5, 7)]),
    "softmax": (lambda mx, x: mx.softmax(x, -1), [(2, 3)], [(5, 7)]),
    "logsumexp": (lambda mx, x: mx.logsumexp(x, -1), [(2, 3)], [(5, 7)]),
    "flatten": (lambda mx, x: x.flatten() * 2, [(2, 3)], [(5, 7)]),
    "outer": (lambda mx, x: x[:, None, :] * x[None], [(2, 3)], [(5, 7)]),
    "ones": (lambda mx, x: mx.ones_like(x) + x, [(2, 3)], [(5, 7)]),
    "concatenate": (lambda mx, x, y: mx.concatenate([x, y]), [(2, 3), (4, 3)], [(5, 7), (1, 7)]),
    "gradient": (
        lambda mx, x: mx.grad(lambda x: (mx.softmax(x, -1) * x).sum())(x),
        [(2, 3)],
        [(5, 7)],
    ),
    "matmul": (lambda mx, x, y: x @ y, [(2, 3, 4), (2, 4, 5)], [(3, 5, 7), (3, 7, 1)]),
    "matrix": (lambda mx, x, y: x @ y, [(2, 3, 4), (4, 5)], [(3, 5, 7), (7, 1)]),
    "sort": (lambda mx, x: mx.sort(x, 0), [(2, 5, 4)], [(5, 9, 4)]),
    "take along": (
        lambda mx, x: mx.take_along_axis(x, mx.array([[1, 0]]), 1),
        [(2, 3)],
        [(5, 7)],
    ),
}
# What MLX fixes to the example's lengths, or cannot read without shapes.
OURS: dict[str, tuple[Callable[..., Any], Shapes, Shapes]] = {
    "arange": (lambda mx, x: x * (2 * mx.arange(x.shape[1]) + 1), [(2, 3)], [(5, 7)]),
    "slice": (lambda mx, x: x[1:, :-1], [(3, 3)], [(5, 7)]),
    "backwards": (lambda mx, x: x[::-1], [(3, 3)], [(5, 7)]),
    "number of elements": (lambda mx, x: x * (x.shape[0] * x.shape[1] + 1), [(3, 3)], [(5, 7)]),
}


def arrays(module: Any, shapes: Shapes) -> list[Any]:
    generator = np.random.default_rng(3)
    return [module.array(generator.standard_normal(s).astype(np.float32)) for s in shapes]


def agree(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.array(found[0]), np.array(expected), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_from_mlx(name: str, tmp_path: Path) -> None:
    function, example, others = FUNCTIONS[name]
    file = str(tmp_path / "f.mlxfn")
    mlx.export_function(file, lambda *xs: function(mlx, *xs), *arrays(mlx, example), shapeless=True)
    imported = mx.import_function(file)
    for shapes in (example, others):
        agree(imported(*arrays(mx, shapes)), function(mx, *arrays(mx, shapes)))


@pytest.mark.parametrize("name", [*FUNCTIONS, *OURS])
def test_to_mlx(name: str, tmp_path: Path) -> None:
    function, example, others = {**FUNCTIONS, **OURS}[name]
    file = str(tmp_path / "f.mlxfn")
    mx.export_function(file, lambda *xs: function(mx, *xs), *arrays(mx, example), shapeless=True)
    readers = (mx,) if name in ("slice", "backwards") else (mx, mlx)
    for module in readers:
        imported = module.import_function(file)
        for shapes in (example, others):
            agree(imported(*arrays(module, shapes)), function(mx, *arrays(mx, shapes)))


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(8, 6),
    "perceptron": lambda: nn.Sequential(
        nn.Linear(8, 12), nn.GELU(), nn.LayerNorm(12), nn.Linear(12, 8)
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, tmp_path: Path) -> None:
    layer = LAYERS[name]()
    check_layer(layer, tmp_path)


def test_transformer_block(tmp_path: Path) -> None:
    block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
    check_layer(lambda x: block(x, None), tmp_path)


def check_layer(layer: Callable[[mx.array], mx.array], folder: Path) -> None:
    file = str(folder / "f.mlxfn")
    mx.export_function(file, layer, *arrays(mx, [(2, 3, 8)]), shapeless=True)
    for module in (mx, mlx):
        imported = module.import_function(file)
        # MLX 0.32.4 crashes where a reduced axis has length 1, with files of its own too.
        for shape in ((2, 3, 8), (5, 7, 8), (1, 1, 8))[: 3 if module is mx else 2]:
            agree(imported(*arrays(module, [shape])), layer(*arrays(mx, [shape])))


def test_lengths_that_files_cannot_have() -> None:
    with pytest.raises(ValueError, match=r"Gather depends on input 0.shape\[1\].*each shape"):
        mx.export_function(
            lambda part: None, lambda x: x[mx.array([1, 0])], mx.ones((2, 3)), shapeless=True
        )
    with pytest.raises(ValueError, match="cannot express a reshape"):
        mx.export_function(
            lambda part: None,
            lambda x: x.reshape(x.shape[1], x.shape[0]),
            mx.ones((2, 3)),
            shapeless=True,
        )


def test_gelu_of_mlx(tmp_path: Path) -> None:
    file = str(tmp_path / "f.mlxfn")
    mlx.export_function(file, mlx_nn.gelu, *arrays(mlx, [(2, 3)]), shapeless=True)
    agree(mx.import_function(file)(*arrays(mx, [(4, 5)])), mlx_nn.gelu(*arrays(mlx, [(4, 5)])))
