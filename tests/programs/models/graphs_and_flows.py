"""A graph network on a small graph, and a normalising flow that learns two moons."""

import math
from itertools import pairwise

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np


class GCNLayer(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=True)

    def __call__(self, x, adjacency):
        return adjacency @ self.linear(x)


class GCN(nn.Module):
    def __init__(self, inputs: int, hidden: int, classes: int, dropout: float = 0.3):
        super().__init__()
        sizes = [inputs, hidden, classes]
        self.gcn_layers = [GCNLayer(a, b) for a, b in pairwise(sizes)]
        self.dropout = nn.Dropout(p=dropout)

    def __call__(self, x, adjacency):
        for layer in self.gcn_layers[:-1]:
            x = self.dropout(nn.relu(layer(x, adjacency)))
        return self.gcn_layers[-1](x, adjacency)


def graph(nodes: int = 24):
    rng = np.random.default_rng(0)
    labels = np.arange(nodes) % 3
    near = labels[:, None] == labels[None, :]
    links = rng.random((nodes, nodes)) < np.where(near, 0.5, 0.05)
    a = np.maximum(links, links.T).astype(np.float32)
    np.fill_diagonal(a, 1)
    d = np.diag(1 / np.sqrt(a.sum(1)))
    features = rng.standard_normal((nodes, 8)).astype(np.float32)
    return mx.array(features), mx.array((d @ a @ d).astype(np.float32)), mx.array(labels)


def train_graph():
    mx.random.seed(0)
    x, adjacency, labels = graph()
    train, test = mx.arange(0, 16), mx.arange(16, 24)
    model = GCN(8, 16, 3)
    optimizer = optim.Adam(learning_rate=0.05)

    def loss_fn(model):
        logits = model(x, adjacency)
        loss = nn.losses.cross_entropy(logits[train], labels[train]).mean()
        decay = sum(mx.sum(layer.linear.weight**2) for layer in model.gcn_layers)
        return loss + 5e-4 * mx.sqrt(decay)

    step = nn.value_and_grad(model, loss_fn)
    for epoch in range(12):
        loss, gradients = step(model)
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state)
        if epoch % 4 == 3:
            print(f"epoch {epoch}: loss {loss.item():.3f}")
    model.eval()
    predicted = mx.argmax(model(x, adjacency)[test], axis=1)
    print("right", mx.sum(predicted == labels[test]).item(), "of", test.size)


class MLP(nn.Module):
    def __init__(self, layers: int, inputs: int, hidden: int, outputs: int):
        super().__init__()
        sizes = [inputs] + [hidden] * layers + [outputs]
        self.layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = nn.gelu(layer(x))
        return self.layers[-1](x)


class RealNVP(nn.Module):
    def __init__(self, transforms: int, dims: int, hidden: int):
        super().__init__()
        masks = [mx.arange(dims) % 2 == i % 2 for i in range(transforms)]
        self.mask_list = masks
        self.mlp_list = [MLP(2, dims, hidden, 2 * dims) for _ in range(transforms)]
        self.freeze(keys=["mask_list"], recurse=False)

    def log_prob(self, x):
        total = mx.zeros(x.shape[0])
        for mask, mlp in zip(self.mask_list, self.mlp_list, strict=True):
            s, t = mx.split(mlp(mx.where(mask, x, 0.0)), 2, axis=-1)
            s = mx.tanh(s)
            x = mx.where(mask, x, x * mx.exp(s) + t)
            total = total + mx.where(mask, 0.0, s).sum(-1)
        base = -0.5 * (x**2 + math.log(2 * math.pi))
        return base.sum(-1) + total

    def sample(self, count: int, key):
        x = mx.random.normal((count, 2), key=key)
        for mask, mlp in zip(self.mask_list[::-1], self.mlp_list[::-1], strict=True):
            s, t = mx.split(mlp(mx.where(mask, x, 0.0)), 2, axis=-1)
            x = mx.where(mask, x, (x - t) * mx.exp(-mx.tanh(s)))
        return x


def moons(count: int) -> mx.array:
    rng = np.random.default_rng(5)
    angle = rng.uniform(0, np.pi, count)
    upper = rng.integers(0, 2, count)
    x = np.where(upper, np.cos(angle), 1 - np.cos(angle))
    y = np.where(upper, np.sin(angle), 0.5 - np.sin(angle))
    return mx.array(np.stack([x, y], 1) + 0.05 * rng.standard_normal((count, 2)), mx.float32)


def train_flow():
    mx.random.seed(9)
    data = moons(256)
    data = (data - data.mean(0)) / mx.std(data, axis=0)
    model = RealNVP(4, 2, 16)
    optimizer = optim.RMSprop(learning_rate=2e-3)

    def loss_fn(model, x):
        return -model.log_prob(x).mean()

    step = nn.value_and_grad(model, loss_fn)
    for number in range(8):
        loss, gradients = step(model, data)
        optimizer.update(model, gradients)
        mx.eval(model.parameters())
        if number % 2:
            print(f"flow {number}: loss {loss.item():.3f}")
    samples = model.sample(100, mx.random.key(1))
    print("samples", samples.shape, f"{samples.mean().item():.2f} {samples.std().item():.2f}")
    jacobian = mx.vmap(lambda v: mx.vjp(lambda p: model.log_prob(p), [data[:4]], [v])[1][0])(
        mx.eye(4)
    )
    print("jacobian", jacobian.shape, f"{mx.abs(jacobian).mean().item():.3f}")


train_graph()
train_flow()
