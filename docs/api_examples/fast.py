"""Examples of ingot.core.fast."""

import ingot.core as mx

# %% layer_norm
print(mx.fast.layer_norm(mx.array([1.0, 2.0, 3.0]), None, None, 1e-5))
# array([-1.22474, 0, 1.22474], dtype=float32)

# %% rms_norm
print(mx.fast.rms_norm(mx.array([3.0, 4.0]), None, 1e-5))
# array([0.848528, 1.13137], dtype=float32)

# %% rope
x = mx.ones((1, 1, 2, 4))  # batch, heads, positions, features
print(mx.fast.rope(x, 4, traditional=False, base=10000.0, scale=1.0, offset=0)[0, 0, 1])
# array([-0.301169, 0.98995, 1.38177, 1.00995], dtype=float32)

# %% scaled_dot_product_attention
queries = keys = values = mx.ones((1, 2, 3, 4))  # batch, heads, positions, features
attended = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=0.5, mask="causal")
print(attended.shape)
# (1, 2, 3, 4)

# %% cross_entropy
print(mx.fast.cross_entropy(mx.array([[2.0, 0.0]]), mx.array([0])))
# array([0.126928], dtype=float32)

# %% gated_delta_update
q = k = mx.ones((1, 2, 1, 8)) / 8**0.5  # batch, positions, heads, features
v = mx.ones((1, 2, 1, 4))
decay = strength = mx.ones((1, 2, 1))
output, memory = mx.fast.gated_delta_update(q, k, v, decay, strength)
print(output.shape, memory.shape)
# (1, 2, 1, 4) (1, 1, 4, 8)

# %% metal_kernel
try:
    mx.fast.metal_kernel("name", ["x"], ["y"], "y[0] = x[0];")
except RuntimeError as error:
    print(type(error).__name__)

# %% cuda_kernel
try:
    mx.fast.cuda_kernel("name", ["x"], ["y"], "y[0] = x[0];")
except RuntimeError as error:
    print(type(error).__name__)
    # RuntimeError

# %% precompiled_cuda_kernel
try:
    mx.fast.precompiled_cuda_kernel(
        name="name",
        compiled_source=b"",
        inputs=[mx.zeros(1)],
        output_shapes=[(1,)],
        output_dtypes=[mx.float32],
        scalars=[],
        grid=(1, 1, 1),
        threadgroup=(1, 1, 1),
    )
except RuntimeError as error:
    print(type(error).__name__)
    # RuntimeError
