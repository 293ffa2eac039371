"""An image model of joint blocks over text and patches, sampled from and tuned by low rank."""

import math
from functools import partial
from itertools import pairwise

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten


def rotations(positions, axes, theta=10_000.0):
    """Angles of rotary embeddings for several axes of positions."""
    parts = []
    for index, dims in enumerate(axes):
        omega = 1.0 / theta ** (mx.arange(0, dims, 2, dtype=mx.float32) / dims)
        angles = positions[..., index, None].astype(mx.float32) * omega
        cos, sin = mx.cos(angles), mx.sin(angles)
        parts.append(mx.stack([cos, -sin, sin, cos], axis=-1).reshape(*angles.shape, 2, 2))
    return mx.concatenate(parts, axis=-3)[:, None]


def rotate(x, rotation):
    pairs = x.reshape(*x.shape[:-1], -1, 1, 2)
    return (rotation[..., 0] * pairs[..., 0] + rotation[..., 1] * pairs[..., 1]).reshape(x.shape)


def attend(q, k, v, rotation):
    q, k = rotate(q, rotation), rotate(k, rotation)
    y = mx.fast.scaled_dot_product_attention(q, k, v, scale=q.shape[-1] ** -0.5)
    return y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)


def timestep_embedding(t, dims, period=10_000):
    half = dims // 2
    frequencies = mx.exp(mx.arange(half) * (-math.log(period) / half))
    angles = (1000 * t)[:, None] * frequencies[None]
    return mx.concatenate([mx.cos(angles), mx.sin(angles)], axis=-1)


class Modulation(nn.Module):
    def __init__(self, dims, count):
        super().__init__()
        self.count = count
        self.lin = nn.Linear(dims, 3 * count * dims)

    def __call__(self, x):
        found = mx.split(self.lin(nn.silu(x))[:, None], 3 * self.count, axis=-1)
        return [found[i : i + 3] for i in range(0, 3 * self.count, 3)]


