"""Diffusion: a small UNet with time embeddings trained on shapes, sampled with DDIM steps."""

import math
from functools import partial
from itertools import pairwise

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten


def upsample_nearest(x: mx.array, scale: int = 2) -> mx.array:
    b, h, w, c = x.shape
    x = mx.broadcast_to(x[:, :, None, :, None, :], (b, h, scale, w, scale, c))
    return x.reshape(b, h * scale, w * scale, c)


class ResnetBlock(nn.Module):
    def __init__(self, channels: int, out: int, temb: int, groups: int = 4):
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, channels, pytorch_compatible=True)
        self.conv1 = nn.Conv2d(channels, out, kernel_size=3, stride=1, padding=1)
        self.time_emb_proj = nn.Linear(temb, out)
        self.norm2 = nn.GroupNorm(groups, out, pytorch_compatible=True)
        self.conv2 = nn.Conv2d(out, out, kernel_size=3, stride=1, padding=1)
        if channels != out:
            self.conv_shortcut = nn.Linear(channels, out)

    def __call__(self, x, temb):
        dtype = x.dtype
        temb = self.time_emb_proj(nn.silu(temb))
        y = self.norm1(x.astype(mx.float32)).astype(dtype)
        y = self.conv1(nn.silu(y))
        y = y + temb[:, None, None, :]
        y = self.norm2(y.astype(mx.float32)).astype(dtype)
        y = self.conv2(nn.silu(y))
        return y + (x if "conv_shortcut" not in self else self.conv_shortcut(x))


class Attention(nn.Module):
    def __init__(self, dims: int, memory: int, heads: int):
        super().__init__()
        self.norm = nn.GroupNorm(4, dims, eps=1e-6, pytorch_compatible=True)
        self.attn1 = nn.MultiHeadAttention(dims, heads)
        self.norm2 = nn.LayerNorm(dims)
        self.attn2 = nn.MultiHeadAttention(dims, heads, key_input_dims=memory)
        self.norm3 = nn.LayerNorm(dims)
        self.linear1 = nn.Linear(dims, 4 * dims)
        self.linear2 = nn.Linear(2 * dims, dims)

    def __call__(self, x, memory):
        b, h, w, c = x.shape
        y = self.norm(x).reshape(b, -1, c)
        y = y + self.attn1(y, y, y)
        y = y + self.attn2(self.norm2(y), memory, memory)
        gate, value = mx.split(self.linear1(self.norm3(y)), 2, axis=-1)
        y = y + self.linear2(nn.gelu(gate) * value)
        return x + y.reshape(b, h, w, c)


class UNet(nn.Module):
    def __init__(self, channels=(8, 16), memory: int = 8):
        super().__init__()
        first, second = channels
        self.timesteps = nn.SinusoidalPositionalEncoding(
            first,
            max_freq=1,
            min_freq=math.exp(-math.log(10000) + 2 * math.log(10000) / first),
            scale=1.0,
            cos_first=True,
            full_turns=False,
        )
        self.time1, self.time2 = nn.Linear(first, 16), nn.Linear(16, 16)
        self.conv_in = nn.Conv2d(1, first, 3, padding=1)
        self.down = [ResnetBlock(first, first, 16), ResnetBlock(first, second, 16)]
        self.downsample = nn.Conv2d(first, first, 3, stride=2, padding=1)
        self.mid = Attention(second, memory, 2)
        self.up = [ResnetBlock(second + first, first, 16), ResnetBlock(2 * first, first, 16)]
        self.upsample = nn.Conv2d(first, first, 3, padding=1)
        self.norm_out = nn.GroupNorm(4, first, pytorch_compatible=True)
        self.conv_out = nn.Conv2d(first, 1, 3, padding=1)
        self.labels = nn.Embedding(3, memory)

    def __call__(self, x, timestep, label):
        temb = self.timesteps(timestep).astype(x.dtype)
        temb = self.time2(nn.silu(self.time1(temb)))
        memory = self.labels(label)[:, None, :]
        x = self.conv_in(x)
        residuals = [x := self.down[0](x, temb)]
        x = self.downsample(x)
        residuals.append(x)
        x = self.mid(self.down[1](x, temb), memory)
        x = self.up[0](mx.concatenate([x, residuals.pop()], axis=-1), temb)
        x = self.upsample(upsample_nearest(x))
        x = self.up[1](mx.concatenate([x, residuals.pop()], axis=-1), temb)
        return self.conv_out(nn.silu(self.norm_out(x)))


