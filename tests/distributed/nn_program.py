"""Run by test_nn.py as several ranks: sharded layers against the whole layers of the real MLX, and
training on the shares of a batch against training on the whole batch in one process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import mlx.core as mlx
import numpy as np
from tests.distributed.checks import RANK, SIZE, WORLD, run

import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optimizers
from ingot.nn.layers.distributed import shard_inplace, shard_linear
from ingot.utils import tree_flatten

RNG = np.random.default_rng(0)  # the same numbers on all ranks


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def bounds(length: int) -> tuple[int, int]:
    """Of this rank's shard, as np.array_split cuts."""
    parts = np.array_split(np.arange(length), SIZE)[RANK]
    return (int(parts[0]), int(parts[-1]) + 1) if len(parts) else (0, 0)


def near(found: Any, wanted: Any, tolerance: float = 1e-4) -> None:
    np.testing.assert_allclose(np.array(found), np.array(wanted), tolerance, tolerance)


def _mlp(hidden: int) -> tuple[list[np.ndarray], np.ndarray]:
    sizes = [(hidden, 6), (hidden,), (4, hidden), (4,)]
    return [numbers(*size) for size in sizes], numbers(5, 6)


def tensor_parallel() -> None:
    """Outputs sharded, then inputs sharded; an odd number of hidden units too."""
    for hidden in (8 * SIZE, 8 * SIZE + 1):
        (w1, b1, w2, b2), x = _mlp(hidden)

        def reference(w: Any, x: Any) -> Any:
            h = mlx.maximum(x @ w[0].T + w[1], 0)
            return (mlx.square(h @ w[2].T + w[3])).sum()

        whole = [mlx.array(part) for part in (w1, b1, w2, b2)]
        wanted, (by_weights, by_x) = mlx.value_and_grad(reference, argnums=(0, 1))(
            whole, mlx.array(x)
        )
        first, second = nn.Linear(6, hidden), nn.Linear(hidden, 4)
        first.update({"weight": mx.array(w1), "bias": mx.array(b1)})
        second.update({"weight": mx.array(w2), "bias": mx.array(b2)})
        model = nn.Sequential(
            shard_linear(first, "all-to-sharded"), nn.ReLU(), shard_linear(second, "sharded-to-all")
        )
        begin, end = bounds(hidden)
        assert model.layers[0].weight.shape == (end - begin, 6)
        assert model.layers[2].weight.shape == (4, end - begin)
        assert f"output_dims={hidden}" in repr(model)

        def loss(parameters: Any, x: mx.array, model: nn.Module = model) -> mx.array:
            model.update(parameters)
            return mx.square(model(x)).sum()

        plain = mx.value_and_grad(loss, argnums=(0, 1))
        state = [model.state]
        for function in (plain, mx.compile(plain, inputs=state, outputs=state)):
            value, (gradients, along_x) = function(model.parameters(), mx.array(x))
            near(value, wanted)
            near(along_x, by_x, 1e-3)
            inner, _, outer = gradients["layers"]
            near(inner["weight"], np.array(by_weights[0])[begin:end], 1e-3)
            near(inner["bias"], np.array(by_weights[1])[begin:end], 1e-3)
            near(outer["weight"], np.array(by_weights[2])[:, begin:end], 1e-3)
            near(outer["bias"], by_weights[3], 1e-3)


