"""Examples of ingot.nn.init."""

import ingot.core as mx
from ingot import nn

# %% constant
print(nn.init.constant(0.5)(mx.zeros(3)))
# array([0.5, 0.5, 0.5], dtype=float32)

# %% normal
print(nn.init.normal(mean=0.0, std=0.1)(mx.zeros((2, 2))).shape)
# (2, 2)

# %% uniform
values = nn.init.uniform(-0.1, 0.1)(mx.zeros((100, 100)))
print(mx.abs(values).max() <= 0.1)
# array(True, dtype=bool)

# %% identity
print(nn.init.identity()(mx.zeros((2, 2))).tolist())
# [[1.0, 0.0], [0.0, 1.0]]

# %% glorot_normal
print(nn.init.glorot_normal()(mx.zeros((2, 3))).shape)
# (2, 3)

# %% glorot_uniform
values = nn.init.glorot_uniform()(mx.zeros((50, 100)))
print(mx.abs(values).max() <= 0.2)
# array(True, dtype=bool)

# %% he_normal
print(nn.init.he_normal()(mx.zeros((2, 3)), mode="fan_out").shape)
# (2, 3)

# %% he_uniform
print(nn.init.he_uniform()(mx.zeros((2, 3)), gain=1.0).shape)
# (2, 3)

# %% orthogonal
q = nn.init.orthogonal()(mx.zeros((3, 3)))
print(mx.allclose(q @ q.T, mx.eye(3), atol=1e-5))
# array(True, dtype=bool)

# %% sparse
values = nn.init.sparse(sparsity=0.5)(mx.zeros((4, 4)))
print((values == 0).sum())
# array(8, dtype=int32)
