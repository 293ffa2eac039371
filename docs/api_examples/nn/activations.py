"""Examples of ingot.nn: activations, as functions and as layers."""

import ingot.core as mx
from ingot import nn

x = mx.array([-1.0, 0.5, 2.0])

# %% celu
print(nn.celu(x))
# array([-0.632121, 0.5, 2], dtype=float32)

# %% elu
print(nn.elu(x))
# array([-0.632121, 0.5, 2], dtype=float32)

# %% gelu
print(nn.gelu(x))
# array([-0.158655, 0.345731, 1.9545], dtype=float32)

# %% gelu_approx
print(nn.gelu_approx(x))
# array([-0.158808, 0.345714, 1.9546], dtype=float32)

# %% gelu_fast_approx
print(nn.gelu_fast_approx(x))
# array([-0.154204, 0.350388, 1.93566], dtype=float32)

# %% hard_shrink
print(nn.hard_shrink(x))
# array([-1, 0, 2], dtype=float32)

# %% hard_tanh
print(nn.hard_tanh(x))
# array([-1, 0.5, 1], dtype=float32)

# %% hardswish
print(nn.hardswish(x))
# array([-0.333333, 0.291667, 1.66667], dtype=float32)

# %% leaky_relu
print(nn.leaky_relu(x))
# array([-0.01, 0.5, 2], dtype=float32)

# %% log_sigmoid
print(nn.log_sigmoid(x))
# array([-1.31326, -0.474077, -0.126928], dtype=float32)

# %% log_softmax
print(nn.log_softmax(x))
# array([-3.24131, -1.74131, -0.241311], dtype=float32)

# %% mish
print(nn.mish(x))
# array([-0.303401, 0.375245, 1.94396], dtype=float32)

# %% relu
print(nn.relu(x))
# array([0, 0.5, 2], dtype=float32)

# %% relu2
print(nn.relu2(x))
# array([0, 0.25, 4], dtype=float32)

# %% relu6
print(nn.relu6(x))
# array([0, 0.5, 2], dtype=float32)

# %% selu
print(nn.selu(x))
# array([-1.11133, 0.52535, 2.1014], dtype=float32)

# %% sigmoid
print(nn.sigmoid(x))
# array([0.268941, 0.622459, 0.880797], dtype=float32)

# %% silu
print(nn.silu(x))
# array([-0.268941, 0.31123, 1.76159], dtype=float32)

# %% softmax
print(nn.softmax(x))
# array([0.0391126, 0.17529, 0.785597], dtype=float32)

# %% softmin
print(nn.softmin(x))
# array([0.785597, 0.17529, 0.0391126], dtype=float32)

# %% softplus
print(nn.softplus(x))
# array([0.313262, 0.974077, 2.12693], dtype=float32)

# %% softshrink
print(nn.softshrink(x))
# array([-0.5, 0, 1.5], dtype=float32)

# %% softsign
print(nn.softsign(x))
# array([-0.5, 0.333333, 0.666667], dtype=float32)

# %% tanh
print(nn.tanh(x))
# array([-0.761594, 0.462117, 0.964028], dtype=float32)

# %% CELU
print(nn.CELU(alpha=2.0)(x))
# array([-0.786939, 0.5, 2], dtype=float32)

# %% ELU
print(nn.ELU(alpha=0.5)(x))
# array([-0.31606, 0.5, 2], dtype=float32)

# %% GELU
print(nn.GELU(approx="precise")(x))
# array([-0.158808, 0.345714, 1.9546], dtype=float32)

# %% HardShrink
print(nn.HardShrink()(x))
# array([-1, 0, 2], dtype=float32)

# %% Hardswish
print(nn.Hardswish()(x))
# array([-0.333333, 0.291667, 1.66667], dtype=float32)

# %% HardTanh
print(nn.HardTanh()(x))
# array([-1, 0.5, 1], dtype=float32)

# %% LeakyReLU
print(nn.LeakyReLU(negative_slope=0.1)(x))
# array([-0.1, 0.5, 2], dtype=float32)

# %% LogSigmoid
print(nn.LogSigmoid()(x))
# array([-1.31326, -0.474077, -0.126928], dtype=float32)

# %% LogSoftmax
print(nn.LogSoftmax()(x))
# array([-3.24131, -1.74131, -0.241311], dtype=float32)

# %% Mish
print(nn.Mish()(x))
# array([-0.303401, 0.375245, 1.94396], dtype=float32)

# %% ReLU
print(nn.ReLU()(x))
# array([0, 0.5, 2], dtype=float32)

# %% ReLU2
print(nn.ReLU2()(x))
# array([0, 0.25, 4], dtype=float32)

# %% ReLU6
print(nn.ReLU6()(x))
# array([0, 0.5, 2], dtype=float32)

# %% SELU
print(nn.SELU()(x))
# array([-1.11133, 0.52535, 2.1014], dtype=float32)

# %% Sigmoid
print(nn.Sigmoid()(x))
# array([0.268941, 0.622459, 0.880797], dtype=float32)

# %% SiLU
print(nn.SiLU()(x))
# array([-0.268941, 0.31123, 1.76159], dtype=float32)

# %% Softmax
print(nn.Softmax()(x))
# array([0.0391126, 0.17529, 0.785597], dtype=float32)

# %% Softmin
print(nn.Softmin()(x))
# array([0.785597, 0.17529, 0.0391126], dtype=float32)

# %% Softplus
print(nn.Softplus()(x))
# array([0.313262, 0.974077, 2.12693], dtype=float32)

# %% Softshrink
print(nn.Softshrink()(x))
# array([-0.5, 0, 1.5], dtype=float32)

# %% Softsign
print(nn.Softsign()(x))
# array([-0.5, 0.333333, 0.666667], dtype=float32)

# %% Tanh
print(nn.Tanh()(x))
# array([-0.761594, 0.462117, 0.964028], dtype=float32)

# %% glu
print(nn.glu(mx.array([1.0, 2.0, 0.0, 0.0])))
# array([0.5, 1], dtype=float32)

# %% GLU
print(nn.GLU(axis=-1)(mx.array([1.0, 2.0, 0.0, 0.0])))
# array([0.5, 1], dtype=float32)

# %% prelu
print(nn.prelu(x, mx.array(0.25)))
# array([-0.25, 0.5, 2], dtype=float32)

# %% PReLU
print(nn.PReLU(init=0.1)(x))
# array([-0.1, 0.5, 2], dtype=float32)

# %% step
print(nn.step(x, threshold=0.5))
# array([0, 1, 1], dtype=int32)

# %% Step
print(nn.Step(threshold=0.0)(x))
# array([0, 1, 1], dtype=int32)
