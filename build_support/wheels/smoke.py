"""What a wheel must do in a clean environment: a program of each kind, checked against NumPy."""

import sys

import numpy as np

import ingot
import ingot.core as mx
from ingot import nn, optimizers, search


def check_compile() -> None:
    """A fused function, its gradient, and a function of rows."""
    x = np.linspace(-3, 3, 1001, dtype=np.float32)
    y = mx.compile(lambda x: x * mx.sigmoid(x) + mx.tanh(x))(mx.array(x))
    np.testing.assert_allclose(y, x / (1 + np.exp(-x)) + np.tanh(x), rtol=1e-4, atol=1e-6)
    slope = mx.compile(mx.grad(lambda x: mx.sum(mx.sin(x))))(mx.array(x))
    np.testing.assert_allclose(slope, np.cos(x), rtol=1e-4, atol=1e-6)
    rows = np.random.default_rng(0).standard_normal((7, 33)).astype(np.float32)
    shares = np.exp(rows) / np.exp(rows).sum(-1, keepdims=True)
    softmax = mx.compile(lambda x: mx.softmax(x, axis=-1))
    np.testing.assert_allclose(softmax(mx.array(rows)), shares, rtol=1e-4)


def check_products() -> None:
    """Products, a convolution and a decomposition."""
    a, b = np.random.default_rng(1).standard_normal((2, 65, 65)).astype(np.float32)
    product = mx.compile(mx.matmul)
    np.testing.assert_allclose(product(mx.array(a), mx.array(b)), a @ b, rtol=1e-3, atol=1e-4)
    ones = mx.conv2d(mx.ones((1, 9, 9, 3)), mx.ones((4, 3, 3, 3)))
    np.testing.assert_allclose(ones, np.full((1, 7, 7, 4), 27.0))
    q, r = mx.linalg.qr(mx.array(a), stream=mx.cpu)
    np.testing.assert_allclose(q @ r, a, rtol=1e-3, atol=1e-4)


def check_training() -> None:
    """A perceptron learns exclusive or."""
    mx.random.seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    x = mx.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = mx.array([[0.0], [1.0], [1.0], [0.0]])
    optimizer = optimizers.Adam(0.05)
    loss_and_gradients = nn.value_and_grad(model, lambda m: nn.losses.mse_loss(m(x), y))
    for _ in range(200):
        _, gradients = loss_and_gradients(model)
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state)
    assert float(mx.abs(model(x) - y).max()) < 0.1


def check_search() -> None:
    """The nearest of its own vectors is itself."""
    vectors = np.random.default_rng(2).standard_normal((200, 8)).astype(np.float32)
    index = search.FlatIndex(8)
    index.add(vectors)
    assert index.search(vectors[:5], 1)[1].reshape(-1).tolist() == [0, 1, 2, 3, 4]


if __name__ == "__main__":
    for check in (check_compile, check_products, check_training, check_search):
        check()
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"ingot {ingot.__version__} on CPython {version}: right")
