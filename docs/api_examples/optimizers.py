"""Examples of ingot.optimizers: one step from a weight of 1 with a gradient of 0.5."""

import ingot.core as mx
from ingot import optimizers as optim

parameters = {"weight": mx.array([[1.0, 1.0]])}
gradients = {"weight": mx.array([[0.5, 0.5]])}

# %% Optimizer
optimizer: optim.Optimizer = optim.SGD(learning_rate=0.1)
optimizer.learning_rate = mx.array(0.2)
print(optimizer.learning_rate)
# array(0.2, dtype=float32)

# %% SGD
print(optim.SGD(0.1, momentum=0.9).apply_gradients(gradients, parameters)["weight"])
# array([[0.95, 0.95]], dtype=float32)

# %% RMSprop
print(optim.RMSprop(0.01).apply_gradients(gradients, parameters)["weight"])
# array([[0.9, 0.9]], dtype=float32)

# %% Adagrad
print(optim.Adagrad(0.1).apply_gradients(gradients, parameters)["weight"])
# array([[0.9, 0.9]], dtype=float32)

# %% AdaDelta
print(optim.AdaDelta(0.1).apply_gradients(gradients, parameters)["weight"])
# array([[0.999684, 0.999684]], dtype=float32)

# %% Adam
print(optim.Adam(0.1).apply_gradients(gradients, parameters)["weight"])
# array([[0.683772, 0.683772]], dtype=float32)

# %% AdamW
print(optim.AdamW(0.1, weight_decay=0.01).apply_gradients(gradients, parameters)["weight"])
# array([[0.682772, 0.682772]], dtype=float32)

# %% Adamax
print(optim.Adamax(0.1).apply_gradients(gradients, parameters)["weight"])
# array([[0.99, 0.99]], dtype=float32)

# %% Lion
print(optim.Lion(0.1).apply_gradients(gradients, parameters)["weight"])
# array([[0.9, 0.9]], dtype=float32)

# %% Adafactor
print(optim.Adafactor(0.1, relative_step=False).apply_gradients(gradients, parameters)["weight"])
# array([[0.9, 0.9]], dtype=float32)

# %% Muon
print(optim.Muon(0.1).apply_gradients(gradients, parameters)["weight"].shape)
# (1, 2)

# %% MultiOptimizer
biases = optim.SGD(0.1)
weights = optim.AdamW(0.1)
both = optim.MultiOptimizer([weights, biases], [lambda name, value: value.ndim > 1])
print(both.apply_gradients({"bias": mx.array([1.0])}, {"bias": mx.array([1.0])})["bias"])
# array([0.9], dtype=float32)

# %% clip_grad_norm
clipped, norm = optim.clip_grad_norm({"weight": mx.array([3.0, 4.0])}, max_norm=1.0)
print(norm, clipped["weight"])
# array(5, dtype=float32) array([0.6, 0.8], dtype=float32)

# %% cosine_decay
schedule = optim.cosine_decay(0.1, 100)
print(schedule(mx.array(50)))
# array(0.05, dtype=float32)

# %% exponential_decay
schedule = optim.exponential_decay(0.1, 0.9)
print(schedule(mx.array(2)))
# array(0.081, dtype=float32)

# %% step_decay
schedule = optim.step_decay(0.1, 0.5, 10)
print(schedule(mx.array(25)))
# array(0.025, dtype=float32)

# %% linear_schedule
warm_up = optim.linear_schedule(0.0, 0.1, 100)
print(warm_up(mx.array(50)))
# array(0.05, dtype=float32)

# %% join_schedules
schedule = optim.join_schedules(
    [optim.linear_schedule(0.0, 0.1, 10), optim.cosine_decay(0.1, 90)], [10]
)
print(schedule(mx.array(10)))
# array(0.1, dtype=float32)
