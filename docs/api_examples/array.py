"""Examples of ingot.core.array: the methods and attributes of arrays."""

import ingot.core as mx

# %% shape
print(mx.zeros((2, 3)).shape)
# (2, 3)

# %% ndim
print(mx.zeros((2, 3)).ndim)
# 2

# %% size
print(mx.zeros((2, 3)).size)
# 6

# %% dtype
print(mx.zeros(2, mx.int8).dtype)
# ingot.core.int8

# %% itemsize
print(mx.zeros(2, mx.int16).itemsize)
# 2

# %% nbytes
print(mx.zeros((2, 3)).nbytes)
# 24

# %% T
print(mx.zeros((2, 3)).T.shape)
# (3, 2)

# %% mT
print(mx.zeros((5, 2, 3)).mT.shape)
# (5, 3, 2)

# %% real
print(mx.array([1 + 2j]).real)
# array([1], dtype=float32)

# %% imag
print(mx.array([1 + 2j]).imag)
# array([2], dtype=float32)

# %% at
print(mx.zeros(3).at[1].add(5))
# array([0, 5, 0], dtype=float32)
print(mx.array([1, 5, 3]).at[:2].maximum(4))
# array([4, 5, 3], dtype=int32)

# %% item
print(mx.array([1, 2, 3]).sum().item())
# 6

# %% tolist
print(mx.array([[1, 2], [3, 4]]).tolist())
# [[1, 2], [3, 4]]

# %% astype
print(mx.array([1.9, 2.1]).astype(mx.int32))
# array([1, 2], dtype=int32)

# %% view
print(mx.array([1.0]).view(mx.uint32))
# array([1065353216], dtype=uint32)

# %% abs
print(mx.array([-1, 2]).abs())
# array([1, 2], dtype=int32)

# %% square
print(mx.array([3, 4]).square())
# array([9, 16], dtype=int32)

# %% sqrt
print(mx.array([4.0, 9.0]).sqrt())
# array([2, 3], dtype=float32)

# %% rsqrt
print(mx.array([4.0]).rsqrt())
# array([0.5], dtype=float32)

# %% reciprocal
print(mx.array([2.0, 4.0]).reciprocal())
# array([0.5, 0.25], dtype=float32)

# %% exp
print(mx.array([0.0, 1.0]).exp())
# array([1, 2.71828], dtype=float32)

# %% log
print(mx.array([1.0, 10.0]).log())
# array([0, 2.30259], dtype=float32)

# %% log2
print(mx.array([8.0]).log2())
# array([3], dtype=float32)

# %% log10
print(mx.array([100.0]).log10())
# array([2], dtype=float32)

# %% log1p
print(mx.array([0.0, 1.0]).log1p())
# array([0, 0.693147], dtype=float32)

# %% sin
print(mx.array([0.0, 1.0]).sin())
# array([0, 0.841471], dtype=float32)

# %% cos
print(mx.array([0.0, 1.0]).cos())
# array([1, 0.540302], dtype=float32)

# %% conj
print(mx.array([1 + 2j]).conj())
# array([1-2j], dtype=complex64)

# %% round
print(mx.array([1.234, 5.678]).round(1))
# array([1.2, 5.7], dtype=float32)

# %% sum
print(mx.array([[1, 2], [3, 4]]).sum(axis=0))
# array([4, 6], dtype=int32)

# %% prod
print(mx.array([1, 2, 3, 4]).prod())
# array(24, dtype=int32)

# %% mean
print(mx.array([[1, 2], [3, 4]]).mean(axis=1))
# array([1.5, 3.5], dtype=float32)

# %% var
print(mx.array([1.0, 2.0, 3.0]).var())
# array(0.666667, dtype=float32)

# %% std
print(mx.array([1.0, 3.0]).std())
# array(1, dtype=float32)

# %% max
print(mx.array([[1, 9], [3, 4]]).max(axis=0))
# array([3, 9], dtype=int32)

# %% min
print(mx.array([[1, 9], [3, 4]]).min(axis=0))
# array([1, 4], dtype=int32)

# %% argmax
print(mx.array([1, 9, 3]).argmax())
# array(1, dtype=uint32)

# %% argmin
print(mx.array([4, 1, 3]).argmin())
# array(1, dtype=uint32)

# %% all
print(mx.array([True, False]).all())
# array(False, dtype=bool)

# %% any
print(mx.array([True, False]).any())
# array(True, dtype=bool)

# %% logsumexp
print(mx.array([0.0, 0.0]).logsumexp())
# array(0.693147, dtype=float32)

# %% cumsum
print(mx.array([1, 2, 3]).cumsum())
# array([1, 3, 6], dtype=int32)

# %% cumprod
print(mx.array([1, 2, 3]).cumprod())
# array([1, 2, 6], dtype=int32)

# %% cummax
print(mx.array([1, 3, 2]).cummax())
# array([1, 3, 3], dtype=int32)

# %% cummin
print(mx.array([3, 1, 2]).cummin())
# array([3, 1, 1], dtype=int32)

# %% logcumsumexp
print(mx.array([0.0, 0.0]).logcumsumexp())
# array([0, 0.693147], dtype=float32)

# %% diag
print(mx.array([1, 2]).diag().tolist())
# [[1, 0], [0, 2]]

# %% diagonal
print(mx.array([[1, 2], [3, 4]]).diagonal())
# array([1, 4], dtype=int32)

# %% reshape
print(mx.arange(6).reshape(2, -1).tolist())
# [[0, 1, 2], [3, 4, 5]]

# %% flatten
print(mx.zeros((2, 3)).flatten().shape)
# (6,)

# %% squeeze
print(mx.zeros((1, 3)).squeeze().shape)
# (3,)

# %% transpose
print(mx.zeros((2, 3, 4)).transpose(2, 0, 1).shape)
# (4, 2, 3)

# %% swapaxes
print(mx.zeros((2, 3, 4)).swapaxes(0, 2).shape)
# (4, 3, 2)

# %% moveaxis
print(mx.zeros((2, 3, 4)).moveaxis(0, -1).shape)
# (3, 4, 2)

# %% split
print([part.tolist() for part in mx.arange(4).split(2)])
# [[0, 1], [2, 3]]
