"""Every layer against the real one: text, first parameters, outputs and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.nn.both import (
    BOTH,
    INGOT,
    MLX,
    Case,
    as_inputs,
    assert_same,
    flat,
    numbers,
    run_layer,
)

import ingot.core as mx
import ingot.nn as nn
from ingot.utils import tree_flatten, tree_map

IMAGE = (2, 6, 8, 3)
VOLUME = (2, 4, 6, 4, 3)
TOKENS = np.array([[1, 4, 0], [2, 2, 6]], dtype=np.int32)


def evaluated(make: Any) -> Any:
    """A maker of the layer in evaluation mode."""
    return lambda library: make(library).eval()


CASES = [
    Case("identity", lambda nn: nn.Identity(3, key=4), [(2, 3)]),
    Case("linear", lambda nn: nn.Linear(5, 3), [(2, 4, 5)]),
    Case("linear_vector", lambda nn: nn.Linear(5, 3), [(5,)]),
    Case("linear_no_bias", lambda nn: nn.Linear(5, 3, bias=False), [(4, 5)]),
    Case("bilinear", lambda nn: nn.Bilinear(4, 3, 2), [(5, 4), (5, 3)]),
    Case("bilinear_batch", lambda nn: nn.Bilinear(4, 3, 2, bias=False), [(2, 5, 4), (2, 5, 3)]),
    Case("embedding", lambda nn: nn.Embedding(7, 4), [TOKENS]),
    Case(
        "sequential",
        lambda nn: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2), nn.tanh),
        [(3, 4)],
    ),
    Case("prelu", lambda nn: nn.PReLU(), [(3, 4)]),
    Case("prelu_features", lambda nn: nn.PReLU(4, init=0.1), [(3, 4)]),
    # Quantised
    Case("quantized_linear", lambda nn: nn.QuantizedLinear(64, 5), [(2, 3, 64)], rtol=2e-4),
    Case(
        "quantized_linear_small",
        lambda nn: nn.QuantizedLinear(64, 5, False, 32, 3),
        [(3, 64)],
        rtol=2e-4,
    ),
    Case(
        "quantized_linear_floats",
        lambda nn: nn.QuantizedLinear(64, 5, mode="mxfp8"),
        [(3, 64)],
        rtol=2e-4,
    ),
    Case(
        "quantized_from_linear",
        lambda nn: nn.QuantizedLinear.from_linear(nn.Linear(64, 5), 32, 6),
        [(3, 64)],
        rtol=2e-4,
    ),
    Case("quantized_embedding", lambda nn: nn.QuantizedEmbedding(7, 64), [TOKENS]),
    Case("quantized_by_method", lambda nn: nn.Embedding(7, 64).to_quantized(32, 8), [TOKENS]),
    # Layers of a group of one process
    Case("all_to_sharded", lambda nn: nn.AllToShardedLinear(5, 3), [(2, 5)]),
    Case("sharded_to_all", lambda nn: nn.ShardedToAllLinear(5, 3, bias=False), [(2, 5)]),
    Case(
        "quantized_all_to_sharded",
        lambda nn: nn.QuantizedAllToShardedLinear(64, 3),
        [(2, 64)],
        rtol=2e-4,
    ),
    Case(
        "quantized_sharded_to_all",
        lambda nn: nn.QuantizedShardedToAllLinear(64, 3, group_size=32),
        [(2, 64)],
        rtol=2e-4,
    ),
    Case(
        "fully_sharded",
        lambda nn: nn.FullyShardedModule(nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3))),
        [(2, 5)],
    ),
    # Normalisation
    Case("layer_norm", lambda nn: nn.LayerNorm(6), [(2, 3, 6)]),
    Case("layer_norm_plain", lambda nn: nn.LayerNorm(6, affine=False), [(2, 6)]),
    Case("layer_norm_no_bias", lambda nn: nn.LayerNorm(6, eps=0.1, bias=False), [(2, 6)]),
    Case("rms_norm", lambda nn: nn.RMSNorm(6), [(2, 3, 6)]),
    Case("instance_norm", lambda nn: nn.InstanceNorm(3), [IMAGE]),
    Case("instance_norm_affine", lambda nn: nn.InstanceNorm(3, affine=True), [(2, 9, 3)]),
    Case("group_norm", lambda nn: nn.GroupNorm(2, 6), [(2, 3, 5, 6)]),
    Case("group_norm_plain", lambda nn: nn.GroupNorm(3, 6, affine=False), [(4, 6)]),
    Case(
        "group_norm_pytorch",
        lambda nn: nn.GroupNorm(2, 6, pytorch_compatible=True),
        [(2, 3, 5, 6)],
    ),
    Case("batch_norm", lambda nn: nn.BatchNorm(3), [(5, 3)]),
    Case("batch_norm_image", lambda nn: nn.BatchNorm(3, momentum=0.3), [IMAGE]),
    Case("batch_norm_plain", lambda nn: nn.BatchNorm(3, affine=False), [(2, 5, 3)]),
    Case("batch_norm_eval", evaluated(lambda nn: nn.BatchNorm(3)), [(5, 3)]),
    Case(
        "batch_norm_untracked",
        evaluated(lambda nn: nn.BatchNorm(3, track_running_stats=False)),
        [(5, 3)],
    ),
    # Dropout: the same random numbers
    Case("dropout", lambda nn: nn.Dropout(0.3), [(50, 7)]),
    Case("dropout_none", lambda nn: nn.Dropout(0.0), [(5, 7)]),
    Case("dropout_eval", evaluated(lambda nn: nn.Dropout(0.3)), [(5, 7)]),
    Case("dropout2d", lambda nn: nn.Dropout2d(0.5), [(3, 4, 5, 6)]),
    Case("dropout2d_single", lambda nn: nn.Dropout2d(), [(4, 5, 6)]),
    Case("dropout3d", lambda nn: nn.Dropout3d(0.5), [(3, 2, 4, 5, 6)]),
    Case("dropout3d_single", lambda nn: nn.Dropout3d(), [(2, 4, 5, 6)]),
    # Pooling
    Case("max_pool1d", lambda nn: nn.MaxPool1d(2), [(2, 8, 3)]),
    Case("max_pool1d_overlapping", lambda nn: nn.MaxPool1d(3, stride=2, padding=1), [(2, 8, 3)]),
    Case("avg_pool1d", lambda nn: nn.AvgPool1d(3, 1, 1), [(2, 8, 3)]),
    Case("max_pool2d", lambda nn: nn.MaxPool2d((2, 4)), [IMAGE]),
    Case("max_pool2d_overlapping", lambda nn: nn.MaxPool2d(3, (2, 1), (1, 0)), [IMAGE]),
    Case("max_pool2d_ragged", lambda nn: nn.MaxPool2d(4), [IMAGE]),
    Case("avg_pool2d", lambda nn: nn.AvgPool2d(2), [IMAGE]),
    Case("avg_pool2d_overlapping", lambda nn: nn.AvgPool2d([3, 2], 2, padding=1), [IMAGE]),
    Case("max_pool3d", lambda nn: nn.MaxPool3d(2), [VOLUME]),
    Case("max_pool3d_overlapping", lambda nn: nn.MaxPool3d(2, 1, (1, 0, 1)), [VOLUME]),
    Case("avg_pool3d", lambda nn: nn.AvgPool3d((2, 3, 2), padding=1), [VOLUME]),
    # Resizing
    Case("upsample_nearest", lambda nn: nn.Upsample(2), [IMAGE]),
    Case("upsample_nearest_axes", lambda nn: nn.Upsample((2.0, 1.5)), [IMAGE]),
    Case("upsample_nearest_down", lambda nn: nn.Upsample(0.5), [IMAGE]),
    Case("upsample_linear", lambda nn: nn.Upsample(1.7, mode="linear"), [IMAGE]),
    Case("upsample_linear_signal", lambda nn: nn.Upsample(3, mode="linear"), [(2, 5, 3)]),
    Case("upsample_linear_volume", lambda nn: nn.Upsample(2, mode="linear"), [VOLUME]),
    Case(
        "upsample_linear_corners",
        lambda nn: nn.Upsample((2, 3), mode="linear", align_corners=True),
        [IMAGE],
    ),
    Case("upsample_cubic", lambda nn: nn.Upsample(2.5, mode="cubic"), [IMAGE]),
    Case(
        "upsample_cubic_corners",
        lambda nn: nn.Upsample(2, mode="cubic", align_corners=True),
        [IMAGE],
    ),
    Case("upsample_cubic_down", lambda nn: nn.Upsample(0.5, mode="cubic"), [IMAGE]),
    Case(
        "upsample_linear_antialias",
        lambda nn: nn.Upsample(0.4, mode="linear", antialias=True),
        [(2, 11, 9, 3)],
    ),
    Case(
        "upsample_cubic_antialias",
        lambda nn: nn.Upsample((0.5, 2.0), mode="cubic", antialias=True),
        [IMAGE],
    ),
    # Sequences
    Case("rnn", lambda nn: nn.RNN(4, 5), [(2, 6, 4)]),
    Case("rnn_unbatched", lambda nn: nn.RNN(4, 5, bias=False), [(6, 4)]),
    Case("rnn_hidden", lambda nn: nn.RNN(4, 5), [(2, 6, 4), (2, 5)]),
    Case("gru", lambda nn: nn.GRU(4, 5), [(2, 6, 4)]),
    Case("gru_no_bias", lambda nn: nn.GRU(4, 5, bias=False), [(6, 4)]),
    Case("gru_hidden", lambda nn: nn.GRU(4, 5), [(2, 6, 4), (2, 5)]),
    Case("lstm", lambda nn: nn.LSTM(4, 5), [(2, 6, 4)]),
    Case("lstm_no_bias", lambda nn: nn.LSTM(4, 5, bias=False), [(6, 4)]),
    Case("lstm_hidden", lambda nn: nn.LSTM(4, 5), [(2, 6, 4), (2, 5), (2, 5)]),
    Case("lstm_one_cell", lambda nn: nn.LSTM(4, 5), [(2, 6, 4), (2, 5), (5,)]),
    Case("lstm_states_of_a_batch", lambda nn: nn.LSTM(4, 5), [(6, 4), (3, 5), (5,)]),
    Case("gru_one_state", lambda nn: nn.GRU(4, 5), [(2, 6, 4), (5,)]),
    # Positions
    Case("rope", lambda nn: nn.RoPE(8), [(2, 3, 5, 8)]),
    Case("rope_traditional", lambda nn: nn.RoPE(6, traditional=True), [(2, 5, 8)]),
    Case("rope_offset", lambda nn: nn.RoPE(4, base=100.0, scale=0.5), [(2, 5, 8), 7]),
    Case("sinusoidal", lambda nn: nn.SinusoidalPositionalEncoding(6), [(4, 3)]),
    Case("sinusoidal_pair", lambda nn: nn.SinusoidalPositionalEncoding(2, scale=1), [(4,)]),
    Case(
        "sinusoidal_turns",
        lambda nn: nn.SinusoidalPositionalEncoding(6, cos_first=True, full_turns=True),
        [(4, 3)],
        atol=1e-5,
    ),
    Case("alibi", lambda nn: nn.ALiBi(), [(2, 4, 5, 6)]),
    Case("alibi_six_heads", lambda nn: nn.ALiBi(), [(2, 6, 5, 9), 4, numbers(5, 9)]),
    # Attention
    Case("attention", lambda nn: nn.MultiHeadAttention(8, 2), [(2, 5, 8), (2, 6, 8), (2, 6, 8)]),
    Case(
        "attention_dims",
        lambda nn: nn.MultiHeadAttention(8, 4, 5, 6, 7, 12, 3, bias=True),
        [(2, 5, 5), (2, 4, 6), (2, 4, 7)],
    ),
    Case(
        "attention_mask",
        lambda nn: nn.MultiHeadAttention(8, 2),
        [(2, 5, 8), (2, 6, 8), (2, 6, 8), numbers(5, 6)],
    ),
    Case(
        "attention_seen",
        lambda nn: nn.MultiHeadAttention(8, 2),
        [(2, 5, 8), (2, 5, 8), (2, 5, 8), np.tri(5) > 0],
    ),
    Case(
        "attention_causal",
        lambda nn: nn.MultiHeadAttention(8, 2),
        [(2, 5, 8), (2, 5, 8), (2, 5, 8), "causal"],
    ),
    Case("encoder_layer", lambda nn: nn.TransformerEncoderLayer(8, 2), [(2, 5, 8), None]),
    Case(
        "encoder_layer_norm_last",
        lambda nn: nn.TransformerEncoderLayer(8, 2, 12, 0.2, nn.gelu, norm_first=False),
        [(2, 5, 8), None],
    ),
    Case("encoder", lambda nn: nn.TransformerEncoder(2, 8, 2), [(2, 5, 8), None]),
    Case(
        "encoder_checkpoint",
        lambda nn: nn.TransformerEncoder(2, 8, 2, checkpoint=True),
        [(2, 5, 8), None],
    ),
    Case(
        "decoder_layer",
        lambda nn: nn.TransformerDecoderLayer(8, 2),
        [(2, 5, 8), (2, 4, 8), None, None],
    ),
    Case(
        "decoder_layer_norm_last",
        lambda nn: nn.TransformerDecoderLayer(8, 2, 12, 0.2, nn.gelu, norm_first=False),
        [(2, 5, 8), (2, 4, 8), None, None],
    ),
    Case(
        "decoder_checkpoint",
        lambda nn: nn.TransformerDecoder(1, 8, 2, checkpoint=True),
        [(2, 5, 8), (2, 4, 8), None, None],
    ),
    Case(
        "transformer",
        lambda nn: nn.Transformer(8, 2, 1, 1, dropout=0.1),
        [(2, 4, 8), (2, 5, 8), None, numbers(5, 5), None],
        rtol=1e-4,
        atol=1e-5,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_layer_equals_mlx(case: Case) -> None:
    arrays = case.arrays()
    ours = run_layer(INGOT, case, arrays)
    theirs = run_layer(MLX, case, arrays)
    assert _without_addresses(ours["text"]) == _without_addresses(theirs["text"])
    assert_same(ours["start"], theirs["start"], rtol=0, atol=0)
    assert_same(ours["outputs"], theirs["outputs"], case.rtol, case.atol)
    assert_same(ours["gradients"], theirs["gradients"], 5 * case.rtol, 5 * case.atol)
    assert_same(ours["after"], theirs["after"], case.rtol, case.atol)


def _without_addresses(text: str) -> str:
    return text.split(" at 0x")[0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "group_norm", "rope", "attention"])
def test_half_types_equal_mlx(name: str, dtype: str) -> None:
    case = next(case for case in CASES if case.name == name)
    arrays = case.arrays()
    results = []
    for library in BOTH:
        library.mx.random.seed(3)
        model = case.make(library.nn)
        model.set_dtype(getattr(library.mx, dtype))
        inputs = [library.mx.array(x).astype(getattr(library.mx, dtype)) for x in arrays]
        result = model(*inputs)
        assert result.dtype == getattr(library.mx, dtype)
        results.append(np.array(result.astype(library.mx.float32)))
    tolerance = 4e-3 if dtype == "float16" else 3e-2
    np.testing.assert_allclose(*results, rtol=tolerance, atol=tolerance)


def test_rope_takes_an_offset_for_each_example() -> None:
    x = numbers(2, 3, 5, 8)
    ours, theirs = (
        flat(library, [library.nn.RoPE(8)(library.mx.array(x), library.mx.array([4, 9]))])
        for library in BOTH
    )
    assert_same(ours, theirs, 1e-5, 1e-5)


def test_embedding_as_linear() -> None:
    layer = nn.Embedding(5, 3)
    x = mx.array(numbers(2, 3))
    np.testing.assert_allclose(
        np.array(layer.as_linear(x)), np.array(x) @ np.array(layer.weight).T, rtol=1e-6
    )


@pytest.mark.parametrize("length", [1, 5])
def test_causal_mask_equals_mlx(length: int) -> None:
    ours, theirs = (
        flat(library, [library.nn.MultiHeadAttention.create_additive_causal_mask(length)])
        for library in BOTH
    )
    assert_same(ours, theirs, 0, 0)


def test_batch_norm_statistics_are_always_frozen() -> None:
    model = nn.Sequential(nn.BatchNorm(3))
    model.freeze()
    assert not tree_flatten(model.trainable_parameters())
    model.unfreeze()
    assert set(model.trainable_parameters()["layers"][0]) == {"weight", "bias"}


def test_layers_compile_with_their_state() -> None:
    model = nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm(8), nn.GELU(), nn.Dropout(0.3), nn.Linear(8, 1)
    )
    x, y = mx.array(numbers(6, 4)), mx.array(numbers(6, 1))

    def loss(x: mx.array, y: mx.array) -> mx.array:
        return nn.losses.mse_loss(model(x), y)

    def step(x: mx.array, y: mx.array) -> mx.array:
        value, gradients = nn.value_and_grad(model, loss)(x, y)
        model.update(tree_map(lambda p, g: p - 0.1 * g, model.trainable_parameters(), gradients))
        return value

    start = model.parameters()
    mx.random.seed(2)
    plain = [step(x, y).item() for _ in range(4)]
    after = flat(INGOT, model.parameters())
    model.update(start)
    mx.random.seed(2)
    compiled = mx.compile(step, inputs=model.state, outputs=model.state)
    assert [compiled(x, y).item() for _ in range(4)] == pytest.approx(plain, rel=1e-5)
    assert_same(flat(INGOT, model.parameters()), after, 1e-4, 1e-6)


COMPILED = [
    *("bilinear", "embedding", "rms_norm", "instance_norm", "group_norm_pytorch", "dropout2d"),
    *("max_pool2d_overlapping", "upsample_linear", "gru", "rope_traditional", "attention_causal"),
]


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_equals_plain(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    model = case.make(nn)
    inputs = as_inputs(INGOT, case.arrays())
    arrays = [x for x in inputs if isinstance(x, mx.array)]

    def outputs_and_gradients(parameters: Any, arrays: list[mx.array]) -> Any:
        given = iter(arrays)
        arguments = [next(given) if isinstance(x, mx.array) else x for x in inputs]
        y = model.apply(parameters, *arguments)
        if not tree_flatten(parameters):
            return y
        return y, mx.grad(lambda p: mx.square(model.apply(p, *arguments)).sum())(parameters)

    results = []
    for function in (outputs_and_gradients, mx.compile(outputs_and_gradients)):
        mx.random.seed(4)
        results.append(flat(INGOT, [function(model.parameters(), arrays)]))
    assert_same(*results, rtol=1e-4, atol=1e-5)


ERRORS = [
    (lambda: nn.Dropout(1.0), r"\[Dropout\] p must be a probability below 1, got 1.0"),
    (lambda: nn.Dropout2d(-0.1), r"\[Dropout2d\] p must be a probability"),
    (lambda: nn.Dropout2d()(mx.zeros((2, 3))), r"3 or 4 dimensions, got shape \(2, 3\)"),
    (lambda: nn.Dropout3d()(mx.zeros((2, 3))), r"4 or 5 dimensions, got shape \(2, 3\)"),
    (lambda: nn.GELU("exact"), r"\[GELU\] approx must be one of none, precise, tanh, fast"),
    (lambda: nn.LayerNorm(3, eps=0), r"\[LayerNorm\] eps must be positive, got 0"),
    (lambda: nn.RMSNorm(3, eps=-1), r"\[RMSNorm\] eps must be positive"),
    (lambda: nn.LayerNorm(3)(mx.zeros((2, 4))), "shape"),
    (lambda: nn.InstanceNorm(3)(mx.zeros((2, 3))), "at least 3 dimensions"),
    (lambda: nn.GroupNorm(4, 6), "got 6 features and 4 groups"),
    (lambda: nn.GroupNorm(0, 6), "got 6 features and 0 groups"),
    (lambda: nn.BatchNorm(3)(mx.zeros((3,))), "2, 3 or 4 dimensions"),
    (lambda: nn.BatchNorm(3)(mx.zeros((2, 3, 8, 8))), "3 features along the last axis"),
    (lambda: nn.BatchNorm(3)(mx.zeros((1, 3))), "more than one value"),
    (lambda: nn.MaxPool2d((1, 2, 3)), r"\[MaxPool2d\] kernel_size must be an int or a tuple of 2"),
    (lambda: nn.AvgPool1d(0), "kernel_size must be at least 1, got 0"),
    (lambda: nn.AvgPool1d(2, stride=0), "stride must be at least 1"),
    (lambda: nn.AvgPool3d(2, padding=-1), "padding must be at least 0"),
    (lambda: nn.MaxPool2d(2)(mx.zeros((4, 4, 3))), r"4 dimensions, .* got shape \(4, 4, 3\)"),
    (lambda: nn.Upsample(2, mode="area"), "mode must be"),
    (lambda: nn.Upsample(2, antialias=True), "antialias=True needs mode="),
    (lambda: nn.Upsample(2, "linear", True, True), "antialias=True needs align_corners=False"),
    (lambda: nn.Upsample(2)(mx.zeros((2, 3))), "at least 3 dimensions"),
    (lambda: nn.Upsample((2, 3))(mx.zeros((1, 2, 3))), "one scale for each of 1 axes"),
    (lambda: nn.SinusoidalPositionalEncoding(5), "positive and even"),
    (lambda: nn.RoPE(4)(mx.zeros((3, 4))), "at least 3 axes"),
    (lambda: nn.MultiHeadAttention(8, 3), "got 8 features and 3 heads"),
    (lambda: nn.Conv1d(3, 4, 2, groups=2), "got 3 channels and 2 groups"),
    (lambda: nn.Conv2d(3, 4, 2, groups=2), "got 3 channels and 2 groups"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=range(len(ERRORS)))
def test_error_says_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: nn.MaxPool1d("2"),
            r"^\[MaxPool1d\] kernel_size must be an int or a sequence of ints",
        ),
        (lambda: nn.RNN(2, 3, nonlinearity="tanh"), "must be a function or None, got str: 'tanh'"),
    ],
)
def test_arguments_of_another_kind(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()
