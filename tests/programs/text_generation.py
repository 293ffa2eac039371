"""A tiny causal transformer with rotary encodings and a key-value cache writes some tokens."""

import math

import mlx.core as mx
import mlx.nn as nn


class Attention(nn.Module):
    def __init__(self, dims, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dims // heads) ** -0.5
        self.qkv = nn.Linear(dims, 3 * dims, bias=False)
        self.out = nn.Linear(dims, dims, bias=False)
        self.rope = nn.RoPE(dims // heads)

    def __call__(self, x, mask=None, cache=None):
        B, L, D = x.shape
        q, k, v = mx.split(self.qkv(x), 3, axis=-1)
        q, k, v = (t.reshape(B, L, self.heads, -1).transpose(0, 2, 1, 3) for t in (q, k, v))
        offset = 0
        if cache is not None:
            offset = cache[0].shape[2]
            q = self.rope(q, offset=offset)
            k = mx.concatenate([cache[0], self.rope(k, offset=offset)], axis=2)
            v = mx.concatenate([cache[1], v], axis=2)
        else:
            q, k = self.rope(q), self.rope(k)
        o = mx.fast.scaled_dot_product_attention(q, k, v, scale=self.scale, mask=mask)
        return self.out(o.transpose(0, 2, 1, 3).reshape(B, L, D)), (k, v)


class Layer(nn.Module):
    def __init__(self, dims, heads):
        super().__init__()
        self.attention = Attention(dims, heads)
        self.norm1 = nn.RMSNorm(dims)
        self.norm2 = nn.RMSNorm(dims)
        self.up = nn.Linear(dims, 4 * dims)
        self.down = nn.Linear(4 * dims, dims)

    def __call__(self, x, mask=None, cache=None):
        h, cache = self.attention(self.norm1(x), mask, cache)
        x = x + h
        return x + self.down(nn.silu(self.up(self.norm2(x)))), cache


class Model(nn.Module):
    def __init__(self, vocabulary, dims=32, heads=4, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dims)
        self.layers = [Layer(dims, heads) for _ in range(layers)]
        self.norm = nn.RMSNorm(dims)
        self.head = nn.Linear(dims, vocabulary, bias=False)

    def __call__(self, tokens, cache=None):
        x = self.embedding(tokens) * math.sqrt(self.norm.weight.size)
        mask = None
        if tokens.shape[1] > 1:
            mask = nn.MultiHeadAttention.create_additive_causal_mask(tokens.shape[1])
        new = []
        for i, layer in enumerate(self.layers):
            x, c = layer(x, mask, None if cache is None else cache[i])
            new.append(c)
        return 4 * self.head(self.norm(x)), new


def generate(model, prompt, count, temperature):
    logits, cache = model(prompt)
    for _ in range(count):
        logits = logits[:, -1]
        if temperature == 0:
            token = mx.argmax(logits, axis=-1)
        else:
            token = mx.random.categorical(logits * (1 / temperature))
        yield token.item()
        logits, cache = model(token[:, None], cache)


mx.random.seed(42)
letters = "abcdefghijklmnopqrstuvwxyz "
model = Model(len(letters))
mx.eval(model.parameters())
prompt = mx.array([[letters.index(c) for c in "once upon a time"]])
print("prompt", prompt.shape, prompt.dtype)

logits, cache = model(prompt)
print("logits", logits.shape, "cache", len(cache), cache[0][0].shape)
values = mx.softmax(logits[0, -1], axis=-1)
top = mx.argsort(-values)[:3]
print("top", [letters[i] for i in top.tolist()], [f"{p:.3f}" for p in values[top].tolist()])

# One token at a time gives what the whole prompt gives at once.
step, kept = model(prompt[:, :1])
for i in range(1, prompt.shape[1]):
    step, kept = model(prompt[:, i : i + 1], kept)
print("cache agrees:", mx.allclose(step[:, -1], logits[:, -1], atol=1e-4).item())

print("greedy ", "".join(letters[t] for t in generate(model, prompt, 12, 0)))
mx.random.seed(7)
print("sampled", "".join(letters[t] for t in generate(model, prompt, 12, 1.0)))

losses = nn.losses.cross_entropy(logits[:, :-1], prompt[:, 1:])
print(f"perplexity {mx.exp(mx.mean(losses)).item():.2f}")
