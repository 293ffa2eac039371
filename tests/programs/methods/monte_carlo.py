"""Random numbers with and without keys: estimates, walks, shuffles and choices."""

import math

import mlx.core as mx

mx.random.seed(2024)
points = mx.random.uniform(shape=(100_000, 2))
inside = mx.sum(mx.sum(mx.square(points), axis=1) < 1)
print("inside", inside.item(), "pi is about", 4 * inside.item() / 100_000)

key = mx.random.key(9)
keys = mx.random.split(key, 3)
print("keys", keys.tolist())
print("same key", mx.array_equal(mx.random.normal((3,), key=key), mx.random.normal((3,), key=key)))
print("other key", mx.array_equal(mx.random.normal((3,), key=keys[0]), mx.random.normal((3,))))
print("normal", mx.random.normal((2, 3), loc=1.0, scale=2.0, key=keys[1]))
print("half", mx.random.normal((4,), dtype=mx.float16, key=keys[2]))

walk = mx.cumsum(2 * mx.random.bernoulli(0.5, (20,)).astype(mx.int32) - 1)
print("walk", walk.tolist())
print("dice", mx.random.randint(1, 7, (15,)).tolist())
print("shuffled", mx.random.permutation(10).tolist())
rows = mx.random.permutation(mx.arange(12).reshape(4, 3), axis=0)
print("rows", rows.tolist())

logits = mx.log(mx.array([0.1, 0.2, 0.7]))
drawn = mx.random.categorical(logits, num_samples=1000)
print("drawn", [mx.sum(drawn == i).item() for i in range(3)])
print("truncated", mx.random.truncated_normal(-1.0, 1.0, (4,)))
print("gumbel", f"{mx.mean(mx.random.gumbel((5000,))).item():.3f}")
print("laplace", f"{mx.var(mx.random.laplace((5000,))).item():.2f}")
mean = mx.array([1.0, -1.0])
covariance = mx.array([[1.0, 0.5], [0.5, 2.0]])
sample = mx.random.multivariate_normal(mean, covariance, (4000,), stream=mx.cpu)
centered = sample - mx.mean(sample, axis=0)
print("covariance", mx.round(centered.T @ centered / 4000, 1).tolist())

# The same seed gives the same numbers again.
mx.random.seed(5)
first = mx.random.uniform(shape=(2,))
mx.random.seed(5)
print("repeats", mx.array_equal(first, mx.random.uniform(shape=(2,))).item())

# Buffon's needle, vectorised over several lengths.
lengths = mx.array([0.25, 0.5, 1.0])
angle = mx.random.uniform(0, math.pi, (3, 20_000))
centre = mx.random.uniform(0, 0.5, (3, 20_000))
hits = mx.mean(centre <= lengths[:, None] / 2 * mx.sin(angle), axis=1)
print("needles", [f"{pi:.2f}" for pi in (2 * lengths / hits).tolist()])