class Sampler:
    def __init__(self, steps: int = 100):
        betas = mx.linspace(0.00085**0.5, 0.012**0.5, steps) ** 2
        self.sigmas = mx.concatenate([mx.zeros(1), ((1 - mx.cumprod(1 - betas)) ** 0.5)])
        self.alphas = mx.concatenate([mx.ones(1), mx.cumprod(1 - betas) ** 0.5])

    def add_noise(self, x, t, noise):
        shape = (-1, 1, 1, 1)
        return self.alphas[t].reshape(shape) * x + self.sigmas[t].reshape(shape) * noise

    def step(self, noise, x, t, before):
        clean = (x - self.sigmas[t] * noise) / self.alphas[t]
        return self.alphas[before] * clean + self.sigmas[before] * noise


def batch(rng: np.random.Generator, size: int = 8):
    labels = rng.integers(0, 2, size)
    y, x = np.mgrid[:8, :8] - 3.5
    disc = (x**2 + y**2 < 8).astype(np.float32)
    cross = ((np.abs(x) < 1) | (np.abs(y) < 1)).astype(np.float32)
    images = np.stack([disc if label else cross for label in labels])
    return mx.array(images[..., None] * 2 - 1), mx.array(labels + 1)


mx.random.seed(11)
model, sampler = UNet(), Sampler()
mx.eval(model.parameters())
print("parameters", sum(v.size for _, v in tree_flatten(model.parameters())))
schedule = optim.join_schedules(
    [optim.linear_schedule(0, 2e-3, 4), optim.cosine_decay(2e-3, 20)], [4]
)
optimizer = optim.AdamW(learning_rate=schedule, weight_decay=0.01)
state = [model.state, optimizer.state, mx.random.state]


def loss_fn(images, labels):
    t = mx.random.randint(1, 100, (images.shape[0],))
    noise = mx.random.normal(images.shape)
    drop = mx.random.bernoulli(0.1, labels.shape)
    labels = mx.where(drop, 0, labels)
    predicted = model(sampler.add_noise(images, t, noise), t, labels)
    return nn.losses.mse_loss(predicted, noise, reduction="none").mean((1, 2, 3)).mean()


@partial(mx.compile, inputs=state, outputs=state)
def step(images, labels):
    loss, gradients = nn.value_and_grad(model, loss_fn)(images, labels)
    gradients, norm = optim.clip_grad_norm(gradients, 1.0)
    optimizer.update(model, gradients)
    return loss, norm


rng = np.random.default_rng(0)
for number in range(6):
    loss, norm = step(*batch(rng))
    mx.eval(state, loss, norm)
    print(f"step {number}: loss {loss.item():.3f}, rate {optimizer.learning_rate.item():.5f}")
model.eval()
mx.random.seed(3)
x = mx.random.normal((2, 8, 8, 1))
labels = mx.array([1, 2])
times = [100, 75, 50, 25, 0]
for t, before in pairwise(times):
    both = mx.concatenate([x, x])
    noise = model(both, mx.full((4,), t), mx.concatenate([labels, mx.zeros_like(labels)]))
    conditional, free = noise.split(2)
    x = sampler.step(free + 3.0 * (conditional - free), x, t, before)
    mx.eval(x)
print("sample", x.shape, x.dtype, mx.isfinite(x).all().item())
image = mx.clip(x / 2 + 0.5, 0, 1)
image = mx.pad(image, [(0, 0), (1, 1), (1, 1), (0, 0)])
grid = image.reshape(1, 2, 10, 10, 1).transpose(0, 2, 1, 3, 4).reshape(10, 20, 1) * 255
print("picture", np.array(grid.astype(mx.uint8)).shape, f"{image.mean().item():.2f}")
