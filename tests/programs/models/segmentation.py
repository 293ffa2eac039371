"""Segmentation: windowed attention with relative positions, a mask decoder, masks as boxes."""

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.nn.layers.upsample import upsample_linear, upsample_nearest


class LayerNorm2d(nn.Module):
    def __init__(self, channels: int, eps: float = 1e-6):
        super().__init__()
        self.weight, self.bias, self.eps = mx.ones(channels), mx.zeros(channels), eps

    def __call__(self, x):
        mean = x.mean(3, keepdims=True)
        spread = (x - mean).square().mean(3, keepdims=True)
        return self.weight * ((x - mean) / mx.sqrt(spread + self.eps)) + self.bias


def partition(x, size):
    b, h, w, c = x.shape
    below, right = (size - h % size) % size, (size - w % size) % size
    if below or right:
        x = mx.pad(x, ((0, 0), (0, below), (0, right), (0, 0)))
    height, width = h + below, w + right
    x = x.reshape(b, height // size, size, width // size, size, c)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(-1, size, size, c), (height, width)


def unpartition(windows, size, padded, shape):
    height, width = padded
    h, w = shape
    b = windows.shape[0] // (height * width // size // size)
    x = windows.reshape(b, height // size, width // size, size, size, -1)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(b, height, width, -1)[:, :h, :w]


def relative(q_size, k_size, positions):
    wanted = 2 * max(q_size, k_size) - 1
    if positions.shape[0] != wanted:
        scale = (wanted / positions.shape[0], 1)
        positions = upsample_linear(positions[None, :, None, :], scale)[0, :, 0]
    q = mx.arange(q_size)[:, None] * max(k_size / q_size, 1.0)
    k = mx.arange(k_size)[None, :] * max(q_size / k_size, 1.0)
    distance = (q - k) + (k_size - 1) * max(q_size / k_size, 1.0)
    return positions[distance.astype(mx.int64)]


class Attention(nn.Module):
    def __init__(self, dims, heads, size):
        super().__init__()
        self.heads, self.scale = heads, (dims // heads) ** -0.5
        self.qkv = nn.Linear(dims, 3 * dims)
        self.proj = nn.Linear(dims, dims)
        self.rel_pos_h = mx.random.normal((2 * size - 1, dims // heads)) * 0.1
        self.rel_pos_w = mx.random.normal((2 * size - 1, dims // heads)) * 0.1

    def __call__(self, x):
        b, h, w, _ = x.shape
        qkv = self.qkv(x).reshape(b, h * w, 3, self.heads, -1).transpose(2, 0, 3, 1, 4)
        q, k, v = qkv.reshape(3, b * self.heads, h * w, -1)
        scores = (q * self.scale) @ k.transpose(0, 2, 1)
        r = q.reshape(-1, h, w, q.shape[-1])
        over_h = mx.einsum("bhwc,hkc->bhwk", r, relative(h, h, self.rel_pos_h))
        over_w = mx.einsum("bhwc,wkc->bhwk", r, relative(w, w, self.rel_pos_w))
        scores = scores.reshape(-1, h, w, h, w) + over_h[..., None] + over_w[:, :, :, None]
        weights = mx.softmax(scores.reshape(-1, h * w, h * w), axis=-1)
        y = (weights @ v).reshape(b, self.heads, h, w, -1).transpose(0, 2, 3, 1, 4)
        return self.proj(y.reshape(b, h, w, -1))


class Encoder(nn.Module):
    def __init__(self, dims=16, window=3):
        super().__init__()
        self.patches = nn.Conv2d(3, dims, 4, stride=4)
        self.norms = [nn.LayerNorm(dims) for _ in range(2)]
        self.attentions = [Attention(dims, 2, window), Attention(dims, 2, 8)]
        self.neck = [nn.Conv2d(dims, 8, 1, bias=False), LayerNorm2d(8)]
        self.window = window

    def __call__(self, x):
        x = self.patches(x)
        h, w = x.shape[1:3]
        windows, padded = partition(self.norms[0](x), self.window)
        x = x + unpartition(self.attentions[0](windows), self.window, padded, (h, w))
        x = x + self.attentions[1](self.norms[1](x))
        for layer in self.neck:
            x = layer(x)
        return x


class Decoder(nn.Module):
    def __init__(self, dims=8):
        super().__init__()
        self.up1 = nn.ConvTranspose2d(dims, 4, 2, stride=2)
        self.norm = LayerNorm2d(4)
        self.up2 = nn.ConvTranspose2d(4, 2, 2, stride=2)
        self.points = mx.random.normal((2, dims // 2))
        self.hyper = nn.Linear(dims, 2)

    def __call__(self, image, points):
        angles = 2 * np.pi * ((2 * points - 1) @ self.points)
        tokens = mx.concatenate([mx.sin(angles), mx.cos(angles)], axis=-1)
        x = nn.gelu(self.norm(self.up1(image + tokens.mean(1)[:, None, None])))
        x = nn.gelu(self.up2(x))
        b, h, w, c = x.shape
        return (self.hyper(tokens) @ x.reshape(b, h * w, c).swapaxes(1, 2)).reshape(b, -1, h, w)


def boxes(masks: mx.array) -> list:
    rows, columns = masks.any(axis=-1), masks.any(axis=-2)
    found = []
    for one in (columns, rows):
        positions = mx.where(one, mx.arange(one.shape[-1]), -1)
        last = positions.max(axis=-1)
        first = mx.where(one, positions, one.shape[-1]).min(axis=-1)
        found += [first, last]
    return mx.stack(found, axis=-1).tolist()


mx.random.seed(13)
encoder, decoder = Encoder(), Decoder()
y, x = np.mgrid[:32, :32] / 32
disc = ((x - 0.4) ** 2 + (y - 0.6) ** 2 < 0.05).astype(np.float32)
image = mx.array(np.stack([x, y, disc], -1)[None].astype(np.float32))
points = mx.array([[[0.4, 0.6], [0.9, 0.1]]])
features = encoder(image)
print("features", features.shape, f"{features.std().item():.4f}")
masks = decoder(features, points)
print("masks", masks.shape, f"{masks.mean().item():.4f}")
print(boxes(mx.array(disc)[None] > 0), boxes(masks[0] > masks.mean()))
print("nearest", upsample_nearest(features, (2, 2)).shape, nn.Upsample(2, "cubic")(features).shape)
target = mx.array(disc)[None, None]


def dice(parameters, image, points):
    encoder.update(parameters["encoder"])
    decoder.update(parameters["decoder"])
    p = mx.sigmoid(decoder(encoder(image), points)[:, :1])
    overlap = 1 - (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)
    return overlap + nn.losses.binary_cross_entropy(p, target, with_logits=False)


optimizer = optim.Lion(learning_rate=1e-2)
parameters = {"encoder": encoder.parameters(), "decoder": decoder.parameters()}
optimizer.init(parameters)
for _ in range(4):
    loss, gradients = mx.value_and_grad(dice)(parameters, image, points)
    parameters = optimizer.apply_gradients(gradients, parameters)
    mx.eval(parameters, optimizer.state)
    print(f"loss {loss.item():.3f}")
