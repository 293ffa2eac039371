"""A small convolutional network with batch normalisation learns to tell bars from blobs."""

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_flatten, tree_map


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1, bias=False)
        self.norm = nn.BatchNorm(outputs)

    def __call__(self, x):
        return nn.relu(self.norm(self.conv(x)))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(1, 8), nn.MaxPool2d(2, 2), Block(8, 16, stride=2))
        self.head = nn.Linear(16, 3)

    def __call__(self, x):
        return self.head(mx.mean(self.blocks(x), axis=(1, 2)))


def pictures(count, size=12):
    """Horizontal bars, vertical bars and blobs, with noise."""
    labels = mx.random.randint(0, 3, (count,))
    places = mx.random.randint(2, size - 2, (count, 2))
    rows = mx.arange(size)[None, :, None] - places[:, 0, None, None]
    columns = mx.arange(size)[None, None, :] - places[:, 1, None, None]
    horizontal = mx.broadcast_to(rows == 0, (count, size, size))
    vertical = mx.broadcast_to(columns == 0, (count, size, size))
    blob = rows * rows + columns * columns <= 4
    kind = labels[:, None, None]
    picture = mx.where(kind == 0, horizontal, mx.where(kind == 1, vertical, blob))
    noise = 0.1 * mx.random.normal((count, size, size))
    return (picture.astype(mx.float32) + noise)[..., None], labels


def loss_fn(model, x, y):
    return nn.losses.cross_entropy(model(x), y, reduction="mean")


mx.random.seed(5)
x, y = pictures(96)
print("pictures", x.shape, x.dtype, "labels", y[:8].tolist())
model = Network()
shapes = {name: value.shape for name, value in tree_flatten(model.parameters())}
for name, shape in shapes.items():
    print(f"{name:32s} {shape}")
optimizer = optim.AdamW(learning_rate=0.01, weight_decay=0.01)
loss_and_grad = nn.value_and_grad(model, loss_fn)
for step in range(15):
    loss, grads = loss_and_grad(model, x, y)
    optimizer.update(model, grads)
    mx.eval(model.state, optimizer.state)
    if step % 5 == 0:
        print(f"step {step:2d} loss {loss.item():.2f}")

model.eval()
bx, by = pictures(48)
print("learned:", mx.mean(mx.argmax(model(bx), axis=-1) == by).item() > 0.6)
norm = model.blocks.layers[0].norm
print("running mean moved:", mx.any(mx.abs(norm.running_mean) > 1e-3).item())
half = tree_map(lambda p: p.astype(mx.float16), model.parameters())
print("halved", {str(v.dtype) for _, v in tree_flatten(half)})
up = nn.Upsample(scale_factor=2, mode="linear")(mx.arange(4.0).reshape(1, 2, 2, 1))
print("upsampled", up.squeeze())
down = nn.AvgPool2d(2)(up)
print("pooled", down.shape, down.sum().item())