class Projections(nn.Module):
    def __init__(self, dims, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dims, 3 * dims, bias=False)
        self.proj = nn.Linear(dims, dims)
        self.norms = [nn.RMSNorm(dims // heads), nn.RMSNorm(dims // heads)]

    def __call__(self, x):
        b, n, _ = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, -1).transpose(2, 0, 3, 1, 4)
        return self.norms[0](qkv[0]), self.norms[1](qkv[1]), qkv[2]


class Stream(nn.Module):
    def __init__(self, dims, heads):
        super().__init__()
        self.modulation = Modulation(dims, 2)
        self.norm1 = nn.LayerNorm(dims, affine=False, eps=1e-6)
        self.attention = Projections(dims, heads)
        self.norm2 = nn.LayerNorm(dims, affine=False, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(dims, 2 * dims), nn.GELU("tanh"), nn.Linear(2 * dims, dims)
        )

    def before(self, x, condition):
        self_attention, mlp = self.modulation(condition)
        shift, scale, gate = self_attention
        return self.attention((1 + scale) * self.norm1(x) + shift), gate, mlp

    def after(self, x, y, gate, mlp):
        x = x + gate * self.attention.proj(y)
        shift, scale, gate = mlp
        return x + gate * self.mlp((1 + scale) * self.norm2(x) + shift)


class Joint(nn.Module):
    def __init__(self, dims, heads):
        super().__init__()
        self.image, self.text = Stream(dims, heads), Stream(dims, heads)

    def __call__(self, image, text, condition, rotation):
        i, i_gate, i_mlp = self.image.before(image, condition)
        t, t_gate, t_mlp = self.text.before(text, condition)
        q, k, v = (mx.concatenate(pair, axis=2) for pair in zip(t, i, strict=True))
        y = attend(q, k, v, rotation)
        y_text, y_image = mx.split(y, [text.shape[1]], axis=1)
        return self.image.after(image, y_image, i_gate, i_mlp), self.text.after(
            text, y_text, t_gate, t_mlp
        )


class Flow(nn.Module):
    def __init__(self, channels=8, dims=32, heads=2, depth=2):
        super().__init__()
        self.dims, self.axes = dims, (4, 6, 6)
        self.image_in, self.text_in = nn.Linear(channels, dims), nn.Linear(12, dims)
        self.time_in = nn.Sequential(nn.Linear(16, dims), nn.SiLU(), nn.Linear(dims, dims))
        self.blocks = [Joint(dims, heads) for _ in range(depth)]
        self.last = nn.Linear(dims, channels)
        self.norm = nn.LayerNorm(dims, eps=1e-6, affine=False)

    def __call__(self, image, positions, text, t):
        condition = self.time_in(timestep_embedding(t, 16).astype(image.dtype))
        ids = mx.concatenate([mx.zeros((*text.shape[:2], 3), mx.int32), positions], axis=1)
        rotation = rotations(ids, self.axes).astype(image.dtype)
        x, y = self.image_in(image), self.text_in(text)
        for block in self.blocks:
            x, y = block(x, y, condition, rotation)
        return self.last(self.norm(x))


def patches(latent):
    b, h, w, c = latent.shape
    x = latent.reshape(b, h // 2, 2, w // 2, 2, c).transpose(0, 1, 3, 5, 2, 4)
    x = x.reshape(b, h * w // 4, 4 * c)
    ids = mx.zeros((h // 2, w // 2, 3), dtype=mx.int32)
    ids[..., 1] = mx.arange(h // 2)[:, None]
    ids[..., 2] = mx.arange(w // 2)[None]
    return x, mx.repeat(ids.reshape(1, -1, 3), b, axis=0)


def shifted(t, length, base=0.5, top=1.15):
    mu = (top - base) * (length - 16) / (64 - 16) + base
    return mx.exp(mu) / (mx.exp(mu) + (1 / t - 1))


class LowRank(nn.Module):
    @staticmethod
    def of(linear, rank=4):
        out, dims = linear.weight.shape
        found = LowRank(dims, out, rank)
        found.linear = linear
        return found

    def __init__(self, dims, out, rank):
        super().__init__()
        self.linear = nn.Linear(dims, out)
        self.a = mx.random.uniform(-0.1, 0.1, (dims, rank))
        self.b = mx.zeros((rank, out))

    def __call__(self, x):
        return self.linear(x) + ((x @ self.a) @ self.b).astype(x.dtype)

    def fused(self):
        weight = self.linear.weight + (self.a @ self.b).T
        linear = nn.Linear(weight.shape[1], weight.shape[0], bias="bias" in self.linear)
        return linear.update({**self.linear.parameters(), "weight": weight})


def made_up(model, scale=0.2):
    generator = np.random.default_rng(1)
    named = sorted(tree_flatten(model.parameters()))
    values = [
        (n, mx.array(generator.normal(0, scale, v.shape).astype(np.float32))) for n, v in named
    ]
    return model.update(tree_unflatten(values))


generator = np.random.default_rng(0)
model = made_up(Flow())
latent = mx.array(generator.normal(size=(2, 4, 8, 2)).astype(np.float32))
text = mx.array(generator.normal(size=(2, 5, 12)).astype(np.float32))
x, ids = patches(latent)
print("patches", x.shape, ids[0, -1].tolist(), round(x.sum().item(), 2))

times = shifted(mx.maximum(mx.linspace(1, 0, 5), 1e-6), x.shape[1]).tolist()
print("times", " ".join(f"{t:.3f}" for t in times))
step = mx.compile(lambda x, t, following: x + (following - t) * model(x, ids, text, t[None]))
sample = x
for t, following in pairwise(times):
    sample = step(sample, mx.array(t), mx.array(following))
    mx.eval(sample)
print(f"sample {sample.mean().item():.3f} {sample.std().item():.3f}")

half = Flow()
half.load_weights([(n, v.astype(mx.bfloat16)) for n, v in tree_flatten(model.parameters())])
rounded = half(*(y.astype(mx.bfloat16) if y.dtype == mx.float32 else y for y in (x, ids, text)),
               mx.array([0.5, 0.5], mx.bfloat16))  # fmt: skip
exact = model(x, ids, text, mx.array([0.5, 0.5]))
print("bfloat16", rounded.dtype, (mx.abs(rounded - exact).mean() / exact.std()).item() < 0.1)

model.freeze()
for block in model.blocks:
    stream = block.image.attention
    stream.update_modules({"qkv": LowRank.of(stream.qkv), "proj": LowRank.of(stream.proj)})
made_up_keys = [n for n, v in tree_flatten(model.trainable_parameters())]
print(len(made_up_keys), "trained:", made_up_keys[0], made_up_keys[-1])
for block in model.blocks:
    for adapter in (block.image.attention.qkv, block.image.attention.proj):
        size = adapter.a.shape
        adapter.a = mx.array(generator.normal(0, 0.1, size).astype(np.float32))

optimizer = optim.Adam(
    optim.join_schedules([optim.linear_schedule(0, 1e-2, 2), optim.cosine_decay(1e-2, 10)], [3])
)
state = [model.state, optimizer.state]


def loss_fn(x, text, noise, t):
    noisy = x * (1 - t[:, None, None]) + noise * t[:, None, None]
    return (model(noisy, ids, text, t) + x - noise).square().mean()


@partial(mx.compile, inputs=state, outputs=state)
def train(x, text, noise, t):
    loss, gradients = nn.value_and_grad(model, loss_fn)(x, text, noise, t)
    optimizer.update(model, gradients)
    return loss


noise = mx.array(generator.normal(size=x.shape).astype(np.float32))
losses = [train(x, text, noise, mx.array([0.3, 0.7])).item() for _ in range(6)]
print("losses", " ".join(f"{loss:.2f}" for loss in losses), f"{optimizer.learning_rate.item():.4f}")
before = model(x, ids, text, mx.array([0.5, 0.5]))
for block in model.blocks:
    stream = block.image.attention
    stream.update_modules({"qkv": stream.qkv.fused(), "proj": stream.proj.fused()})
print("fused:", mx.allclose(before, model(x, ids, text, mx.array([0.5, 0.5])), atol=1e-3).item())
