"""grad, vmap, jvp, vjp, custom functions and checkpoints, alone and one inside the other."""

import mlx.core as mx


def show(name, value):
    numbers = [f"{v:.3f}" for v in (value.flatten() + 1e-9).tolist()]
    print(f"{name:20s} {value.shape} {value.dtype}", " ".join(numbers))


def f(x):
    return mx.sum(mx.sin(x) * mx.exp(-0.1 * x * x))


x = mx.linspace(-2, 2, 5)
show("value", f(x))
show("gradient", mx.grad(f)(x))
value, gradient = mx.value_and_grad(f)(x)
show("second derivative", mx.grad(lambda x: mx.sum(mx.grad(f)(x)))(x))

# The Hessian, by a map over the rows of the identity.
hessian = mx.vmap(lambda v: mx.vjp(mx.grad(f), [x], [v])[1][0])(mx.eye(5))
show("hessian diagonal", mx.diagonal(hessian))
show("off the diagonal", mx.max(mx.abs(hessian - mx.diag(mx.diagonal(hessian)))))

outputs, tangents = mx.jvp(lambda a, b: a * mx.tanh(b), [x, x + 1], [mx.ones(5), mx.ones(5)])
show("jvp", tangents[0])
outputs, cotangents = mx.vjp(lambda a, b: a @ b, [mx.ones((2, 3)), mx.ones((3, 2))], [mx.eye(2)])
show("vjp", cotangents[1])

# Gradients for each example of a batch.
weights = mx.array([[0.5, -1.0], [2.0, 0.25]])
batch = mx.arange(6.0).reshape(3, 2)
each = mx.vmap(mx.grad(lambda w, x: mx.sum(mx.tanh(w @ x))), in_axes=(None, 0))(weights, batch)
show("each example", each[:, 0, 0])

table = mx.vmap(mx.vmap(mx.maximum, in_axes=(None, 0)), in_axes=(0, None))(x, x)
show("table", table)
last = mx.vmap(lambda a, b: a + b, in_axes=(0, 1), out_axes=1)(mx.ones((2, 3)), mx.zeros((3, 2)))
show("axes", last)

tree = {"w": mx.array([1.0, 2.0]), "b": mx.array(0.5)}
grads = mx.grad(lambda p: mx.sum(p["w"] ** 3) * p["b"])(tree)
for key in sorted(grads):
    show(f"tree {key}", grads[key])
grads = mx.grad(lambda a, b: mx.sum(a * b * b), argnums=(0, 1))(x, x + 1)
show("two arguments", grads[1])
_, by_name = mx.value_and_grad(lambda a, *, scale: mx.sum(a) * scale, argnames="scale")(
    x, scale=mx.array(2.0)
)
show("by name", by_name[1]["scale"])


@mx.custom_function
def clamped(x):
    return mx.clip(x, -1, 1)


@clamped.vjp
def clamped_vjp(primal, cotangent, output):
    return cotangent  # straight through


show("straight through", mx.grad(lambda x: mx.sum(clamped(x) ** 2))(x))
show("stopped", mx.grad(lambda x: mx.sum(mx.stop_gradient(x) * x))(x))


def deep(x):
    for _ in range(3):
        x = mx.checkpoint(lambda x: mx.sin(x) + 0.5 * x)(x)
    return mx.sum(x)


show("checkpointed", mx.grad(deep)(x))
compiled = mx.compile(mx.grad(f))
print("compiled gradient agrees:", mx.allclose(compiled(x), mx.grad(f)(x), atol=1e-6).item())

try:
    mx.grad(lambda x: x)(x)
except ValueError as error:
    print("a vector has no gradient:", type(error).__name__)
