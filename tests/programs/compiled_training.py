"""A compiled training step with captured state: dropout, momentum, warm-up, clipped gradients."""

from functools import partial

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

mx.random.seed(11)
x = mx.random.uniform(-1, 1, (64, 8))
target = mx.sin(3 * x[:, 0]) * x[:, 1] + mx.cos(x[:, 2])

model = nn.Sequential(
    nn.Linear(8, 32), nn.Tanh(), nn.Dropout(0.1), nn.LayerNorm(32), nn.Linear(32, 1)
)
warm_up = optim.linear_schedule(0.0, 0.05, steps=10)
decay = optim.cosine_decay(0.05, 50)
optimizer = optim.SGD(learning_rate=optim.join_schedules([warm_up, decay], [10]), momentum=0.8)
state = [model.state, optimizer.state, mx.random.state]
mx.eval(state)


def loss_fn(x, y):
    return nn.losses.mse_loss(model(x).squeeze(-1), y)


@partial(mx.compile, inputs=state, outputs=state)
def step(x, y):
    loss, grads = nn.value_and_grad(model, loss_fn)(x, y)
    grads, norm = optim.clip_grad_norm(grads, max_norm=0.5)
    optimizer.update(model, grads)
    return loss, norm


for i in range(40):
    loss, norm = step(x, target)
    mx.eval(state)
    if i % 8 == 0 or i == 39:
        rate = optimizer.learning_rate.item()
        print(f"{i:2d} loss {loss.item():.3f} norm {norm.item():.3f} rate {rate:.5f}")

model.eval()
print("training", model.training, "steps", optimizer.step.item())
print("without dropout twice the same:", mx.array_equal(model(x), model(x)).item())


@mx.compile
def predict(x):
    return model(x).squeeze(-1)


print("compiled prediction agrees:", mx.allclose(predict(x), model(x)[:, 0], atol=1e-5).item())
print(f"final {nn.losses.mse_loss(predict(x), target).item():.3f}")
