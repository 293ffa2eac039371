"""Speech to text: a log-mel spectrogram, a convolutional encoder and a decoder with caches."""

import math
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten, tree_map


@dataclass
class Dimensions:
    mels: int = 16
    frames: int = 60
    states: int = 32
    heads: int = 4
    layers: int = 2
    words: int = 50
    context: int = 12


def mel_filters(bands: int, bins: int, rate: int) -> mx.array:
    low, high = 0.0, 2595 * math.log10(1 + rate / 2 / 700)
    points = 700 * (10 ** (np.linspace(low, high, bands + 2) / 2595) - 1)
    frequencies = np.linspace(0, rate / 2, bins)
    up = (frequencies - points[:-2, None]) / (points[1:-1] - points[:-2])[:, None]
    down = (points[2:, None] - frequencies) / (points[2:] - points[1:-1])[:, None]
    return mx.array(np.maximum(0, np.minimum(up, down)).astype(np.float32))


def hanning(size: int) -> mx.array:
    return mx.array(np.hanning(size + 1)[:-1])


def spectrogram(audio: mx.array, size: int = 64, hop: int = 32) -> mx.array:
    window = hanning(size).astype(mx.float32)
    before = audio[1 : size // 2 + 1][::-1]
    after = audio[-(size // 2 + 1) : -1][::-1]
    padded = mx.concatenate([before, audio, after])
    count = (padded.size - size + hop) // hop
    frames = mx.as_strided(padded, shape=[count, size], strides=[hop, 1])
    return mx.fft.rfft(frames * window)


def log_mel(audio: mx.array, d: Dimensions) -> mx.array:
    magnitudes = spectrogram(audio)[:-1, :].abs().square()
    mel = magnitudes @ mel_filters(d.mels, magnitudes.shape[-1], 1000).T
    log = mx.maximum(mel, 1e-10).log10()
    log = mx.maximum(log, log.max() - 8.0)
    log = (log + 4.0) / 4.0
    missing = d.frames - log.shape[0]
    return mx.pad(log, ((0, missing), (0, 0))) if missing > 0 else log[: d.frames]


def sinusoids(length: int, channels: int, longest: int = 10000) -> mx.array:
    increment = math.log(longest) / (channels // 2 - 1)
    scales = mx.exp(-increment * mx.arange(channels // 2))
    times = mx.arange(length)[:, None] * scales[None, :]
    return mx.concatenate([mx.sin(times), mx.cos(times)], axis=1)


class Attention(nn.Module):
    def __init__(self, states: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(states, states)
        self.key = nn.Linear(states, states, bias=False)
        self.value = nn.Linear(states, states)
        self.out = nn.Linear(states, states)

    def __call__(self, x, xa=None, mask=None, cache=None):
        q = self.query(x)
        if xa is None:
            k, v = self.key(x), self.value(x)
            if cache is not None:
                k = mx.concatenate([cache[0], k], axis=1)
                v = mx.concatenate([cache[1], v], axis=1)
        elif cache is None:
            k, v = self.key(xa), self.value(xa)
        else:
            k, v = cache
        found, weights = self.attend(q, k, v, mask)
        return self.out(found), (k, v), weights

    def attend(self, q, k, v, mask=None):
        n, context, states = q.shape
        scale = (states // self.heads) ** -0.25
        q = q.reshape(*q.shape[:2], self.heads, -1).transpose(0, 2, 1, 3) * scale
        k = k.reshape(*k.shape[:2], self.heads, -1).transpose(0, 2, 3, 1) * scale
        v = v.reshape(*v.shape[:2], self.heads, -1).transpose(0, 2, 1, 3)
        scores = q @ k
        if mask is not None:
            scores = scores + mask[:context, :context]
        weights = mx.softmax(scores, axis=-1, precise=True)
        return (weights @ v).transpose(0, 2, 1, 3).reshape(n, context, states), scores


class Block(nn.Module):
    def __init__(self, states: int, heads: int, crossed: bool = False):
        super().__init__()
        self.attn = Attention(states, heads)
        self.attn_ln = nn.LayerNorm(states)
        self.cross_attn = Attention(states, heads) if crossed else None
        self.cross_attn_ln = nn.LayerNorm(states) if crossed else None
        self.mlp1 = nn.Linear(states, 4 * states)
        self.mlp2 = nn.Linear(4 * states, states)
        self.mlp_ln = nn.LayerNorm(states)

    def __call__(self, x, xa=None, mask=None, cache=None):
        own, cross = cache if cache else (None, None)
        y, own, _ = self.attn(self.attn_ln(x), mask=mask, cache=own)
        x += y
        scores = None
        if self.cross_attn:
            y, cross, scores = self.cross_attn(self.cross_attn_ln(x), xa, cache=cross)
            x += y
        x = x + self.mlp2(nn.gelu(self.mlp1(self.mlp_ln(x))))
        return x, (own, cross), scores


class Encoder(nn.Module):
    def __init__(self, d: Dimensions, dtype: mx.Dtype):
        super().__init__()
        self.conv1 = nn.Conv1d(d.mels, d.states, kernel_size=3, padding=1)
        self.conv2 = nn.Conv1d(d.states, d.states, kernel_size=3, stride=2, padding=1)
        self._positions = sinusoids(d.frames // 2, d.states).astype(dtype)
        self.blocks = [Block(d.states, d.heads) for _ in range(d.layers)]
        self.ln_post = nn.LayerNorm(d.states)

    def __call__(self, x):
        x = nn.gelu(self.conv1(x))
        x = nn.gelu(self.conv2(x))
        assert x.shape[1:] == self._positions.shape, "incorrect audio shape"
        x = x + self._positions
        for block in self.blocks:
            x, _, _ = block(x)
        return self.ln_post(x)


class Decoder(nn.Module):
    def __init__(self, d: Dimensions, dtype: mx.Dtype):
        super().__init__()
        self.token_embedding = nn.Embedding(d.words, d.states)
        self.positional_embedding = mx.random.normal((d.context, d.states)) * 0.1
        self.blocks = [Block(d.states, d.heads, crossed=True) for _ in range(d.layers)]
        self.ln = nn.LayerNorm(d.states)
        self._mask = nn.MultiHeadAttention.create_additive_causal_mask(d.context).astype(dtype)

    def __call__(self, x, xa, cache=None):
        offset = cache[0][0][0].shape[1] if cache else 0
        x = self.token_embedding(x) + self.positional_embedding[offset : offset + x.shape[-1]]
        cache = cache or [None] * len(self.blocks)
        scores = [None] * len(self.blocks)
        for number, block in enumerate(self.blocks):
            x, cache[number], scores[number] = block(x, xa, self._mask, cache[number])
        x = self.ln(x)
        return self.token_embedding.as_linear(x), cache, scores


def decode(encoder: Encoder, decoder: Decoder, mel: mx.array, steps: int) -> list:
    audio = encoder(mel[None])
    tokens, cache = mx.array([[1, 3]]), None
    found, total = [], 0.0
    for _ in range(steps):
        logits, cache, scores = decoder(tokens, audio, cache)
        logits = logits[:, -1].astype(mx.float32)
        forbidden = mx.array([0, 1, 2])
        logits[:, forbidden] = -mx.inf
        log = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        tokens = mx.argmax(log, axis=-1, keepdims=True)
        total += mx.take_along_axis(log, tokens, axis=-1).item()
        found.append(tokens.item())
    print(f"scores {scores[-1].shape}, sum of log-probabilities {total:.3f}")
    return found


mx.random.seed(5)
dimensions = Dimensions()
times = np.arange(1800) / 1000
tone = np.sin(2 * np.pi * (60 + 100 * times) * times) * np.hanning(1800)
mel = log_mel(mx.array(tone.astype(np.float32)), dimensions)
print("mel", mel.shape, mel.dtype, f"{mel.mean().item():.4f} {mel.max().item():.4f}")
for dtype in (mx.float32, mx.float16):
    mx.random.seed(6)
    encoder, decoder = Encoder(dimensions, dtype), Decoder(dimensions, dtype)
    encoder.update(tree_map(lambda p, dtype=dtype: p.astype(dtype), encoder.parameters()))
    decoder.update(tree_map(lambda p, dtype=dtype: p.astype(dtype), decoder.parameters()))
    count = sum(v.size for _, v in tree_flatten(encoder.parameters()))
    print(dtype, count, len(tree_flatten(decoder.parameters())))
    if dtype == mx.float32:
        audio = encoder(mel[None])
        print("audio", audio.shape, f"{audio.square().mean().item():.4f}")
        print("tokens", decode(encoder, decoder, mel, 8))
    else:
        logits, _, _ = decoder(mx.array([[1, 3]]), encoder(mel[None].astype(dtype)))
        print(logits.dtype, logits.shape, f"{logits.astype(mx.float32).std().item():.1f}")
encoder.freeze()
print("trainable", len(tree_flatten(encoder.trainable_parameters())))
print("finite", mx.isfinite(logits).all().item())