def quantised() -> None:
    for inputs in (64 * SIZE, 64 * (SIZE + 1)):
        x = numbers(3, inputs)
        weight = numbers(10, inputs)
        parts = mlx.quantize(mlx.array(weight), 32, 4)
        wanted = mlx.quantized_matmul(mlx.array(x), *parts, True, 32, 4)
        layer = nn.Linear(inputs, 10, bias=False)
        layer.update({"weight": mx.array(weight)})
        small = nn.QuantizedLinear.from_linear(layer, 32, 4)
        rows = shard_linear(small, "all-to-sharded")
        begin, end = bounds(10)
        near(rows(mx.array(x)), np.array(wanted)[:, begin:end], 1e-3)
        columns = shard_linear(small, "sharded-to-all")
        begin, end = (32 * place for place in bounds(inputs // 32))
        near(columns(mx.array(x[:, begin:end])), wanted, 1e-3)
        assert f"input_dims={inputs}" in repr(columns)
        assert nn.QuantizedShardedToAllLinear(inputs, 8, group_size=32).scales.shape == (
            8,
            (end - begin) // 32,
        )


def stacked_matrices() -> None:
    """A fused projection of queries, keys and values is cut by each of the three."""
    weight = numbers(3 * 4 * SIZE, 5)
    for segments in (3, [4 * SIZE, 8 * SIZE], [1 / 3 + 1e-6, 2 / 3 + 1e-6]):
        layer = nn.Linear(5, 3 * 4 * SIZE, bias=False)
        layer.update({"weight": mx.array(weight)})
        shard_inplace(layer, "all-to-sharded", segments=segments)
        wanted = weight.reshape(3, SIZE, 4, 5)[:, RANK].reshape(12, 5)
        near(layer.weight, wanted)
    layer = nn.Linear(5, 7)
    shard_inplace(layer, lambda path, _: 1 if path == "weight" else None)
    assert layer.weight.shape == (7, bounds(5)[1] - bounds(5)[0])
    assert layer.bias.shape == (7,)


def buckets() -> None:
    arrays = {
        "a": [np.full((3, 2), RANK, np.float32), np.full((5,), 2 * RANK, np.float16)],
        "b": {"c": np.array(RANK, np.float32), "d": np.full((100,), -RANK, np.float32)},
    }
    tree = {
        "a": [mx.array(x) for x in arrays["a"]],
        "b": {name: mx.array(x) for name, x in arrays["b"].items()},  # type: ignore[union-attr]
    }
    mean = (SIZE - 1) / 2
    for size in (0, 16, 100, 1 << 20):
        for average in (nn.average_gradients, mx.compile(nn.average_gradients)):
            found = average(tree, WORLD, size) if size else average(tree, all_reduce_size=0)
            wanted = {"a.0": mean, "a.1": 2 * mean, "b.c": mean, "b.d": -mean}
            for path, x in tree_flatten(found):
                original = dict(tree_flatten(tree))[path]
                assert (x.shape, x.dtype) == (original.shape, original.dtype)
                assert (x == wanted[path]).all(), path
    clipped, norm = nn.utils.clip_grad_norm_sharded({"x": mx.full((2,), 3.0)}, 1.0)
    near(norm, np.sqrt(18 * SIZE))
    near(clipped["x"], 3 / np.sqrt(18 * SIZE))


def _data() -> tuple[np.ndarray, np.ndarray]:
    x = numbers(8 * SIZE, 6)
    return x, np.tanh(x @ numbers(6, 3))


def _model(seed: int) -> nn.Module:
    mx.random.seed(seed)
    return nn.Sequential(nn.Linear(6, 17), nn.Tanh(), nn.Linear(17, 3))


def _trained(
    model: nn.Module, x: np.ndarray, y: np.ndarray, average: Callable[[Any], Any], compiled: bool
) -> list[float]:
    optimizer = optimizers.Adam(0.01)
    state = [model.state, optimizer.state]
    loss = nn.value_and_grad(model, lambda x, y: nn.losses.mse_loss(model(x), y))

    def step(x: mx.array, y: mx.array) -> mx.array:
        value, gradients = loss(x, y)
        optimizer.update(model, average(gradients))
        return value

    run_step = partial(mx.compile, inputs=state, outputs=state)(step) if compiled else step
    losses = []
    for _ in range(5):
        losses.append(run_step(mx.array(x), mx.array(y)).item())
        mx.eval(state)
    return losses


def data_parallel() -> None:
    """Losses and parameters equal those of one process with the whole batch."""
    x, y = _data()
    whole = _model(5)
    wanted = _trained(whole, x, y, lambda gradients: gradients, False)
    share = slice(8 * RANK, 8 * (RANK + 1))
    for compiled in (False, True):
        model = _model(5)
        own = _trained(model, x[share], y[share], nn.average_gradients, compiled)
        mean = mx.distributed.all_sum(mx.array(own)) / SIZE
        near(mean, wanted)
        for (path, found), (_, right) in zip(
            tree_flatten(model.parameters()), tree_flatten(whole.parameters()), strict=True
        ):
            assert mx.allclose(found, right, 1e-3, 1e-4), path


def fully_sharded() -> None:
    """The same with shards of all parameters, of 17 rows and of 3."""
    x, y = _data()
    whole = _model(6)
    wanted = _trained(whole, x, y, lambda gradients: gradients, False)
    share = slice(8 * RANK, 8 * (RANK + 1))
    for compiled in (False, True):
        model = _model(6)
        model.layers[0] = nn.fully_shard(model.layers[0])  # wrappers in a wrapper
        sharded = nn.fully_shard(model)
        begin, end = bounds(17)
        assert model.layers[0].module.weight.shape == (end - begin, 6)
        own = _trained(sharded, x[share], y[share], lambda gradients: gradients, compiled)
        near(mx.distributed.all_sum(mx.array(own)) / SIZE, wanted)
        near(model.layers[0].module.weight, np.array(whole.layers[0].weight)[begin:end], 1e-3)
    cast = nn.fully_shard(nn.Linear(6, 4), compute_dtype=mx.bfloat16)
    assert cast(mx.ones((1, 6), mx.bfloat16)).dtype == mx.bfloat16
    assert nn.fully_shard(cast) is cast


if __name__ == "__main__":
    run(tensor_parallel, quantised, stacked_matrices, buckets, data_parallel, fully_sharded)
