"""Fits a line to noisy points with gradient descent, first by hand and then with momentum."""

import mlx.core as mx

num_features = 100
num_examples = 500
learning_rate = 0.02

mx.random.seed(0)
w_star = mx.random.normal((num_features,))
X = mx.random.normal((num_examples, num_features))
noise = 1e-2 * mx.random.normal((num_examples,))
y = X @ w_star + noise


def loss_fn(w):
    return 0.5 * mx.mean(mx.square(X @ w - y))


grad_fn = mx.grad(loss_fn)
w = 1e-2 * mx.random.normal((num_features,))
for step in range(400):
    w = w - learning_rate * grad_fn(w)
    mx.eval(w)
    if step % 50 == 0:
        print(f"step {step:3d} loss {loss_fn(w).item():.4f}")

error = mx.linalg.norm(w - w_star)
print(f"loss {loss_fn(w).item():.2e} distance {error.item():.3f}")

# The same with momentum, from the same kind of start.
w = 1e-2 * mx.random.normal((num_features,))
velocity = mx.zeros_like(w)
value_and_grad = mx.value_and_grad(loss_fn)
losses = []
for _ in range(150):
    loss, grad = value_and_grad(w)
    velocity = 0.9 * velocity + grad
    w = w - learning_rate * velocity
    losses.append(loss)
losses = mx.stack(losses)
print("momentum", [f"{v:.3f}" for v in losses[::30].tolist()])
print("largest", mx.max(losses).item() == losses[0].item(), losses.shape, losses.dtype)

exact = mx.linalg.solve(X.T @ X, X.T @ y, stream=mx.cpu)
print("normal equations agree:", mx.allclose(w, exact, atol=1e-2).item())
