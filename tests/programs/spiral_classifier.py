"""A classifier of points on three spirals: a module of its own, minibatches, Adam, accuracy."""

import math
from itertools import pairwise

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_flatten


class Classifier(nn.Module):
    def __init__(self, inputs, hidden, classes, depth=2):
        super().__init__()
        sizes = [inputs] + [hidden] * depth + [classes]
        self.layers = [nn.Linear(i, o) for i, o in pairwise(sizes)]

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = nn.gelu(layer(x))
        return self.layers[-1](x)


def spirals(count, classes=3):
    radius = mx.linspace(0.1, 1.0, count)
    points, labels = [], []
    for label in range(classes):
        angle = mx.linspace(0, 4, count) + label * 2 * math.pi / classes
        angle = angle + 0.1 * mx.random.normal((count,))
        points.append(mx.stack([radius * mx.cos(angle), radius * mx.sin(angle)], axis=1))
        labels.append(mx.full((count,), label, dtype=mx.int32))
    return mx.concatenate(points), mx.concatenate(labels)


def batches(size, X, y):
    order = mx.random.permutation(y.size)
    for start in range(0, y.size, size):
        ids = order[start : start + size]
        yield X[ids], y[ids]


def loss_fn(model, X, y):
    return nn.losses.cross_entropy(model(X), y, reduction="mean")


def accuracy(model, X, y):
    return mx.mean(mx.argmax(model(X), axis=1) == y)


mx.random.seed(3)
X, y = spirals(120)
model = Classifier(2, 32, 3)
mx.eval(model.parameters())
print(model)
print("parameters", sum(v.size for _, v in tree_flatten(model.trainable_parameters())))
print("classes", [mx.sum(y == c).item() for c in range(3)], y.dtype)

optimizer = optim.Adam(learning_rate=1e-2)
loss_and_grad = nn.value_and_grad(model, loss_fn)
for epoch in range(12):
    total = 0.0
    for bx, by in batches(60, X, y):
        loss, grads = loss_and_grad(model, bx, by)
        optimizer.update(model, grads)
        mx.eval(model.parameters(), optimizer.state)
        total += loss.item() * by.size
    if epoch % 3 == 0:
        print(f"epoch {epoch:2d} loss {total / y.size:.2f}")
print("steps", optimizer.step.item(), "better than guessing:", accuracy(model, X, y).item() > 0.5)
