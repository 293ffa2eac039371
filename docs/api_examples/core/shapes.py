"""Examples of ingot.core: shapes, layouts and joining."""

import ingot.core as mx

# %% reshape
print(mx.reshape(mx.arange(6), (2, -1)).tolist())
# [[0, 1, 2], [3, 4, 5]]

# %% flatten
print(mx.flatten(mx.zeros((2, 3, 4)), start_axis=1).shape)
# (2, 12)

# %% unflatten
print(mx.unflatten(mx.zeros((6, 2)), 0, (2, 3)).shape)
# (2, 3, 2)

# %% transpose
print(mx.transpose(mx.zeros((2, 3, 4)), (2, 0, 1)).shape)
# (4, 2, 3)

# %% permute_dims
print(mx.permute_dims(mx.zeros((2, 3, 4)), (2, 0, 1)).shape)
# (4, 2, 3)

# %% matrix_transpose
print(mx.matrix_transpose(mx.array([[1, 2], [3, 4]])).tolist())
# [[1, 3], [2, 4]]

# %% swapaxes
print(mx.swapaxes(mx.zeros((2, 3, 4)), 0, 2).shape)
# (4, 3, 2)

# %% moveaxis
print(mx.moveaxis(mx.zeros((2, 3, 4)), 0, -1).shape)
# (3, 4, 2)

# %% expand_dims
print(mx.expand_dims(mx.zeros((2, 3)), 1).shape)
# (2, 1, 3)

# %% squeeze
print(mx.squeeze(mx.zeros((1, 3, 1))).shape)
# (3,)

# %% atleast_1d
print(mx.atleast_1d(mx.array(5)))
# array([5], dtype=int32)

# %% atleast_2d
print(mx.atleast_2d(mx.array([1, 2])).shape)
# (1, 2)

# %% atleast_3d
print(mx.atleast_3d(mx.array([1, 2])).shape)
# (1, 2, 1)

# %% broadcast_to
print(mx.broadcast_to(mx.array([1, 2]), (2, 2)).tolist())
# [[1, 2], [1, 2]]

# %% broadcast_arrays
x, y = mx.broadcast_arrays(mx.zeros((3, 1)), mx.zeros(4))
print(x.shape, y.shape)
# (3, 4) (3, 4)

# %% broadcast_shapes
print(mx.broadcast_shapes((3, 1), (4,)))
# (3, 4)

# %% as_strided
print(mx.as_strided(mx.arange(5), (3, 3), (1, 1)).tolist())
# [[0, 1, 2], [1, 2, 3], [2, 3, 4]]

# %% contiguous
print(mx.contiguous(mx.arange(6)[::2]))
# array([0, 2, 4], dtype=int32)

# %% concatenate
print(mx.concatenate([mx.array([1, 2]), mx.array([3])]))
# array([1, 2, 3], dtype=int32)

# %% concat
print(mx.concat([mx.zeros((2, 1)), mx.ones((2, 2))], axis=1).shape)
# (2, 3)

# %% stack
print(mx.stack([mx.array([1, 2]), mx.array([3, 4])], axis=1).tolist())
# [[1, 3], [2, 4]]

# %% unstack
first, second = mx.unstack(mx.array([[1, 2], [3, 4]]))
print(first, second)
# array([1, 2], dtype=int32) array([3, 4], dtype=int32)

# %% split
print([part.tolist() for part in mx.split(mx.arange(5), [1, 3])])
# [[0], [1, 2], [3, 4]]

# %% pad
print(mx.pad(mx.array([1, 2]), (1, 2)))
# array([0, 1, 2, 0, 0], dtype=int32)

# %% tile
print(mx.tile(mx.array([1, 2]), 2))
# array([1, 2, 1, 2], dtype=int32)

# %% repeat
print(mx.repeat(mx.array([1, 2]), 2))
# array([1, 1, 2, 2], dtype=int32)

# %% roll
print(mx.roll(mx.array([1, 2, 3, 4]), 1))
# array([4, 1, 2, 3], dtype=int32)

# %% flip
print(mx.flip(mx.array([1, 2, 3])))
# array([3, 2, 1], dtype=int32)

# %% diagonal
print(mx.diagonal(mx.array([[1, 2], [3, 4]]), 1))
# array([2], dtype=int32)

# %% tril
print(mx.tril(mx.ones((3, 3), mx.int32)).tolist())
# [[1, 0, 0], [1, 1, 0], [1, 1, 1]]

# %% triu
print(mx.triu(mx.ones((3, 3), mx.int32)).tolist())
# [[1, 1, 1], [0, 1, 1], [0, 0, 1]]
