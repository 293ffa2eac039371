"""Images and texts in one space: two transformers, a contrastive loss, weights from a file."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten


@dataclass
class Config:
    layers: int = 2
    dims: int = 24
    heads: int = 3
    image: int = 16
    patch: int = 4
    words: int = 30
    length: int = 6
    projection: int = 12


def quick_gelu(x: mx.array) -> mx.array:
    return x * mx.sigmoid(1.702 * x)


class EncoderLayer(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.self_attn = nn.MultiHeadAttention(c.dims, c.heads, bias=True)
        self.layer_norm1 = nn.LayerNorm(c.dims, eps=1e-5)
        self.layer_norm2 = nn.LayerNorm(c.dims, eps=1e-5)
        self.fc1 = nn.Linear(c.dims, 2 * c.dims)
        self.fc2 = nn.Linear(2 * c.dims, c.dims)

    def __call__(self, x, mask=None):
        y = self.layer_norm1(x)
        x = x + self.self_attn(y, y, y, mask)
        return x + self.fc2(quick_gelu(self.fc1(self.layer_norm2(x))))


class Texts(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.token_embedding = nn.Embedding(c.words, c.dims)
        self.position_embedding = mx.zeros((c.length, c.dims))
        self.layers = [EncoderLayer(c) for _ in range(c.layers)]
        self.final_layer_norm = nn.LayerNorm(c.dims)

    def __call__(self, x):
        b, n = x.shape
        ends = mx.argmax(x, axis=-1)
        x = self.token_embedding(x) + self.position_embedding[:n]
        mask = nn.MultiHeadAttention.create_additive_causal_mask(n, x.dtype)
        for layer in self.layers:
            x = layer(x, mask)
        return self.final_layer_norm(x)[mx.arange(b), ends]


class Images(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.class_embedding = mx.random.normal((c.dims,)) * 0.1
        self.patch_embedding = nn.Conv2d(3, c.dims, c.patch, stride=c.patch, bias=False)
        count = (c.image // c.patch) ** 2 + 1
        self.position_embedding = nn.Embedding(count, c.dims)
        self.layers = [EncoderLayer(c) for _ in range(c.layers)]
        self.pre_layernorm = nn.LayerNorm(c.dims)
        self.post_layernorm = nn.LayerNorm(c.dims)

    def __call__(self, x):
        b = x.shape[0]
        patches = mx.flatten(self.patch_embedding(x), start_axis=1, end_axis=2)
        first = mx.broadcast_to(self.class_embedding, (b, 1, patches.shape[-1]))
        x = mx.concatenate((first, patches), axis=1) + self.position_embedding.weight
        x = self.pre_layernorm(x)
        for layer in self.layers:
            x = layer(x)
        return self.post_layernorm(x[:, 0])


class Model(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.texts, self.images = Texts(c), Images(c)
        self.visual_projection = nn.Linear(c.dims, c.projection, bias=False)
        self.text_projection = nn.Linear(c.dims, c.projection, bias=False)
        self.logit_scale = mx.array(1.0)

    def __call__(self, words, pictures):
        t = self.text_projection(self.texts(words))
        v = self.visual_projection(self.images(pictures))
        t = t / mx.linalg.norm(t, axis=-1, keepdims=True)
        v = v / mx.linalg.norm(v, axis=-1, keepdims=True)
        logits = (t @ v.T) * mx.exp(self.logit_scale)
        targets = mx.arange(logits.shape[0])
        loss = nn.losses.cross_entropy(logits, targets) + nn.losses.cross_entropy(logits.T, targets)
        return loss.mean() / 2, t, v

    @staticmethod
    def sanitize(weights):
        found = {}
        for key, value in weights.items():
            if "position_ids" in key:
                continue
            if "patch_embedding.weight" in key:
                # files of other libraries have the channels first
                found[key] = value.transpose(0, 2, 3, 1)
            else:
                found[key] = value
        return found


def pictures(rng: np.random.Generator, count: int) -> np.ndarray:
    shades = rng.random((count, 1, 1, 3)).astype(np.float32)
    stripes = np.sin(np.arange(16) * rng.uniform(0.3, 2, (count, 1)))[:, None, :, None]
    return ((shades + 0.3 * stripes) * 255).clip(0, 255).astype(np.uint8)


def preprocess(images: np.ndarray, size: int) -> mx.array:
    x = mx.array(images).astype(mx.float32)
    h, w = x.shape[1:3]
    top, left = (h - size) // 2, (w - size) // 2
    x = x[:, top : top + size, left : left + size] / 255
    mean, std = mx.array([0.48, 0.46, 0.41]), mx.array([0.27, 0.26, 0.28])
    return (mx.broadcast_to(x, (x.shape[0], size, size, 3)) - mean) / std


mx.random.seed(1)
config = Config()
model = Model(config)
rng = np.random.default_rng(2)
words = mx.array(rng.integers(0, config.words - 1, (4, config.length)))
words[:, -1] = config.words - 1
raw = np.broadcast_to(pictures(rng, 4), (4, 16, 16, 3))
images = preprocess(raw, 16)
print("images", images.shape, images.dtype, f"{images.mean().item():.4f}")

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "weights.safetensors"
    weights = dict(tree_flatten(model.parameters()))
    weights["images.patch_embedding.weight"] = weights["images.patch_embedding.weight"].transpose(
        0, 3, 1, 2
    )
    weights["texts.position_ids"] = mx.arange(config.length)[None]
    mx.save_safetensors(str(path), weights, metadata={"format": "pt"})
    loaded, metadata = mx.load(str(path), return_metadata=True)
    other = Model(config)
    other.load_weights(list(Model.sanitize(loaded).items()))
    print("loaded", len(loaded), metadata)
print("equal", mx.array_equal(model(words, images)[1], other(words, images)[1]).item())
try:
    other.load_weights([("images.unknown", mx.zeros(1))])
except ValueError as error:
    print("refused", type(error).__name__)


def loss_fn(model, words, images):
    return model(words, images)[0]


optimizer = optim.MultiOptimizer(
    [optim.SGD(learning_rate=0.05, momentum=0.9), optim.Adam(learning_rate=0.003)],
    [lambda name, weight: "projection" in name],
)
step = nn.value_and_grad(model, loss_fn)
for _ in range(5):
    loss, gradients = step(model, words, images)
    optimizer.update(model, gradients)
    mx.eval(model.parameters(), optimizer.state)
    print(f"loss {loss.item():.3f}")
_, t, v = model(words, images)
print("best", mx.argmax(t @ v.T, axis=1).tolist())
half = Model(config)
half.update(tree_unflatten(tree_flatten(model.parameters())))
half.set_dtype(mx.bfloat16)
print(half.visual_projection.weight.dtype, half(words, images.astype(mx.bfloat16))[1].dtype)
print(model.texts.layers[0].self_attn)
