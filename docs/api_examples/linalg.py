"""Examples of ingot.core.linalg."""

import ingot.core as mx

# %% norm
print(mx.linalg.norm(mx.array([3.0, 4.0])))
# array(5, dtype=float32)

# %% cross
print(mx.linalg.cross(mx.array([1.0, 0.0, 0.0]), mx.array([0.0, 1.0, 0.0])))
# array([0, 0, 1], dtype=float32)

# %% inv
print(mx.linalg.inv(mx.array([[2.0, 1.0], [1.0, 1.0]]), stream=mx.cpu).round(4).tolist())
# [[1.0, -1.0], [-1.0, 2.0]]

# %% pinv
print(mx.linalg.pinv(mx.array([[2.0], [0.0]]), stream=mx.cpu).shape)
# (1, 2)

# %% tri_inv
print(mx.linalg.tri_inv(mx.array([[1.0, 0.0], [2.0, 1.0]]), stream=mx.cpu).tolist())
# [[1.0, 0.0], [-2.0, 1.0]]

# %% cholesky
print(mx.linalg.cholesky(mx.array([[4.0, 2.0], [2.0, 2.0]]), stream=mx.cpu).tolist())
# [[2.0, 0.0], [1.0, 1.0]]

# %% cholesky_inv
factor = mx.linalg.cholesky(mx.array([[4.0, 0.0], [0.0, 1.0]]), stream=mx.cpu)
print(mx.linalg.cholesky_inv(factor, stream=mx.cpu).tolist())
# [[0.25, 0.0], [0.0, 1.0]]

# %% qr
q, r = mx.linalg.qr(mx.array([[3.0, 1.0], [4.0, 2.0]]), stream=mx.cpu)
print(mx.allclose(q @ r, mx.array([[3.0, 1.0], [4.0, 2.0]])))
# array(True, dtype=bool)

# %% lu
permutation, lower, upper = mx.linalg.lu(mx.array([[1.0, 2.0], [3.0, 4.0]]), stream=mx.cpu)
print((lower @ upper)[permutation].tolist())
# [[1.0, 2.0], [3.0, 4.0]]

# %% lu_factor
_, pivots = mx.linalg.lu_factor(mx.array([[1.0, 2.0], [3.0, 4.0]]), stream=mx.cpu)
print(pivots)
# array([1, 1], dtype=uint32)

# %% solve
a = mx.array([[2.0, 0.0], [0.0, 4.0]])
print(mx.linalg.solve(a, mx.array([2.0, 2.0]), stream=mx.cpu))
# array([1, 0.5], dtype=float32)

# %% solve_triangular
a = mx.array([[1.0, 2.0], [0.0, 4.0]])
print(mx.linalg.solve_triangular(a, mx.array([[5.0], [4.0]]), upper=True, stream=mx.cpu).tolist())
# [[3.0], [1.0]]

# %% svd
_, values, _ = mx.linalg.svd(mx.array([[3.0, 0.0], [0.0, 4.0]]), stream=mx.cpu)
print(values)
# array([4, 3], dtype=float32)

# %% eigh
values, _ = mx.linalg.eigh(mx.array([[2.0, 1.0], [1.0, 2.0]]), stream=mx.cpu)
print(mx.round(values, 4))
# array([1, 3], dtype=float32)

# %% eigvalsh
print(mx.round(mx.linalg.eigvalsh(mx.array([[2.0, 1.0], [1.0, 2.0]]), stream=mx.cpu), 4))
# array([1, 3], dtype=float32)

# %% eig
values, _ = mx.linalg.eig(mx.array([[0.0, -1.0], [1.0, 0.0]]), stream=mx.cpu)
print(mx.abs(values))
# array([1, 1], dtype=float32)

# %% eigvals
print(mx.linalg.eigvals(mx.array([[2.0, 0.0], [0.0, 3.0]]), stream=mx.cpu))
# array([2+0j, 3+0j], dtype=complex64)

# %% det
print(mx.linalg.det(mx.array([[1.0, 2.0], [3.0, 4.0]]), stream=mx.cpu))
# array(-2, dtype=float32)

# %% slogdet
sign, logarithm = mx.linalg.slogdet(mx.array([[2.0, 0.0], [0.0, -4.0]]), stream=mx.cpu)
print(sign, logarithm)
# array(-1, dtype=float32) array(2.07944, dtype=float32)
