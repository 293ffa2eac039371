"""Examples of ingot.core.distributed: run by `ingot launch -n 4`, `world` has four ranks."""

import ingot.core as mx

# %% init
world = mx.distributed.init()
print(world.rank(), world.size())
# 0 1

# %% is_available
print(mx.distributed.is_available() in (True, False))
# True

# %% Group
world: mx.distributed.Group = mx.distributed.init()
if world.size() == 4:
    pair = world.split(world.rank() // 2)  # ranks 0 and 1, ranks 2 and 3
    print(mx.distributed.all_sum(mx.array(1), group=pair))

# %% all_sum
print(mx.distributed.all_sum(mx.array([1.0, 2.0])))
# array([1, 2], dtype=float32)

# %% all_max
print(mx.distributed.all_max(mx.array([1.0, 2.0])))
# array([1, 2], dtype=float32)

# %% all_min
print(mx.distributed.all_min(mx.array([1.0, 2.0])))
# array([1, 2], dtype=float32)

# %% all_gather
print(mx.distributed.all_gather(mx.array([[1, 2]])).shape)
# (1, 2)

# %% all_to_all
print(mx.distributed.all_to_all(mx.array([1, 2])))
# array([1, 2], dtype=int32)

# %% broadcast
print(mx.distributed.broadcast(mx.array([1, 2])))
# array([1, 2], dtype=int32)

# %% sum_scatter
print(mx.distributed.sum_scatter(mx.array([1.0, 2.0])))
# array([1, 2], dtype=float32)

# %% send
world = mx.distributed.init()
if world.size() > 1 and world.rank() == 0:
    mx.eval(mx.distributed.send(mx.array([1.0, 2.0]), dst=1))
elif world.rank() == 1:
    print(mx.distributed.recv((2,), mx.float32, src=0))

# %% recv
world = mx.distributed.init()
if world.rank() == 1:
    print(mx.distributed.recv((2,), mx.float32, src=0))
elif world.size() > 1 and world.rank() == 0:
    mx.eval(mx.distributed.send(mx.array([1.0, 2.0]), dst=1))

# %% recv_like
world = mx.distributed.init()
x = mx.array([1.0, 2.0])
if world.rank() == 1:
    print(mx.distributed.recv_like(x, src=0))
elif world.size() > 1 and world.rank() == 0:
    mx.eval(mx.distributed.send(x, dst=1))
