"""Examples of ingot.core: products, convolutions and quantised weights."""

import ingot.core as mx

# %% matmul
print(mx.matmul(mx.array([[1.0, 2.0]]), mx.array([[3.0], [4.0]])).tolist())
# [[11.0]]

# %% addmm
print(mx.addmm(mx.array([1.0]), mx.ones((1, 3)), mx.ones((3, 2)), alpha=2.0).tolist())
# [[7.0, 7.0]]

# %% inner
print(mx.inner(mx.array([1.0, 2.0]), mx.array([3.0, 4.0])))
# array(11, dtype=float32)

# %% outer
print(mx.outer(mx.array([1, 2]), mx.array([3, 4])).tolist())
# [[3, 4], [6, 8]]

# %% vecdot
print(mx.vecdot(mx.array([[1.0, 2.0], [3.0, 4.0]]), mx.ones((2, 2))))
# array([3, 7], dtype=float32)

# %% tensordot
print(mx.tensordot(mx.ones((2, 3)), mx.ones((3, 4)), axes=1).shape)
# (2, 4)

# %% kron
print(mx.kron(mx.array([1, 2]), mx.array([1, 10])))
# array([1, 10, 2, 20], dtype=int32)

# %% einsum
print(mx.einsum("ij,jk->ik", mx.ones((2, 3)), mx.ones((3, 4))).shape)
# (2, 4)

# %% einsum_path
order, _ = mx.einsum_path("ij,jk,kl->il", mx.ones((2, 9)), mx.ones((9, 9)), mx.ones((9, 2)))
print(order)
# [(0, 1), (0, 1)]

# %% hadamard_transform
print(mx.hadamard_transform(mx.array([1.0, 1.0, 1.0, 1.0]), scale=1.0))
# array([4, 0, 0, 0], dtype=float32)

# %% block_masked_mm
mask = mx.array([[True, False]])
product = mx.block_masked_mm(mx.ones((32, 32)), mx.ones((32, 64)), 32, mask_out=mask)
print(product[0, 0], product[0, 63])
# array(32, dtype=float32) array(0, dtype=float32)

# %% gather_mm
experts = mx.stack([mx.eye(2), 2 * mx.eye(2)])
rows = mx.array([[[1.0, 2.0]], [[3.0, 4.0]]])
print(mx.gather_mm(rows, experts, rhs_indices=mx.array([1, 0])).tolist())
# [[[2.0, 4.0]], [[3.0, 4.0]]]

# %% segmented_mm
segments = mx.array([[0, 2], [2, 4]])
print(mx.segmented_mm(mx.ones((1, 4)), mx.ones((4, 1)), segments).tolist())
# [[[2.0]], [[2.0]]]

# %% convolve
print(mx.convolve(mx.array([1.0, 2.0, 3.0]), mx.array([1.0, 1.0])))
# array([1, 3, 5, 3], dtype=float32)

# %% conv1d
signal = mx.array([1.0, 2.0, 3.0, 4.0]).reshape(1, 4, 1)
print(mx.conv1d(signal, mx.ones((1, 2, 1))).squeeze())
# array([3, 5, 7], dtype=float32)

# %% conv2d
print(mx.conv2d(mx.ones((1, 4, 4, 3)), mx.ones((8, 3, 3, 3)), padding=1).shape)
# (1, 4, 4, 8)

# %% conv3d
print(mx.conv3d(mx.ones((1, 4, 4, 4, 1)), mx.ones((2, 3, 3, 3, 1))).shape)
# (1, 2, 2, 2, 2)

# %% conv_general
print(mx.conv_general(mx.ones((1, 5, 1)), mx.ones((1, 2, 1)), kernel_dilation=2).squeeze())
# array([2, 2, 2], dtype=float32)

# %% conv_transpose1d
print(mx.conv_transpose1d(mx.ones((1, 3, 1)), mx.ones((1, 2, 1)), stride=2).shape)
# (1, 6, 1)

# %% conv_transpose2d
print(mx.conv_transpose2d(mx.ones((1, 3, 3, 1)), mx.ones((1, 2, 2, 1)), stride=2).shape)
# (1, 6, 6, 1)

# %% conv_transpose3d
print(mx.conv_transpose3d(mx.ones((1, 2, 2, 2, 1)), mx.ones((1, 2, 2, 2, 1))).shape)
# (1, 3, 3, 3, 1)

# %% quantize
weights, scales, _ = mx.quantize(mx.ones((8, 64)), group_size=64, bits=4)
print(weights.shape, weights.dtype, scales.shape)
# (8, 8) ingot.core.uint32 (8, 1)

# %% dequantize
quantized = mx.quantize(mx.full((1, 32), 0.5), group_size=32, bits=8)
print(mx.dequantize(*quantized, group_size=32, bits=8)[0, :3])
# array([0.5, 0.5, 0.5], dtype=float32)

# %% quantized_matmul
quantized = mx.quantize(mx.ones((8, 64)), group_size=64, bits=4)
print(mx.quantized_matmul(mx.ones((1, 64)), *quantized, group_size=64, bits=4)[0, :2])
# array([64, 64], dtype=float32)

# %% gather_qmm
experts = mx.quantize(mx.ones((4, 8, 64)), group_size=64, bits=4)
chosen = mx.array([2])
y = mx.gather_qmm(mx.ones((1, 1, 64)), *experts, rhs_indices=chosen, group_size=64, bits=4)
print(y.shape)
# (1, 1, 8)

# %% qqmm
weights, scales = mx.quantize(mx.ones((8, 64)), mode="mxfp8")
print(mx.qqmm(mx.ones((1, 64)), weights, scales, mode="mxfp8")[0, :2])
# array([64, 64], dtype=float32)

# %% gather_qqmm
experts = mx.quantize(mx.ones((4, 32, 64)), mode="nvfp4")
y = mx.gather_qqmm(mx.ones((1, 1, 64)), *experts, rhs_indices=mx.array([2]), mode="nvfp4")
print(y.shape)
# (1, 1, 32)
