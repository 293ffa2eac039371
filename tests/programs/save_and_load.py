"""Weights, arrays and a whole training run go to files and come back."""

import os
import tempfile

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_flatten, tree_unflatten


def make():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def train(model, optimizer, steps):
    def loss_fn(model):
        return nn.losses.smooth_l1_loss(model(x), y)

    loss_and_grad = nn.value_and_grad(model, loss_fn)
    losses = []
    for _ in range(steps):
        loss, grads = loss_and_grad(model)
        optimizer.update(model, grads)
        mx.eval(model.state, optimizer.state)
        losses.append(loss.item())
    return losses


mx.random.seed(1)
x = mx.random.normal((32, 4))
y = mx.stack([x.sum(axis=1), x[:, 0] * x[:, 1]], axis=1)

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "arrays")
    mx.save(path + ".npy", mx.arange(6).reshape(2, 3))
    loaded = mx.load(path + ".npy")
    print("npy", loaded, loaded.dtype)

    mx.savez(path + ".npz", mx.ones(2), named=mx.array([True, False]))
    loaded = mx.load(path + ".npz")
    print("npz", {key: loaded[key].tolist() for key in sorted(loaded)})

    arrays = {
        "half": mx.array([1.5, -2.25], dtype=mx.float16),
        "brain": mx.array([[1, 2], [3, 4]], dtype=mx.bfloat16),
        "counts": mx.array([1, 2, 3], dtype=mx.uint8),
        "empty": mx.zeros((0, 3)),
    }
    mx.save_safetensors(path + ".safetensors", arrays, metadata={"format": "mlx"})
    loaded, metadata = mx.load(path + ".safetensors", return_metadata=True)
    for key in sorted(loaded):
        same = mx.array_equal(loaded[key], arrays[key]).item()
        print("safetensors", key, loaded[key].shape, loaded[key].dtype, same)
    print("metadata", metadata)

    # Train, save in the middle, and train the rest twice: from memory and from the files.
    model, optimizer = make(), optim.Adam(learning_rate=0.02)
    print("losses", [f"{v:.3f}" for v in train(model, optimizer, 5)])
    model.save_weights(os.path.join(folder, "model.safetensors"))
    state = dict(tree_flatten(optimizer.state))
    mx.save_safetensors(os.path.join(folder, "optimizer.safetensors"), state)
    print("names", sorted(mx.load(os.path.join(folder, "model.safetensors"))))
    rest = train(model, optimizer, 5)

    model, optimizer = make(), optim.Adam(learning_rate=0.02)
    model.load_weights(os.path.join(folder, "model.safetensors"))
    state = mx.load(os.path.join(folder, "optimizer.safetensors"))
    optimizer.state = tree_unflatten(list(state.items()))
    again = train(model, optimizer, 5)
    print("resumed", [f"{v:.3f}" for v in again], "step", optimizer.step.item())
    print("as if never stopped:", rest == again)

    try:
        nn.Linear(4, 9).load_weights(os.path.join(folder, "model.safetensors"))
    except ValueError as error:
        print("other weights are refused:", type(error).__name__)
    try:
        mx.load(os.path.join(folder, "missing.npy"))
    except Exception as error:
        print("no such file:", isinstance(error, (RuntimeError, OSError)))
