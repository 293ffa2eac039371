"""Every activation function and its layer against the real ones: values, dtypes, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.nn.both import BOTH, INGOT, Case, assert_same, flat, run_layer

import ingot.core as mx
import ingot.nn as nn

# Kinks, thresholds and values that overflow exp are among them.
POINTS = np.array(
    [[-120, -6, -3, -1.5, -1, -0.5, -0.2, 0], [0.1, 0.5, 0.7, 1, 2.5, 3, 6, 95]], dtype=np.float32
)
FUNCTIONS = [
    ("celu", {}),
    ("celu", {"alpha": 0.7}),
    ("elu", {}),
    ("elu", {"alpha": 0.7}),
    ("gelu", {}),
    ("gelu_approx", {}),
    ("gelu_fast_approx", {}),
    ("glu", {}),
    ("glu", {"axis": 0}),
    ("hard_shrink", {}),
    ("hard_shrink", {"lambd": 1.0}),
    ("hard_tanh", {}),
    ("hard_tanh", {"min_val": -2.0, "max_val": 0.5}),
    ("hardswish", {}),
    ("leaky_relu", {}),
    ("leaky_relu", {"negative_slope": 0.3}),
    ("log_sigmoid", {}),
    ("log_softmax", {}),
    ("log_softmax", {"axis": 0}),
    ("mish", {}),
    ("relu", {}),
    ("relu2", {}),
    ("relu6", {}),
    ("selu", {}),
    ("sigmoid", {}),
    ("silu", {}),
    ("softmax", {}),
    ("softmax", {"axis": 0}),
    ("softmin", {}),
    ("softplus", {}),
    ("softshrink", {}),
    ("softshrink", {"lambd": 1.0}),
    ("softsign", {}),
    ("step", {}),
    ("step", {"threshold": 0.5}),
    ("tanh", {}),
]
LAYERS = [
    lambda nn: nn.CELU(0.7),
    lambda nn: nn.ELU(0.7),
    lambda nn: nn.GELU(),
    lambda nn: nn.GELU("precise"),
    lambda nn: nn.GELU("tanh"),
    lambda nn: nn.GELU(approx="fast"),
    lambda nn: nn.GLU(0),
    lambda nn: nn.HardShrink(0.3),
    lambda nn: nn.HardTanh(),
    lambda nn: nn.Hardswish(),
    lambda nn: nn.LeakyReLU(0.2),
    lambda nn: nn.LogSigmoid(),
    lambda nn: nn.LogSoftmax(),
    lambda nn: nn.Mish(),
    lambda nn: nn.ReLU(),
    lambda nn: nn.ReLU2(),
    lambda nn: nn.ReLU6(),
    lambda nn: nn.SELU(),
    lambda nn: nn.Sigmoid(),
    lambda nn: nn.SiLU(),
    lambda nn: nn.Softmax(),
    lambda nn: nn.Softmin(),
    lambda nn: nn.Softplus(),
    lambda nn: nn.Softshrink(0.3),
    lambda nn: nn.Softsign(),
    lambda nn: nn.Step(0.5),
    lambda nn: nn.Tanh(),
]


@pytest.mark.parametrize(("name", "options"), FUNCTIONS)
def test_function_equals_mlx(name: str, options: dict[str, Any]) -> None:
    results = []
    for library in BOTH:
        function = getattr(library.nn, name)
        x = library.mx.array(POINTS)
        ramp = library.mx.arange(1.0, 17.0).reshape(2, 8)

        def loss(x: Any, function: Any = function, ramp: Any = ramp) -> Any:
            y = function(x, **options)
            return (y * ramp[: y.shape[0], : y.shape[1]]).sum()

        results.append(flat(library, [function(x, **options), library.mx.grad(loss)(x)]))
    assert_same(*results, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "int32"])
@pytest.mark.parametrize("name", sorted({name for name, _ in FUNCTIONS}))
def test_dtype_equals_mlx(name: str, dtype: str) -> None:
    ours, theirs = (
        flat(
            library,
            [
                getattr(library.nn, name)(
                    library.mx.array([[-2, 0, 1, 3]]).astype(getattr(library.mx, dtype))
                )
            ],
        )
        for library in BOTH
    )
    assert_same(ours, theirs, rtol=3e-3, atol=1e-3)


@pytest.mark.parametrize("make", LAYERS, ids=lambda make: type(make(nn)).__name__)
def test_layer_equals_mlx(make: Any) -> None:
    ours, theirs = (run_layer(library, Case("", make, [POINTS]), [POINTS]) for library in BOTH)
    assert ours["text"] == theirs["text"]
    assert_same(ours["outputs"], theirs["outputs"], 1e-5, 1e-6)
    assert_same(ours["gradients"], theirs["gradients"], 1e-5, 1e-6)


def test_prelu_equals_mlx() -> None:
    ours, theirs = (
        flat(library, [library.nn.prelu(library.mx.array(POINTS), library.mx.array([0.3]))])
        for library in BOTH
    )
    assert_same(ours, theirs, 1e-6, 0)


@pytest.mark.parametrize("name", ["gelu", "mish", "log_softmax", "softshrink", "selu"])
def test_compiled_equals_plain(name: str) -> None:
    function = getattr(nn, name)
    x = mx.array(POINTS)
    assert_same(
        flat(INGOT, [mx.compile(function)(x)]), flat(INGOT, [function(x)]), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("dtype", ["bool_", "uint8", "int8", "int32", "uint64"])
def test_log_softmax_of_integers(dtype: str) -> None:
    """MLX is no oracle here: it subtracts in unsigned integers."""
    x = mx.array([[3, 1, 2], [0, 2, 1]]).astype(getattr(mx, dtype))
    exact = np.array(x).astype(float)
    expected = exact - np.log(np.exp(exact).sum(0, keepdims=True))
    found = nn.log_softmax(x, axis=0)
    assert found.dtype == mx.float32
    np.testing.assert_allclose(np.array(found), expected, rtol=1e-6)
