"""Examples of ingot.core.random: the same numbers as MLX, for the same keys."""

import ingot.core as mx

# %% seed
mx.random.seed(7)
print(mx.random.uniform(shape=(2,)))
# array([0.514767, 0.0784912], dtype=float32)

# %% key
print(mx.random.key(7))
# array([0, 7], dtype=uint32)

# %% split
first, _ = mx.random.split(mx.random.key(7))
print(mx.random.uniform(shape=(2,), key=first))
# array([0.807339, 0.131145], dtype=float32)

# %% uniform
print(mx.random.uniform(low=-1, high=1, shape=(3,), key=mx.random.key(7)))
# array([-0.550031, -0.147679, -0.0927813], dtype=float32)

# %% normal
print(mx.random.normal(shape=(3,), loc=5.0, scale=0.1, key=mx.random.key(7)))
# array([4.92445, 4.98138, 4.98835], dtype=float32)

# %% truncated_normal
print(mx.random.truncated_normal(-1.0, 1.0, (3,), key=mx.random.key(7)))
# array([-0.489483, -0.126696, -0.0794695], dtype=float32)

# %% laplace
print(mx.random.laplace(shape=(3,), key=mx.random.key(7)))
# array([0.798576, 0.159792, 0.0973717], dtype=float32)

# %% gumbel
print(mx.random.gumbel(shape=(3,), key=mx.random.key(7)))
# array([-0.399932, 0.159067, 0.235066], dtype=float32)

# %% randint
print(mx.random.randint(0, 10, (5,), key=mx.random.key(7)))
# array([0, 2, 6, 3, 6], dtype=int32)

# %% bernoulli
print(mx.random.bernoulli(0.5, (4,), key=mx.random.key(7)))
# array([True, True, True, True], dtype=bool)

# %% categorical
logits = mx.log(mx.array([0.1, 0.2, 0.7]))
print(mx.random.categorical(logits, num_samples=5, key=mx.random.key(7)))
# array([0, 1, 2, 2, 2], dtype=uint32)

# %% permutation
print(mx.random.permutation(5, key=mx.random.key(7)))
# array([0, 1, 3, 2, 4], dtype=uint32)

# %% multivariate_normal
mean, covariance = mx.zeros(2), mx.eye(2)
sample = mx.random.multivariate_normal(mean, covariance, (4,), key=mx.random.key(7), stream=mx.cpu)
print(sample.shape)
# (4, 2)
