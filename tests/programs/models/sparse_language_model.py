"""A language model with routed experts and relative positions: quantised, sampled from, trained."""

import math
from functools import partial

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten


class Experts(nn.Module):
    def __init__(self, dims: int, hidden: int, count: int, chosen: int):
        super().__init__()
        self.chosen = chosen
        self.gate = nn.Linear(dims, count, bias=False)
        scale = dims**-0.5
        self.w1 = mx.random.uniform(-scale, scale, (count, hidden, dims))
        self.w2 = mx.random.uniform(-scale, scale, (count, dims, hidden))

    def __call__(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        gates = mx.softmax(self.gate(x).astype(mx.float32), axis=-1, precise=True)
        k = self.chosen
        rows = mx.stop_gradient(mx.argpartition(-gates, kth=k - 1, axis=-1)[:, :k])
        rows = mx.sort(rows, axis=-1)
        scores = mx.take_along_axis(gates, rows, axis=-1)
        scores = (scores / scores.sum(axis=-1, keepdims=True)).astype(x.dtype)
        y = mx.expand_dims(x, (-2, -3))
        y = mx.gather_mm(y, self.w1.swapaxes(-1, -2), rhs_indices=rows)
        y = mx.gather_mm(nn.silu(y), self.w2.swapaxes(-1, -2), rhs_indices=rows)
        return (y.squeeze(-2) * scores[..., None]).sum(axis=-2).reshape(shape)


def relative_buckets(n: int, m: int, buckets: int = 8, longest: int = 32) -> mx.array:
    positions = mx.arange(m)[None, :] - mx.arange(n)[:, None]
    distance = -mx.minimum(positions, mx.zeros_like(positions))
    exact = buckets // 2
    scale = (buckets - exact) / math.log(longest / exact)
    far = exact + (mx.log(distance.astype(mx.float32) / exact) * scale).astype(mx.int16)
    far = mx.minimum(far, buckets - 1)
    return mx.where(distance < exact, distance, far)


class Attention(nn.Module):
    def __init__(self, dims: int, heads: int, kv_heads: int):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, dims // heads
        self.wq = nn.Linear(dims, dims, bias=False)
        self.wkv = nn.Linear(dims, 2 * kv_heads * self.size, bias=False)
        self.wo = nn.Linear(dims, dims, bias=False)
        self.rope = nn.RoPE(self.size, traditional=True, base=10_000)
        self.bias = nn.Embedding(8, heads)

    def __call__(self, x, cache=None):
        b, n, _ = x.shape
        q = self.wq(x).reshape(b, n, self.heads, -1).transpose(0, 2, 1, 3)
        kv = self.wkv(x).reshape(b, n, 2 * self.kv_heads, -1).transpose(0, 2, 1, 3)
        k, v = mx.split(kv, 2, axis=1)
        offset = 0 if cache is None else cache[0].shape[2]
        q, k = self.rope(q, offset=offset), self.rope(k, offset=offset)
        if cache is not None:
            k = mx.concatenate([cache[0], k], axis=2)
            v = mx.concatenate([cache[1], v], axis=2)
        m = k.shape[2]
        bias = self.bias(relative_buckets(m, m)[-n:]).transpose(2, 0, 1)
        mask = mx.triu(mx.full((m, m), -1e9), k=1)[-n:]
        y = mx.fast.scaled_dot_product_attention(
            q, k, v, scale=self.size**-0.5, mask=(bias + mask).astype(q.dtype)
        )
        return self.wo(y.transpose(0, 2, 1, 3).reshape(b, n, -1)), (k, v)


class Block(nn.Module):
    def __init__(self, dims: int):
        super().__init__()
        self.attention = Attention(dims, 4, 2)
        self.attention_norm = nn.RMSNorm(dims, eps=1e-5)
        self.ffn_norm = nn.RMSNorm(dims, eps=1e-5)
        self.feed_forward = Experts(dims, 2 * dims, 4, 2)

    def __call__(self, x, cache=None):
        y, cache = self.attention(self.attention_norm(x), cache)
        x = x + y
        return x + self.feed_forward(self.ffn_norm(x)), cache


class Model(nn.Module):
    def __init__(self, words: int = 64, dims: int = 64, layers: int = 2):
        super().__init__()
        self.tok_embeddings = nn.Embedding(words, dims)
        self.layers = [Block(dims) for _ in range(layers)]
        self.norm = nn.RMSNorm(dims)
        self.output = nn.Linear(dims, words, bias=False)

    def __call__(self, tokens, cache=None):
        x = self.tok_embeddings(tokens)
        cache = cache or [None] * len(self.layers)
        for number, layer in enumerate(self.layers):
            x, cache[number] = layer(x, cache[number])
        return self.output(self.norm(x)), cache


@partial(mx.compile, inputs=mx.random.state, outputs=mx.random.state)
def sample(logits, top_p: float = 0.9, temperature: float = 0.8):
    probabilities = mx.softmax(logits / temperature, axis=-1)
    order = mx.argsort(probabilities, axis=-1)
    ordered = mx.take_along_axis(probabilities, order, axis=-1)
    kept = mx.where(mx.cumsum(ordered, axis=-1) > 1 - top_p, ordered, 0.0)
    choice = mx.random.categorical(mx.log(kept))[:, None]
    return mx.take_along_axis(order, choice, axis=-1).squeeze(-1)


def generate(model, prompt, steps: int):
    tokens, cache = prompt, None
    for _ in range(steps):
        logits, cache = model(tokens, cache)
        tokens = sample(logits[:, -1].astype(mx.float32))[:, None]
        mx.async_eval(tokens)
        yield tokens.item()


mx.random.seed(4)
model = Model()
mx.eval(model.parameters())
print("parameters", sum(v.size for _, v in tree_flatten(model.parameters())))
prompt = mx.array([[1, 5, 9, 12]])
logits, cache = model(prompt)
print("logits", logits.shape, logits.dtype, cache[0][0].shape, f"{logits.std().item():.3f}")
mx.random.seed(8)
print("sampled", list(generate(model, prompt, 8)))
longer, _ = model(mx.concatenate([prompt, mx.array([[3]])], axis=1))
step, _ = model(mx.array([[3]]), cache)
print("cached", mx.allclose(longer[:, -1:], step, atol=1e-4).item())


def loss_fn(model, tokens):
    logits, _ = model(tokens[:, :-1])
    return nn.losses.cross_entropy(logits, tokens[:, 1:]).mean()


model.train()
tokens = mx.array(np.random.default_rng(3).integers(0, 64, (3, 9)))
optimizer = optim.Adafactor(learning_rate=1e-2, relative_step=False, scale_parameter=False)
loss_and_grad = nn.value_and_grad(model, loss_fn)
for _ in range(4):
    loss, gradients = loss_and_grad(model, tokens)
    optimizer.update(model, gradients)
    mx.eval(model, optimizer.state)
    print(f"loss {loss.item():.3f}")
nn.quantize(model, group_size=32, bits=8, class_predicate=lambda _, m: isinstance(m, nn.Linear))
print(type(model.output).__name__, type(model.tok_embeddings).__name__)
quantised, _ = model(prompt)
print("quantised", f"{quantised.mean().item():.3f} {quantised.std().item():.3f}")
print(
    "leaves", len(tree_flatten(model.parameters())), len(tree_flatten(model.trainable_parameters()))
)
