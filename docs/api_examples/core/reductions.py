"""Examples of ingot.core: reductions, scans and sorting."""

import ingot.core as mx

# %% sum
x = mx.array([[1, 2], [3, 4]])
print(mx.sum(x), mx.sum(x, axis=0))
# array(10, dtype=int32) array([4, 6], dtype=int32)

# %% prod
print(mx.prod(mx.array([[1, 2], [3, 4]]), axis=1))
# array([2, 12], dtype=int32)

# %% mean
print(mx.mean(mx.array([[1, 2], [3, 4]]), axis=0))
# array([2, 3], dtype=float32)

# %% var
print(mx.var(mx.array([1.0, 2.0, 3.0])), mx.var(mx.array([1.0, 2.0, 3.0]), ddof=1))
# array(0.666667, dtype=float32) array(1, dtype=float32)

# %% std
print(mx.std(mx.array([1.0, 3.0])))
# array(1, dtype=float32)

# %% median
print(mx.median(mx.array([3.0, 1.0, 2.0, 10.0])))
# array(2.5, dtype=float32)

# %% max
print(mx.max(mx.array([[1, 9], [3, 4]]), axis=1))
# array([9, 4], dtype=int32)

# %% min
print(mx.min(mx.array([[1, 9], [3, 4]]), axis=1))
# array([1, 3], dtype=int32)

# %% minmax
low, high = mx.minmax(mx.array([3, 1, 2]))
print(low, high)
# array(1, dtype=int32) array(3, dtype=int32)

# %% argmax
print(mx.argmax(mx.array([[1, 9], [3, 4]]), axis=1))
# array([1, 1], dtype=uint32)

# %% argmin
print(mx.argmin(mx.array([[1, 9], [3, 4]]), axis=1))
# array([0, 0], dtype=uint32)

# %% all
print(mx.all(mx.array([[True, False], [True, True]]), axis=1))
# array([False, True], dtype=bool)

# %% any
print(mx.any(mx.array([[False, False], [True, False]]), axis=1))
# array([False, True], dtype=bool)

# %% count_nonzero
print(mx.count_nonzero(mx.array([0, 3, 0, 5])))
# array(2, dtype=int32)

# %% logsumexp
print(mx.logsumexp(mx.array([1000.0, 1000.0])))
# array(1000.69, dtype=float32)

# %% matrix_norm
print(mx.matrix_norm(mx.array([[3.0, 0.0], [0.0, 4.0]])))
# array(5, dtype=float32)

# %% cumsum
print(mx.cumsum(mx.array([1, 2, 3])), mx.cumsum(mx.array([1, 2, 3]), reverse=True))
# array([1, 3, 6], dtype=int32) array([6, 5, 3], dtype=int32)

# %% cumulative_sum
print(mx.cumulative_sum(mx.array([1, 2, 3])))
# array([1, 3, 6], dtype=int32)

# %% cumprod
print(mx.cumprod(mx.array([1, 2, 3, 4])))
# array([1, 2, 6, 24], dtype=int32)

# %% cumulative_prod
print(mx.cumulative_prod(mx.array([1, 2, 3, 4])))
# array([1, 2, 6, 24], dtype=int32)

# %% cummax
print(mx.cummax(mx.array([1, 3, 2, 5])))
# array([1, 3, 3, 5], dtype=int32)

# %% cummin
print(mx.cummin(mx.array([4, 3, 5, 1])))
# array([4, 3, 3, 1], dtype=int32)

# %% logcumsumexp
print(mx.logcumsumexp(mx.array([0.0, 0.0, 0.0])))
# array([0, 0.693147, 1.09861], dtype=float32)

# %% diff
print(mx.diff(mx.array([1, 4, 9, 16])))
# array([3, 5, 7], dtype=int32)

# %% sort
print(mx.sort(mx.array([3, 1, 2])))
# array([1, 2, 3], dtype=int32)

# %% argsort
print(mx.argsort(mx.array([3, 1, 2])))
# array([1, 2, 0], dtype=uint32)

# %% partition
x = mx.partition(mx.array([5, 1, 4, 2, 3]), 2)
print(x[2])
# array(3, dtype=int32)

# %% argpartition
x = mx.array([5, 1, 4, 2, 3])
print(x[mx.argpartition(x, 2)][2])
# array(3, dtype=int32)

# %% topk
print(mx.sort(mx.topk(mx.array([5, 1, 4, 2]), 2)))
# array([4, 5], dtype=int32)

# %% searchsorted
print(mx.searchsorted(mx.array([1, 3, 5]), mx.array([0, 3, 9])))
# array([0, 1, 3], dtype=uint32)

# %% unique
print(mx.unique(mx.array([3, 1, 3, 2]), size=3))
# array([1, 2, 3], dtype=int32)

# %% trace
print(mx.trace(mx.array([[1, 2], [3, 4]])))
# array(5, dtype=int32)
