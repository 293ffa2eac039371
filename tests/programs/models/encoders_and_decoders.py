"""Encoders of text with masks, a model of two stacks, and a large model that checks a small one."""

import math
from dataclasses import dataclass
from functools import partial

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten, tree_map, tree_unflatten


@dataclass
class Config:
    vocabulary: int = 40
    dims: int = 32
    heads: int = 4
    layers: int = 2
    positions: int = 24


class Bidirectional(nn.Module):
    """Tokens, segments and positions, added and normalised; layers that normalise afterwards."""

    def __init__(self, config: Config):
        super().__init__()
        self.words = nn.Embedding(config.vocabulary, config.dims)
        self.segments = nn.Embedding(2, config.dims)
        self.positions = nn.Embedding(config.positions, config.dims)
        self.norm = nn.LayerNorm(config.dims, eps=1e-12)
        self.encoder = nn.TransformerEncoder(
            config.layers, config.dims, config.heads, 4 * config.dims, activation=nn.gelu,
            norm_first=False,
        )  # fmt: skip
        self.pooler = nn.Linear(config.dims, config.dims)

    def __call__(self, tokens, segments, mask):
        positions = mx.broadcast_to(mx.arange(tokens.shape[1]), tokens.shape)
        x = self.words(tokens) + self.positions(positions) + self.segments(segments)
        mask = mx.log(mx.expand_dims(mask, (1, 2)).astype(x.dtype))
        y = self.encoder(self.norm(x), mask)
        return y, mx.tanh(self.pooler(y[:, 0]))


def bucket(distance, both_ways, buckets=8, longest=20):
    result = 0
    if both_ways:
        buckets //= 2
        result = (distance > 0).astype(mx.int32) * buckets
        distance = mx.abs(distance)
    else:
        distance = -mx.minimum(distance, mx.zeros_like(distance))
    exact = buckets // 2
    logarithm = mx.log(distance.astype(mx.float32) / exact) / math.log(longest / exact)
    far = mx.minimum(exact + (logarithm * (buckets - exact)).astype(mx.int32), buckets - 1)
    return result + mx.where(distance < exact, distance, far)


class RelativeBias(nn.Module):
    def __init__(self, heads: int, both_ways: bool):
        super().__init__()
        self.both_ways = both_ways
        self.embeddings = nn.Embedding(8, heads)

    def __call__(self, n: int, m: int, offset: int = 0):
        rows, columns = mx.arange(offset, offset + n)[:, None], mx.arange(m)[None, :]
        return self.embeddings(bucket(columns - rows, self.both_ways)).transpose(2, 0, 1)


