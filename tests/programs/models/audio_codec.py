"""An audio codec: causal convolutions, LSTMs, residual vector quantisation, and a window mask."""

import math

import mlx.core as mx
import mlx.nn as nn
import numpy as np


class LSTMCell(nn.Module):
    def __init__(self, inputs: int, hidden: int):
        super().__init__()
        self.hidden = hidden
        self.Wx = mx.random.normal((4 * hidden, inputs)) * inputs**-0.5
        self.Wh = mx.random.normal((4 * hidden, hidden)) * hidden**-0.5
        self.bias = mx.zeros((4 * hidden,))

    def __call__(self, x):
        x = mx.addmm(self.bias, x, self.Wx.T)
        h = c = mx.zeros((x.shape[0], self.hidden))
        steps = []
        for t in range(x.shape[-2]):
            gates = x[..., t, :] + h @ self.Wh.T
            i, f, g, o = mx.split(gates, 4, axis=-1)
            c = mx.sigmoid(f) * c + mx.sigmoid(i) * mx.tanh(g)
            h = mx.sigmoid(o) * mx.tanh(c)
            steps.append(h)
        return mx.stack(steps, axis=-2)


class CausalConv(nn.Module):
    def __init__(self, inputs, outputs, kernel, stride=1, dilation=1):
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, stride, dilation=dilation)
        self.stride, self.size = stride, (kernel - 1) * dilation + 1
        self.norm = nn.GroupNorm(1, outputs, pytorch_compatible=True)

    def __call__(self, x):
        left = self.size - self.stride
        frames = (x.shape[1] - self.size + left) / self.stride + 1
        extra = (math.ceil(frames) - 1) * self.stride + (self.size - left) - x.shape[1]
        x = mx.pad(x, ((0, 0), (left, max(extra, 0)), (0, 0)), mode="edge")
        return self.norm(self.conv(x))


class Upsample(nn.Module):
    def __init__(self, inputs, outputs, kernel, stride):
        super().__init__()
        self.conv = nn.ConvTranspose1d(inputs, outputs, kernel, stride)
        self.extra = kernel - stride

    def __call__(self, x):
        x = self.conv(x)
        return x[:, : x.shape[1] - self.extra]


class Resnet(nn.Module):
    def __init__(self, dims, dilation):
        super().__init__()
        self.block = [
            nn.ELU(),
            CausalConv(dims, dims // 2, 3, dilation=dilation),
            nn.ELU(),
            CausalConv(dims // 2, dims, 1),
        ]
        self.shortcut = nn.Identity()

    def __call__(self, x):
        y = x
        for layer in self.block:
            y = layer(y)
        return self.shortcut(x) + y


class Codebook(nn.Module):
    def __init__(self, size, dims):
        super().__init__()
        self.embed = mx.random.normal((size, dims))

    def encode(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        distance = (
            x.square().sum(axis=1, keepdims=True)
            - 2 * x @ self.embed.T
            + self.embed.square().sum(axis=1)
        )
        return mx.argmin(distance, axis=-1).reshape(*shape[:-1])

    def decode(self, codes):
        return self.embed[codes]


class Codec(nn.Module):
    def __init__(self, dims: int = 8, books: int = 3):
        super().__init__()
        self.encoder = nn.Sequential(
            CausalConv(1, dims, 7),
            Resnet(dims, 1),
            nn.ELU(),
            CausalConv(dims, 2 * dims, 4, stride=2),
            Resnet(2 * dims, 2),
            nn.ELU(),
            CausalConv(2 * dims, 2 * dims, 8, stride=4),
        )
        self.lstm = LSTMCell(2 * dims, 2 * dims)
        self.gru = nn.GRU(2 * dims, 2 * dims)
        self.decoder = nn.Sequential(
            Upsample(2 * dims, 2 * dims, 8, 4),
            nn.ELU(),
            Upsample(2 * dims, dims, 4, 2),
            CausalConv(dims, 1, 7),
        )
        self.books = [Codebook(16, 2 * dims) for _ in range(books)]

    def encode(self, audio):
        x = self.encoder(audio)
        x = self.gru(x + self.lstm(x))
        codes, rest = [], x
        for book in self.books:
            codes.append(book.encode(rest))
            rest = rest - book.decode(codes[-1])
        return mx.stack(codes, axis=1), mx.sqrt(rest.square().mean()).item(), x

    def decode(self, codes):
        total = None
        for number, book in enumerate(self.books):
            part = book.decode(codes[:, number])
            total = part if total is None else part + total
        return self.decoder(total)


mx.random.seed(21)
codec = Codec()
times = np.arange(203) / 100
audio = mx.array(np.stack([np.sin(5 * times), np.sin(9 * times**1.5)])[..., None], mx.float32)
scale = mx.sqrt(mx.mean(audio.square(), axis=(1, 2), keepdims=True)) + 1e-8
codes, rest, latent = codec.encode(audio / scale)
print("latent", latent.shape, f"{latent.mean().item():.4f} {latent.std().item():.4f}")
print("codes", codes.shape, codes.dtype, f"rest {rest:.4f}")
print(codes[0, 0].tolist())
decoded = codec.decode(codes)[:, : audio.shape[1]] * scale
print("decoded", decoded.shape, f"{mx.abs(decoded).mean().item():.4f}")
mask = mx.arange(audio.shape[1])[None, :, None] < mx.array([150, 203])[:, None, None]
print("masked", f"{mx.where(mask, decoded, 0).square().sum().item():.2f}")
chunks = [decoded[:, i : i + 50] for i in range(0, decoded.shape[1], 50)]
print("chunks", [c.shape[1] for c in chunks])
window = mx.minimum(mx.arange(1, 51), mx.arange(50, 0, -1)) / 50
overlapped = mx.zeros((2, 203, 1)).at[:, :50].add(chunks[0] * window[None, :, None])
print("overlap", f"{overlapped.sum().item():.3f}")
