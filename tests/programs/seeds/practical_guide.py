# %% basics
import mlx.core as mx

def fun(x, y):
    return mx.exp(-x) + y

x = mx.array(1.0)
y = mx.array(2.0)

# Regular call
print(fun(x, y))  # array(2.36788, dtype=float32)

# Compile
compiled_fun = mx.compile(fun)
print(compiled_fun(x, y))  # same value

# %% cache
compiled = mx.compile(fun)
compiled(x, y)   # compiles now
compiled(x, y)   # cache hit
mx.compile(fun)(x, y)  # reuses cached graph for this fun signature

# %% gelu speedup
import mlx.core as mx
import mlx.nn as nn
import time

def gelu(x):
    return x * (1 + mx.erf(x / mx.sqrt(mx.array(2.0)))) / mx.array(2.0)

def timeit(fun, x):
    for _ in range(10):
        mx.eval(fun(x))  # warmup
    t0=time.perf_counter()
    for _ in range(100):
        mx.eval(fun(x))
    dt=(time.perf_counter()-t0)/100*1e3
    print(f"Time per iter: {dt:.3f} ms")

x = mx.random.uniform(shape=(32, 1000, 4096))

# Baseline vs compiled
timeit(gelu, x)
timeit(mx.compile(gelu), x)

# %% no printing inside
@mx.compile
def fun(x):
    z = -x
    # print(z)  # avoid printing inside compiled functions
    return mx.exp(z)

# %% compile disabled
mx.disable_compile()
fun(mx.array(5.0))

# %% state as a result
state = []

@mx.compile
def fun(x, y):
    z = x + y
    state.append(z)
    return mx.exp(z), state

out, st = fun(mx.array(1.0), mx.array(2.0))
print(st)  # [array(3, dtype=float32)]

# %% captured outputs
from functools import partial
state = []

@partial(mx.compile, outputs=state)
def step(x, y):
    z = x + y
    state.append(z)
    return mx.exp(z)

step(mx.array(1.0), mx.array(2.0))
print(state)  # [array(3, dtype=float32)]

# %% captured inputs
from functools import partial
state = [mx.array(1.0)]

@partial(mx.compile, inputs=state)
def fun(x):
    return x + state[0]

print(fun(mx.array(1.0)))          # array(2)
state[0] = mx.array(5.0)
print(fun(mx.array(1.0)))          # array(6)

# %% compiled training
import mlx.core as mx, mlx.nn as nn, mlx.optimizers as optim
from functools import partial

x = mx.random.uniform(shape=(4, 10))
y = mx.array([0, 1, 0, 1])
model = nn.Linear(10, 1)
opt = optim.SGD(learning_rate=0.1, momentum=0.8)

def loss_fn(m, x, y):
    logits = m(x).squeeze()
    return nn.losses.binary_cross_entropy(logits, y)

state = [model.state, opt.state]

@partial(mx.compile, inputs=state, outputs=state)
def step(x, y):
    loss_and_grad = nn.value_and_grad(model, loss_fn)
    loss, grads = loss_and_grad(model, x, y)
    opt.update(model, grads)
    return loss

for it in range(10):
    loss = step(x, y)
    mx.eval(state)
    print(loss)

# %% transformations
g = mx.grad(mx.exp)
compiled_g = mx.compile(g)
print(g(mx.array(1.0)))
print(compiled_g(mx.array(1.0)))

# %% shapeless
def fun(x, y):
    return mx.abs(x + y)
compiled = mx.compile(fun, shapeless=True)
print(compiled(mx.array(1.0), mx.array(-2.0)))
print(compiled(mx.array([1.0,-6.0]), mx.array([-2.0,3.0])))

# %% compiled svd
import mlx.core as mx
from metalfaiss.faissmlx.svd import topk_svd

A = mx.random.uniform(shape=(512, 256)).astype(mx.float32)
U, S, Vt = topk_svd(A, k=32, iters=3, use_kernel=False, use_compile=True)

# %% compiled kernel wrapper
U, S, Vt = topk_svd(A, k=32, iters=3, use_kernel=True, use_compile=True)

# %% compiled flat search
import mlx.core as mx
from metalfaiss.indexflat import FlatIndex

idx = FlatIndex(d=64)
idx.add(mx.random.uniform(shape=(10000,64)).tolist())

def flat_search(xq):
    return idx.search(xq.tolist(), k=10)

c_search = mx.compile(flat_search)
vals_idx = c_search(mx.random.uniform(shape=(100,64)))

