"""Examples of ingot.core: reading and writing by position."""

import ingot.core as mx

# %% take
print(mx.take(mx.array([10, 20, 30]), mx.array([2, 0])))
# array([30, 10], dtype=int32)

# %% take_along_axis
x = mx.array([[3, 1], [2, 4]])
print(mx.take_along_axis(x, mx.argsort(x, axis=1), axis=1).tolist())
# [[1, 3], [2, 4]]

# %% put_along_axis
print(mx.put_along_axis(mx.zeros((1, 3)), mx.array([[1]]), mx.array(5.0), axis=1).tolist())
# [[0.0, 5.0, 0.0]]

# %% slice
print(mx.slice(mx.arange(10), mx.array([2]), axes=(0,), slice_size=(3,)))
# array([2, 3, 4], dtype=int32)

# %% slice_update
print(mx.slice_update(mx.zeros(5), mx.ones(2), mx.array([1]), axes=(0,)))
# array([0, 1, 1, 0, 0], dtype=float32)

# %% nonzero
print(mx.nonzero(mx.array([0, 3, 0, 5])))
# (array([1, 3], dtype=uint32),)

# %% argwhere
print(mx.argwhere(mx.array([[0, 3], [5, 0]])).tolist())
# [[0, 1], [1, 0]]
