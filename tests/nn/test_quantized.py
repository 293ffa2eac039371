"""Models with quantised layers, and layers of a group of one process, against MLX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.nn.both import BOTH, assert_same, flat, numbers

import ingot.core as mx
import ingot.nn as nn
from ingot.nn.layers.distributed import shard_inplace, shard_linear
from ingot.utils import tree_flatten


def small_model(library: Any) -> Any:
    library.mx.random.seed(5)
    nn = library.nn
    return nn.Sequential(
        nn.Embedding(10, 64),
        nn.Sequential(nn.Linear(64, 128), nn.GELU()),
        nn.LayerNorm(128),
        nn.Linear(128, 64, bias=False),
    )


@pytest.mark.parametrize("mode", ["affine", "mxfp4", "mxfp8", "nvfp4"])
def test_quantized_model_equals_mlx(mode: str) -> None:
    results = []
    for library in BOTH:
        model = small_model(library)
        library.nn.quantize(model, mode=mode)
        tokens = library.mx.array([[1, 2, 9], [0, 3, 3]])
        loss = library.nn.value_and_grad(model, lambda x, model=model: model(x).square().sum())
        value, gradients = loss(tokens)
        results.append(
            (
                repr(model),
                flat(library, model.parameters()),
                flat(library, {"out": model(tokens).astype(library.mx.float32), "loss": value}),
                flat(library, gradients),
            )
        )
    (our_text, ours, our_results, our_gradients), theirs = results
    assert our_text == theirs[0]
    assert_same(ours, theirs[1], 0, 0)
    # The small floats are bfloat16, in which MLX also rounds the sums.
    tolerance = 1e-4 if mode == "affine" else 3e-2
    assert_same(our_results, theirs[2], tolerance, tolerance)
    assert our_gradients.keys() == theirs[3].keys()
    for path, gradient in our_gradients.items():
        expected = theirs[3][path]
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=tolerance * abs(expected).max())


def test_predicate_chooses_and_has_options() -> None:
    texts = []
    for library in BOTH:
        model = small_model(library)

        def choose(path: str, layer: Any, nn: Any = library.nn) -> Any:
            if isinstance(layer, nn.Embedding):
                return {"group_size": 32, "bits": 8, "quantize_input": False}
            return path == "layers.3"

        library.nn.quantize(model, 64, 2, class_predicate=choose)
        texts.append(repr(model))
    assert texts[0] == texts[1]
    assert texts[0].count("Quantized") == 2


def test_refused_model_stays_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(60, 64))
    before = repr(model)
    with pytest.raises(ValueError, match="does not divide into groups of 64"):
        nn.quantize(model)
    assert repr(model) == before
    with pytest.raises(ValueError, match=r"layers.1 is a ReLU, which has no method to_quantized"):
        nn.quantize(
            nn.Sequential(nn.Identity(), nn.ReLU()), class_predicate=lambda p, m: p[-1] == "1"
        )
    with pytest.raises(ValueError, match="or a dict of arguments of to_quantized, got 'yes'"):
        nn.quantize(nn.Sequential(nn.Linear(64, 64)), class_predicate=lambda p, m: "yes")  # type: ignore[return-value]
    with pytest.raises(ValueError, match="affine, mxfp4, mxfp8, nvfp4, got 'int4'"):
        nn.QuantizedLinear(64, 64, mode="int4")


def test_quantized_embedding_as_linear_equals_mlx() -> None:
    x = numbers(3, 64)
    results = []
    for library in BOTH:
        library.mx.random.seed(5)
        layer = library.nn.QuantizedEmbedding(12, 64, 32, 5)
        results.append(np.array(layer.as_linear(library.mx.array(x))))
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)


def test_quantized_models_are_saved_and_loaded(tmp_path: Any) -> None:
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2))
    nn.quantize(model, 32, 3)
    model.save_weights(tmp_path / "model.safetensors")
    mx.random.seed(77)
    other = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2))
    nn.quantize(other, 32, 3)
    other.load_weights(tmp_path / "model.safetensors")
    x = mx.array(numbers(4, 64))
    np.testing.assert_array_equal(np.array(model(x)), np.array(other(x)))


@pytest.mark.parametrize("mode", ["nvfp4", "mxfp8"])
def test_layer_that_quantizes_its_inputs(mode: str) -> None:
    texts = []
    for library in BOTH:
        library.mx.random.seed(5)
        layer = library.nn.Linear(64, 32, bias=False).to_quantized(mode=mode, quantize_input=True)
        texts.append([repr(layer), flat(library, layer.parameters())])
        layer.eval()
        texts[-1].append(repr(layer))
        texts[-1].append(flat(library, layer.parameters()))
        layer.train()
        weight = layer.weight.astype(library.mx.float32)
        texts[-1].append(flat(library, {"weight": weight}))
    for one, other in zip(*texts, strict=True):
        if isinstance(one, str):
            assert one == other
        else:
            assert_same(one, other, 0, 0)

    layer = nn.Linear(64, 32, bias=False).to_quantized(mode=mode, quantize_input=True)
    x = mx.array(numbers(3, 64))
    rounded = [
        np.array(mx.dequantize(*mx.quantize(a, mode=mode), mode=mode, dtype=mx.float32))
        for a in (x, layer.weight)
    ]
    training = layer(x)
    np.testing.assert_allclose(np.array(training), rounded[0] @ rounded[1].T, rtol=1e-5, atol=1e-5)
    _, gradients = nn.value_and_grad(layer, lambda x: layer(x).sum())(x)
    expected = np.tile(rounded[0].sum(0), (32, 1))
    np.testing.assert_allclose(np.array(gradients["weight"]), expected, rtol=1e-5, atol=1e-5)
    layer.eval()
    np.testing.assert_allclose(np.array(layer(x)), np.array(training), rtol=1e-5, atol=1e-5)


def test_inputs_are_quantized_without_bias_and_in_few_modes() -> None:
    with pytest.raises(NotImplementedError, match="bias=False"):
        nn.Linear(64, 32).to_quantized(mode="nvfp4", quantize_input=True)
    with pytest.raises(ValueError, match="nvfp4 and mxfp8, got 'affine'"):
        nn.Linear(64, 32, bias=False).to_quantized(quantize_input=True)
    with pytest.raises(ValueError, match="integers"):
        nn.Embedding(4, 64).to_quantized(quantize_input=True)


# A group of one process


def test_group_of_one_process() -> None:
    results = []
    for library in BOTH:
        distributed = library.mx.distributed
        group = distributed.init()
        x = library.mx.array([1.0, 2.0])
        functions = (
            distributed.all_sum,
            distributed.all_max,
            distributed.all_min,
            distributed.all_gather,
            distributed.sum_scatter,
        )
        found = [group.rank(), group.size()]
        for function in functions:
            found += [function(x).tolist(), function(x, group=group).tolist()]
            found.append(function(3).item())
        for kind, call in (
            (ValueError, lambda d=distributed, x=x: d.send(x, 0)),
            (ValueError, lambda d=distributed, m=library.mx: d.recv((2,), m.float32, 0)),
            (ValueError, lambda d=distributed, x=x: d.recv_like(x, 1)),
            (RuntimeError, lambda group=group: group.split(0)),
            (ValueError, lambda d=distributed: d.init(backend="pigeons")),
            (TypeError, lambda d=distributed: d.Group()),
        ):
            with pytest.raises(kind):
                call()
        results.append(found)
    assert results[0] == results[1]


def test_sums_over_a_group_are_arrays_of_their_own() -> None:
    x = mx.array([1.0, 2.0])
    total = mx.distributed.all_sum(x)
    total += 1
    assert x.tolist() == [1, 2]
    assert mx.grad(lambda x: mx.distributed.all_sum(x).sum())(x).tolist() == [1, 1]


@pytest.mark.parametrize("sharding", ["all-to-sharded", "sharded-to-all"])
def test_sharded_layers_of_one_process_equal_mlx(sharding: str) -> None:
    x = numbers(2, 64)
    results = []
    for library in BOTH:
        library.mx.random.seed(5)
        plain = library.nn.Linear(64, 8)
        layers = [plain, library.nn.QuantizedLinear.from_linear(plain, 32, 4)]
        made = []
        for layer in layers:
            sharded = library.nn.layers.distributed.shard_linear(layer, sharding, segments=2)
            sharded.unfreeze()
            made.append(repr(sharded))
            made.append(sorted(dict(library.utils.tree_flatten(sharded.trainable_parameters()))))
            made.append(np.array(sharded(library.mx.array(x))))
        before = flat(library, plain.parameters())
        library.nn.layers.distributed.shard_inplace(plain, lambda path, weight: 0)
        assert_same(flat(library, plain.parameters()), before, 0, 0)
        results.append(made)
    for one, other in zip(*results, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        else:
            assert one == other


def test_sharding_is_checked() -> None:
    layer = nn.Linear(4, 4)
    for call in (lambda: shard_linear(layer, "both"), lambda: shard_inplace(layer, "both")):
        with pytest.raises(ValueError, match="'all-to-sharded' or 'sharded-to-all', got 'both'"):
            call()
    with pytest.raises(ValueError, match="got 'rows' for weight"):
        shard_inplace(layer, lambda path, weight: "rows")


def test_fully_sharded_modules() -> None:
    layer = nn.Linear(4, 4)
    assert nn.fully_shard(layer) is layer
    wrapped = nn.FullyShardedModule(layer, compute_dtype=mx.float16)
    x = mx.ones((2, 4), mx.float16)
    assert wrapped(x).dtype == mx.float16
    assert layer.weight.dtype == mx.float32
    _, gradients = nn.value_and_grad(wrapped, lambda x: wrapped(x).sum())(x)
    assert {path for path, _ in tree_flatten(gradients)} == {"module.weight", "module.bias"}
    assert gradients["module"]["weight"].dtype == mx.float32
    table = nn.FullyShardedModule(nn.Embedding(5, 4))
    assert table.as_linear(mx.ones((1, 4))).shape == (1, 5)
    scalar = nn.PReLU()
    scalar.weight = mx.array(1.0)
    with pytest.raises(ValueError, match="parameter weight is a scalar"):
        nn.FullyShardedModule(scalar)
