"""Codebooks of sound drawn one after the other: delayed tokens, text beside them, guidance."""

import math

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten

BOOKS, ENTRIES, DIMS, HEADS = 3, 16, 32, 4


def sinusoids(positions, dims, period=10_000):
    half = dims // 2
    phase = positions / (period ** (mx.arange(half) / (half - 1)))
    return mx.concatenate([mx.cos(phase), mx.sin(phase)], axis=-1)


def top_k(logits, k, temperature=1.0):
    kept = mx.argpartition(logits, kth=-k, axis=-1)[..., -k:]
    kept = mx.sort(kept, axis=-1)
    chosen = mx.take_along_axis(logits, kept, axis=-1)
    drawn = mx.random.categorical(chosen / temperature, axis=-1)
    return mx.take_along_axis(kept, drawn[..., None], axis=-1).squeeze(-1)


class Cache:
    """Keys and values, with room to grow."""

    step = 4

    def __init__(self):
        self.keys = self.values = None
        self.offset = 0

    def update(self, keys, values):
        previous, b = self.offset, keys.shape[0]
        if self.keys is None or previous + keys.shape[2] > self.keys.shape[2]:
            more = mx.zeros((b, HEADS, self.step, DIMS // HEADS), keys.dtype)
            if self.keys is None:
                self.keys, self.values = more, mx.array(more)
            else:
                self.keys = mx.concatenate([self.keys, more], axis=2)
                self.values = mx.concatenate([self.values, more], axis=2)
        self.offset += keys.shape[2]
        self.keys[..., previous : self.offset, :] = keys
        self.values[..., previous : self.offset, :] = values
        return self.keys[..., : self.offset, :], self.values[..., : self.offset, :]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj = nn.Linear(DIMS, DIMS, False), nn.Linear(DIMS, DIMS, False)
        self.v_proj, self.out_proj = nn.Linear(DIMS, DIMS, False), nn.Linear(DIMS, DIMS, False)

    def __call__(self, x, source, cache=None):
        q, k, v = self.q_proj(x), self.k_proj(source), self.v_proj(source)
        q, k, v = (y.reshape(*y.shape[:2], HEADS, -1).transpose(0, 2, 1, 3) for y in (q, k, v))
        if cache is not None:
            k, v = cache.update(k, v)
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=(DIMS // HEADS) ** -0.5)
        return self.out_proj(y.transpose(0, 2, 1, 3).reshape(x.shape))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.cross_attn = Attention(), Attention()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(DIMS) for _ in range(3))
        self.linear1, self.linear2 = nn.Linear(DIMS, 64, False), nn.Linear(64, DIMS, False)

    def __call__(self, x, text, cache):
        y = self.norm1(x)
        x = x + self.self_attn(y, y, cache)
        x = x + self.cross_attn(self.norm2(x), text)
        return x + self.linear2(nn.gelu(self.linear1(self.norm3(x))))


class Music(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = [nn.Embedding(ENTRIES + 1, DIMS) for _ in range(BOOKS)]
        self.layers = [Block() for _ in range(2)]
        self.out_norm = nn.LayerNorm(DIMS, eps=1e-5)
        self.linears = [nn.Linear(DIMS, ENTRIES, bias=False) for _ in range(BOOKS)]

    def __call__(self, tokens, text, caches):
        x = sum(emb(tokens[..., i]) for i, emb in enumerate(self.emb))
        offset = caches[0].offset
        x = x + sinusoids(mx.arange(offset, offset + x.shape[1])[:, None], DIMS).astype(x.dtype)
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, text, cache)
        x = self.out_norm(x)
        return mx.stack([linear(x) for linear in self.linears], axis=-1)

    def generate(self, text, steps, guidance=3.0, k=5):
        bos = mx.full((1, steps + BOOKS, BOOKS), ENTRIES, dtype=mx.int32)
        text = mx.concatenate([text, mx.zeros_like(text)], axis=0)
        caches = [Cache() for _ in self.layers]
        for offset in range(steps + BOOKS - 1):
            given = mx.tile(bos[:, offset : offset + 1], [2, 1, 1])
            logits = self(given, text, caches)
            conditional, free = logits[:1, -1:], logits[1:2, -1:]
            logits = free + (conditional - free) * guidance
            tokens = top_k(logits.transpose(0, 1, 3, 2), k)
            # Each book starts one step after the one before it.
            tokens[..., offset + 1 :] = ENTRIES
            tokens[..., : max(0, offset - steps + 1)] = ENTRIES
            bos[:, offset + 1] = tokens[:, 0]
            mx.eval(bos)
        books = [bos[:, 1 + i : 1 + i + steps, i] for i in range(BOOKS)]
        return mx.stack(books, axis=-1)


class WeightNormConv(nn.Module):
    """A convolution along time whose filters are normalised, padded on the left alone."""

    def __init__(self, inputs, outputs, kernel, stride=1, dilation=1):
        super().__init__()
        self.stride, self.dilation = stride, dilation
        self.weight_g = mx.ones((outputs, 1, 1))
        self.weight_v = mx.ones((outputs, kernel, inputs))
        self.bias = mx.zeros(outputs)

    def __call__(self, x):
        norm = mx.linalg.norm(self.weight_v, axis=(1, 2), keepdims=True)
        weight = self.weight_g * self.weight_v / norm
        kernel = (weight.shape[1] - 1) * self.dilation + 1
        left = kernel - self.stride
        extra = -(x.shape[1] - self.stride) % self.stride
        x = mx.pad(x, [(0, 0), (left, extra), (0, 0)], mode="edge")
        return mx.conv1d(x, weight, self.stride, 0, self.dilation) + self.bias


class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.books = mx.zeros((BOOKS, ENTRIES, 8))
        self.freeze(keys=["books"])

    def encode(self, x):
        rest, found = x, []
        for i in range(BOOKS):
            book = self.books[i]
            distance = rest.square().sum(-1, keepdims=True) - 2 * rest @ book.T
            chosen = mx.argmin(distance + book.square().sum(-1), axis=-1)
            rest = rest - book[chosen]
            found.append(chosen)
        return mx.stack(found, axis=-1)

    def decode(self, tokens):
        return sum(self.books[i][tokens[..., i]] for i in range(BOOKS))


class Codec(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            WeightNormConv(1, 8, 5), nn.ELU(), WeightNormConv(8, 8, 4, stride=2), nn.ELU(),
            WeightNormConv(8, 8, 3, dilation=2),
        )  # fmt: skip
        self.quantizer = Quantizer()
        self.rnn = nn.LSTM(8, 8)
        self.decoder = nn.Sequential(
            nn.ConvTranspose1d(8, 8, 4, stride=2, padding=1), nn.ELU(), WeightNormConv(8, 1, 5)
        )

    def __call__(self, x):
        z = self.encoder(x)
        through = self.quantizer.decode(self.quantizer.encode(z))
        through = z + mx.stop_gradient(through - z)
        hidden, _ = self.rnn(through)
        return self.decoder(through + hidden), mx.mean((z - mx.stop_gradient(through)) ** 2)


def made_up(model, scale):
    generator = np.random.default_rng(2)
    named = sorted(tree_flatten(model.parameters()))
    values = [
        (n, mx.array(generator.normal(0, scale, v.shape).astype(np.float32))) for n, v in named
    ]
    return model.update(tree_unflatten(values))


def spectrum(x, size=32, hop=8):
    window = mx.array(np.hanning(size + 1)[:-1].astype(np.float32))
    x = mx.pad(x, [(0, 0), (size // 2, size // 2)])
    frames = (x.shape[1] - size) // hop + 1
    windows = mx.as_strided(mx.contiguous(x), (x.shape[0], frames, size), (x.shape[1], hop, 1))
    return mx.log10(mx.maximum(mx.abs(mx.fft.rfft(windows * window)), 1e-1))


mx.random.seed(4)
music = made_up(Music(), 0.3)
text = mx.array(np.random.default_rng(5).normal(size=(1, 4, DIMS)).astype(np.float32))
tokens = music.generate(text, 7)
print("tokens", tokens.shape, tokens.min().item() >= 0, tokens.max().item() < ENTRIES)
print(tokens[0].T.tolist())

codec = made_up(Codec(), 0.4)
time = mx.arange(120) / 60
sound = mx.stack([mx.sin(2 * math.pi * f * time) for f in (3, 7)])[..., None]
codes = codec.quantizer.encode(codec.encoder(sound))
decoded, commitment = codec(sound)
print(
    "codes",
    codes.shape,
    codes[0, :6, 0].tolist(),
    f"{decoded.std().item():.2f} {commitment.item():.2f}",
)
print("trained", len(tree_flatten(codec.trainable_parameters())), "books" in codec.quantizer)


def loss_fn(model, x):
    y, commitment = model(x)
    sounds = spectrum(y.squeeze(-1)), spectrum(x.squeeze(-1))
    return nn.losses.l1_loss(*sounds) + nn.losses.smooth_l1_loss(y, x) + 0.25 * commitment


optimizer = optim.AdamW(learning_rate=5e-3, betas=[0.8, 0.99])
step = nn.value_and_grad(codec, loss_fn)
for i in range(4):
    loss, gradients = step(codec, sound)
    optimizer.update(codec, gradients)
    mx.eval(codec.parameters(), optimizer.state)
    print(f"step {i}: {loss.item():.2f}")
