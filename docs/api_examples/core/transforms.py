"""Examples of ingot.core: derivatives, vectorisation, compilation, control flow, export."""

from pathlib import Path

import ingot.core as mx


# %% grad
def cube(x: mx.array) -> mx.array:
    return x**3


print(mx.grad(cube)(mx.array(2.0)))
# array(12, dtype=float32)

# %% value_and_grad
print(mx.value_and_grad(mx.sin)(mx.array(0.0)))
# (array(0, dtype=float32), array(1, dtype=float32))

# %% vjp
_, gradients = mx.vjp(mx.square, [mx.array([1.0, 2.0])], [mx.array([1.0, 10.0])])
print(gradients[0])
# array([2, 40], dtype=float32)

# %% jvp
_, tangents = mx.jvp(mx.square, [mx.array([1.0, 2.0])], [mx.array([1.0, 1.0])])
print(tangents[0])
# array([2, 4], dtype=float32)

# %% vmap
distance = mx.vmap(lambda row, point: mx.sum((row - point) ** 2), in_axes=(0, None))
print(distance(mx.array([[0.0, 0.0], [3.0, 4.0]]), mx.zeros(2)))
# array([0, 25], dtype=float32)


# %% checkpoint
@mx.checkpoint
def layer(x: mx.array) -> mx.array:
    return mx.sum(mx.tanh(x) ** 2)  # computed again in the backward pass instead of kept


print(mx.grad(layer)(mx.array([0.0, 1.0])))
# array([0, 0.6397], dtype=float32)


# %% custom_function
@mx.custom_function
def straight_through(x: mx.array) -> mx.array:
    return mx.round(x)


@straight_through.vjp
def gradient(primal: mx.array, cotangent: mx.array, output: mx.array) -> mx.array:
    return cotangent


print(mx.grad(straight_through)(mx.array(0.3)))
# array(1, dtype=float32)


# %% stop_gradient
def scaled(x: mx.array) -> mx.array:
    return x * mx.stop_gradient(x)


print(mx.grad(scaled)(mx.array(3.0)))
# array(3, dtype=float32)

# %% depends
x = mx.array([1.0])
first = mx.exp(x)
print(mx.depends(x, first))
# array([1], dtype=float32)


# %% compile
@mx.compile
def gelu(x: mx.array) -> mx.array:
    return x * (1 + mx.erf(x / 2**0.5)) / 2


print(gelu(mx.array([-1.0, 0.0, 1.0])))
# array([-0.158655, 0, 0.841345], dtype=float32)

# %% disable_compile
mx.disable_compile()
print(mx.compile(mx.square)(mx.array(3.0)))
# array(9, dtype=float32)
mx.enable_compile()

# %% enable_compile
mx.enable_compile()
print(mx.compile(mx.square)(mx.array(3.0)))
# array(9, dtype=float32)

# %% eval
x = mx.arange(3) * 2  # a graph, not yet computed
mx.eval(x)
print(x)
# array([0, 2, 4], dtype=int32)

# %% async_eval
x = mx.arange(3) * 2
mx.async_eval(x)  # computed in the background
print(x)
# array([0, 2, 4], dtype=int32)

# %% export_function
mx.export_function("square.mlxfn", mx.square, mx.array([1.0]))
print(mx.import_function("square.mlxfn")(mx.array([3.0])))
# (array([9], dtype=float32),)

# %% import_function
mx.export_function("sum.mlxfn", mx.add, mx.array(1.0), mx.array(2.0))
(total,) = mx.import_function("sum.mlxfn")(mx.array(3.0), mx.array(4.0))
print(total)
# array(7, dtype=float32)

# %% exporter
with mx.exporter("many.mlxfn", mx.square) as export:
    export(mx.array([1.0]))
    export(mx.array([1.0, 2.0]))
print(mx.import_function("many.mlxfn")(mx.array([2.0, 3.0])))
# (array([4, 9], dtype=float32),)

# %% FunctionExporter
with mx.exporter("one.mlxfn", mx.negative) as export:  # a FunctionExporter
    export(mx.array([1.0]))
print(mx.import_function("one.mlxfn")(mx.array([5.0])))
# (array([-5], dtype=float32),)

# %% export_to_dot
mx.export_to_dot("graph.dot", mx.exp(mx.array([1.0])) + 1)
print("Exp" in Path("graph.dot").read_text())
# True

# %% cond
print(mx.cond(mx.array(True), lambda x: x + 1, lambda x: x - 1, mx.array(10)))
# array(11, dtype=int32)

# %% switch
branches = [mx.sin, mx.square, mx.negative]
print(mx.switch(mx.array(1), branches, mx.array(3.0)))
# array(9, dtype=float32)

# %% fori_loop
print(mx.fori_loop(0, 5, lambda i, total: total + i, mx.array(0)))
# array(10, dtype=int32)

# %% while_loop
print(mx.while_loop(lambda x: x < 100, lambda x: x * 2, mx.array(3)))
# array(192, dtype=int32)


# %% scan
def step(total: mx.array, x: mx.array) -> tuple[mx.array, mx.array]:
    return total + x, total


total, before = mx.scan(step, mx.array(0), mx.array([1, 2, 3]))
print(total, before)
# array(6, dtype=int32) array([0, 1, 3], dtype=int32)