class Attention(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.heads = config.heads
        for name in ("query", "key", "value", "out"):
            setattr(self, name, nn.Linear(config.dims, config.dims, bias=False))

    def __call__(self, x, source, bias=None, cache=None):
        q, k, v = self.query(x), self.key(source), self.value(source)
        q, k, v = (mx.unflatten(y, -1, (self.heads, -1)).swapaxes(1, 2) for y in (q, k, v))
        if cache is not None:
            k = mx.concatenate([cache[0], k], axis=2)
            v = mx.concatenate([cache[1], v], axis=2)
        scores = q @ k.swapaxes(-1, -2)  # not scaled
        if bias is not None:
            scores = scores + bias.astype(scores.dtype)
        weights = mx.softmax(scores.astype(mx.float32), axis=-1).astype(scores.dtype)
        return self.out((weights @ v).swapaxes(1, 2).flatten(-2)), (k, v)


class Block(nn.Module):
    def __init__(self, config: Config, crossed: bool):
        super().__init__()
        self.attention, self.norm1 = Attention(config), nn.RMSNorm(config.dims)
        if crossed:
            self.crossed, self.norm2 = Attention(config), nn.RMSNorm(config.dims)
        self.norm3 = nn.RMSNorm(config.dims)
        self.gate = nn.Linear(config.dims, 2 * config.dims, bias=False)
        self.up = nn.Linear(config.dims, 2 * config.dims, bias=False)
        self.down = nn.Linear(2 * config.dims, config.dims, bias=False)

    def __call__(self, x, memory=None, bias=None, cache=None):
        y = self.norm1(x)
        y, cache = self.attention(y, y, bias, cache)
        x = x + y
        if "crossed" in self:
            x = x + self.crossed(self.norm2(x), memory)[0]
        y = self.norm3(x)
        return x + self.down(nn.gelu_approx(self.gate(y)) * self.up(y)), cache


class TwoStacks(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.words = nn.Embedding(config.vocabulary, config.dims)
        self.encoder = [Block(config, crossed=False) for _ in range(config.layers)]
        self.decoder = [Block(config, crossed=True) for _ in range(config.layers)]
        self.bias = [RelativeBias(config.heads, True), RelativeBias(config.heads, False)]
        self.norms = [nn.RMSNorm(config.dims), nn.RMSNorm(config.dims)]

    def encode(self, tokens):
        x, bias = self.words(tokens), self.bias[0](tokens.shape[1], tokens.shape[1])
        for block in self.encoder:
            x, _ = block(x, bias=bias)
        return self.norms[0](x)

    def decode(self, tokens, memory, caches=None):
        n = tokens.shape[1]
        offset = 0 if caches is None else caches[0][0].shape[2]
        bias = self.bias[1](n, offset + n, offset)
        if n > 1:
            mask = nn.MultiHeadAttention.create_additive_causal_mask(n)
            bias = bias + mask
        x, kept = self.words(tokens), []
        for index, block in enumerate(self.decoder):
            x, cache = block(x, memory, bias, None if caches is None else caches[index])
            kept.append(cache)
        return self.words.as_linear(self.norms[1](x) * x.shape[-1] ** -0.5), kept

    def __call__(self, source, target):
        return self.decode(target, self.encode(source))[0]


def greedy(model, source, count):
    memory, caches = model.encode(source), None
    token, found = mx.zeros((source.shape[0], 1), mx.int32), []
    for _ in range(count):
        logits, caches = model.decode(token, memory, caches)
        token = mx.argmax(logits[:, -1:], axis=-1)
        mx.async_eval(token)
        found.append(token)
    return mx.concatenate(found, axis=1)


def speculative(draft, large, prompt, count, ahead=3):
    """Greedy tokens of the large model; those of the draft that it agrees with cost one pass."""
    tokens, passes, accepted = list(prompt), 0, 0
    while len(tokens) < len(prompt) + count:
        guess = list(tokens)
        for _ in range(ahead):
            guess.append(mx.argmax(draft(mx.array([guess]))[0, -1]).item())
        wanted = mx.argmax(large(mx.array([guess]))[0], axis=-1)[len(tokens) - 1 :].tolist()
        proposed = guess[len(tokens) :]
        same = sum(1 for _ in takewhile_equal(proposed, wanted))
        tokens += [*proposed[:same], wanted[same]]
        passes, accepted = passes + 1, accepted + same
    return tokens[: len(prompt) + count], passes, accepted


def takewhile_equal(one, other):
    for a, b in zip(one, other, strict=False):
        if a != b:
            return
        yield a


class Causal(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.words = nn.Embedding(config.vocabulary, config.dims)
        self.position = nn.SinusoidalPositionalEncoding(config.dims, max_freq=1, min_freq=1e-3)
        self.layers = nn.TransformerEncoder(
            config.layers, config.dims, config.heads, norm_first=True, checkpoint=True
        )
        self.out = nn.Linear(config.dims, config.vocabulary)

    def __call__(self, tokens):
        n = tokens.shape[1]
        mask = nn.MultiHeadAttention.create_additive_causal_mask(n)
        x = self.words(tokens) + self.position(mx.arange(n))
        return self.out(self.layers(x, mask))


def made_up(model, scale=0.25):
    """Weights from a fixed sequence, whatever the library draws."""
    generator = np.random.default_rng(3)
    named = tree_flatten(model.parameters())
    model.update(
        tree_unflatten(
            [
                (name, mx.array(generator.normal(0, scale, value.shape).astype(np.float32)))
                for name, value in sorted(named)
            ]
        )
    )
    return model


def train(model, tokens, steps):
    optimizer = optim.Adafactor(1e-2, relative_step=False, scale_parameter=False)
    state = [model.state, optimizer.state]

    def loss_fn(model, x, y):
        return nn.losses.cross_entropy(model(x), y, label_smoothing=0.1).mean()

    @partial(mx.compile, inputs=state, outputs=state)
    def step(x, y):
        loss, gradients = nn.value_and_grad(model, loss_fn)(model, x, y)
        gradients, norm = optim.clip_grad_norm(gradients, max_norm=1.0)
        optimizer.update(model, gradients)
        return loss, norm

    losses = []
    for _ in range(steps):
        loss, norm = step(tokens[:, :-1], tokens[:, 1:])
        mx.eval(state)
        losses.append(loss.item())
    return losses, norm.item()


config = Config()
generator = np.random.default_rng(0)
tokens = mx.array(generator.integers(0, config.vocabulary, (2, 12)))
mask = mx.array(np.array([[1] * 12, [1] * 7 + [0] * 5]))
encoder = made_up(Bidirectional(config))
output, pooled = encoder(tokens, (tokens > 20).astype(mx.int32), mask)
print(f"encoder {output.shape} {output.mean().item():.3f} {pooled.abs().mean().item():.4f}")
changed = tokens + mx.concatenate([mx.zeros((2, 7)), mx.ones((2, 5))], axis=1).astype(mx.int32)
again, _ = encoder(mx.minimum(changed, 39), (tokens > 20).astype(mx.int32), mask)
apart = mx.abs(output - again)[:, :7].max(axis=(1, 2))
print("masked tokens matter:", (apart > 1e-4).tolist())

stacks = made_up(TwoStacks(config), 0.45)
whole = stacks(tokens, tokens[:, :6])
print(f"two stacks {whole.shape} {whole.std().item():.3f}")
half = TwoStacks(config)
half.update(tree_map(lambda p: p.astype(mx.float16), stacks.parameters()))
print("generated", greedy(stacks, tokens, 6).tolist(), half(tokens, tokens[:, :6]).dtype)

large, small = made_up(Causal(config), 0.2), made_up(Causal(config), 0.2)
small.out.weight = small.out.weight + 0.02 * mx.sin(mx.arange(40 * 32)).reshape(40, 32)
found, passes, accepted = speculative(small, large, [1, 2, 3], 12)
print("speculative", found, passes, accepted)
plain = [1, 2, 3]
for _ in range(12):
    plain.append(mx.argmax(large(mx.array([plain]))[0, -1]).item())
print("as the large model alone:", plain == found)

losses, norm = train(large, tokens, 5)
print("losses", " ".join(f"{loss:.2f}" for loss in losses), f"norm {norm:.1f}")
quantized = made_up(Causal(config), 0.2)
nn.quantize(quantized, group_size=32, bits=8, class_predicate=lambda p, m: isinstance(m, nn.Linear))
difference = mx.abs(quantized(tokens) - made_up(Causal(config), 0.2)(tokens)).max().item()
print(
    "8 bits:",
    difference < 0.2,
    sum(1 for n, _ in tree_flatten(quantized.parameters()) if "scales" in n),
)
