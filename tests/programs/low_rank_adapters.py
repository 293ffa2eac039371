"""Freezes a model, adds low-rank adapters to its linear layers, and trains only those."""

import math

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_flatten, tree_map, tree_map_with_path, tree_unflatten


class LoRALinear(nn.Module):
    def __init__(self, linear, rank=2, scale=2.0):
        super().__init__()
        outputs, inputs = linear.weight.shape
        self.linear = linear
        self.scale = scale
        bound = 1 / math.sqrt(inputs)
        self.lora_a = mx.random.uniform(low=-bound, high=bound, shape=(inputs, rank))
        self.lora_b = mx.zeros((rank, outputs))

    def __call__(self, x):
        return self.linear(x) + self.scale * ((x @ self.lora_a) @ self.lora_b)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 12)
        self.attention = nn.MultiHeadAttention(12, 3)
        self.norm = nn.LayerNorm(12)
        self.head = nn.Linear(12, 4)
        self._steps = 0

    def __call__(self, tokens):
        x = self.embed(tokens)
        x = self.norm(x + self.attention(x, x, x))
        return self.head(x.mean(axis=1))


def count(tree):
    return sum(v.size for _, v in tree_flatten(tree))


mx.random.seed(23)
model = Encoder()
tokens = mx.random.randint(0, 16, (20, 6))
labels = mx.sum(tokens == 3, axis=1).astype(mx.int32) % 4
before = model(tokens)
print("parameters", count(model.parameters()), "trainable", count(model.trainable_parameters()))

model.freeze()
print("frozen", count(model.trainable_parameters()))
adapted = [
    (name, LoRALinear(module))
    for name, module in model.named_modules()
    if isinstance(module, nn.Linear)
]
model.update_modules(tree_unflatten(adapted))
print("adapted", sorted(name for name, _ in adapted))
print("trainable", sorted(name for name, _ in tree_flatten(model.trainable_parameters())))
print("nothing changed yet:", mx.allclose(before, model(tokens), atol=1e-6).item())

loss_and_grad = nn.value_and_grad(
    model, lambda m, x, y: nn.losses.cross_entropy(m(x), y, label_smoothing=0.1).mean()
)
optimizer = optim.Lion(learning_rate=optim.step_decay(5e-3, 0.5, 10))
frozen = model.head.linear.weight
losses = []
for _ in range(20):
    loss, grads = loss_and_grad(model, tokens, labels)
    optimizer.update(model, grads)
    mx.eval(model.parameters(), optimizer.state)
    losses.append(loss.item())
print("losses", f"{losses[0]:.3f}", "fell:", losses[-1] < losses[0])
print("rate", f"{optimizer.learning_rate.item():.5f}")
print("the base stayed:", mx.array_equal(frozen, model.head.linear.weight).item())

norms = tree_map(lambda g: mx.linalg.norm(g) > 0, grads)
print("gradients", all(v.item() for _, v in tree_flatten(norms)))
paths = tree_map_with_path(lambda path, v: path.count("."), model.trainable_parameters())
print("depths", sorted({depth for _, depth in tree_flatten(paths)}))
model.unfreeze(keys=["bias"])
print("with biases", count(model.trainable_parameters()))
model.apply_to_modules(lambda name, m: m.unfreeze() if name == "norm" else None)
print("with norm", count(model.trainable_parameters()))
model.set_dtype(mx.bfloat16)
print("dtypes", {str(v.dtype) for _, v in tree_flatten(model.parameters())})
print("leaves", len(model.leaf_modules()), "children", sorted(model.children()))
