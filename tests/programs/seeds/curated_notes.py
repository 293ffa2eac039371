# %% timed with and without compile
import time
import mlx.core as mx

def run():
    x = mx.random.normal((2048, 2048))
    y = mx.random.normal((2048, 2048))
    return mx.sum(x @ y)

mx.disable_compile()
t0 = time.time(); _ = run(); mx.eval(_); t1 = time.time()

mx.enable_compile()
t2 = time.time(); _ = run(); mx.eval(_); t3 = time.time()

print("no-compile:", t1 - t0)
print("compile:  ", t3 - t2)

# %% timed first and later calls
import mlx.core as mx
import time

def fun(x, y):
    return mx.exp(-x) + y

x = mx.array(1.0)
y = mx.array(2.0)

t0 = time.time(); r0 = fun(x, y); mx.eval(r0); t1 = time.time()
compiled_fun = mx.compile(fun)
t2 = time.time(); r1 = compiled_fun(x, y); mx.eval(r1); t3 = time.time()
t4 = time.time(); r2 = compiled_fun(x, y); mx.eval(r2); t5 = time.time()

print(f"Regular: {t1 - t0:.6f}s | First compiled: {t3 - t2:.6f}s | Cached: {t5 - t4:.6f}s")
print(r0, r2)

# %% training step
import mlx.core as mx
import mlx.nn as nn
from mlx.optimizers import SGD

class MLP(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.l1 = nn.Linear(d_in, 256)
        self.l2 = nn.Linear(256, d_out)
    def __call__(self, x):
        x = nn.relu(self.l1(x))
        return self.l2(x)

model = MLP(10, 5)
params = model.parameters()
opt = SGD(1e-2)

def loss_fn(p, x, y):
    logits = model.apply(p, x)
    return mx.mean(nn.losses.cross_entropy(logits, y))

# Compile value_and_grad for the loss function
loss_and_grad = mx.compile(mx.value_and_grad(loss_fn))

x = mx.random.uniform(shape=(32, 10))
y = mx.random.randint(0, 5, (32,))

for step in range(5):
    loss, grads = loss_and_grad(params, x, y)
    params = opt.update(params, grads)
    mx.eval(loss)  # ensure compute
    if step == 0:
        print("Initial loss:", float(loss))
print("Final loss:", float(loss))

