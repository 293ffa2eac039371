"""Calls of the transforms for many functions and dtypes, integers among them."""

from __future__ import annotations

# Functions of x, an array of two rows and three columns.
_FUNCTIONS = """
x
x + 1
x + 1.5
x * x
2 - x
x * y
x - y
x / y
x // 2
x % 2
x % 2.5
-x
divmod(x, 2)
divmod(y, x + 1)
mx.divmod(x, y)
x ** 2
x ** 2.5
2.0 ** x
x > 1
x == y
x != 1
mx.logical_not(x)
mx.logical_and(x, y)
mx.isnan(x)
mx.isclose(x, y)
mx.array_equal(x, y)
mx.allclose(x, y)
mx.abs(x)
mx.sign(x)
mx.square(x)
mx.sqrt(x)
mx.rsqrt(x)
mx.reciprocal(x)
mx.exp(x)
mx.expm1(x)
mx.log(x)
mx.log1p(x)
mx.sin(x)
mx.cos(x)
mx.tan(x)
mx.tanh(x)
mx.arcsin(x / 9)
mx.arctan2(x, y)
mx.erf(x)
mx.sigmoid(x)
mx.floor(x)
mx.ceil(x)
mx.round(x)
mx.round(x, 1)
mx.maximum(x, 1)
mx.minimum(x, y)
mx.clip(x, 1, 2)
mx.logaddexp(x, y)
mx.floor_divide(x, y)
mx.remainder(x, y)
mx.where(x > 1, x, 0)
mx.where(x, y, 1)
mx.nan_to_num(x)
mx.stop_gradient(x) * x
x.astype(mx.float32)
x.astype(mx.int32)
x.astype(mx.bool_)
x.astype(mx.float16) * 2
x.astype(mx.int32) * y
x & 1
x | 1
~x
x << 1
x.view(mx.uint8)
mx.conjugate(x)
mx.real(x)
mx.imag(x)
x.sum()
x.sum(0)
x.sum(1, keepdims=True)
x.prod()
x.prod(0)
x.prod(1)
x.max()
x.max(1)
x.min()
x.min(0)
x.mean()
x.mean(1)
x.var()
x.std(1)
x.all()
x.any(1)
x.argmax()
x.argmin(1)
mx.argsort(x)
mx.sort(x, 1)
mx.topk(x, 2)
mx.partition(x, 1)
mx.median(x)
x.cumsum(1)
x.cumsum(0, reverse=True)
x.cumprod(1)
x.cummax(1)
x.cummin(1)
mx.logcumsumexp(x, 1)
x.logsumexp(1)
mx.softmax(x, -1)
mx.softmax(x.astype(mx.float32), 0)
mx.linalg.norm(x)
mx.linalg.norm(x, 1, 1)
x @ x.T
mx.matmul(x.astype(mx.float32), x.astype(mx.float32).T)
mx.inner(x, y)
mx.outer(x[0], y[0])
mx.tensordot(x, y, 2)
mx.einsum("ij,ij->i", x, y)
mx.addmm(1.0, x, y.T)
x.reshape(3, 2)
x.T
x.flatten()
x[0]
x[:, 1]
x[None, ..., ::2]
x[mx.array([1, 0])]
x[mx.array([0, 1]), mx.array([1, 1])]
mx.take(x, mx.array([1, 0]), 1)
mx.take(x, mx.array([4, 0]))
mx.take_along_axis(x, mx.array([[1], [0]]), 1)
mx.put_along_axis(x, mx.array([[1], [0]]), mx.array(2), 1)
mx.put_along_axis(y, mx.array([[1], [0]]), x[:, :1], 1)
mx.slice(x, mx.array([1]), (1,), (2, 1))
mx.slice_update(x, y[:, :1], mx.array([1]), (1,))
mx.slice_update(y, x[:, :1], mx.array([1]), (1,))
x.at[0].add(1)
x.at[mx.array([0, 0])].multiply(2)
x.at[0].maximum(2)
y.at[mx.array([1, 0])].add(x)
y.at[mx.array([1, 0])].divide(x + 1)
mx.concatenate([x, y], 1)
mx.stack([x, y])
mx.split(x, 3, 1)[1]
mx.pad(x, 1)
mx.pad(y, 1, constant_values=x[0, 0])
mx.broadcast_to(x, (4, 2, 3))
mx.expand_dims(x, 1)
mx.squeeze(x[:1], 0)
mx.repeat(x, 2, 1)
mx.tile(x, (2, 1))
mx.roll(x, 1, 1)
mx.flip(x, 1)
mx.tril(x)
mx.diag(x[0])
mx.diagonal(x)
mx.trace(x)
mx.kron(x, y)
mx.moveaxis(x, 0, 1)
mx.unflatten(x, 1, (3, 1))
mx.as_strided(x, (2, 2), (3, 1), 0)
mx.contiguous(x)
mx.diff(x, 1, 1)
mx.full((2,), x[0, 0])
mx.zeros_like(x)
mx.ones_like(x) * x
mx.fft.fft(x)
mx.fft.rfft(x)
mx.convolve(x[0], y[0])
mx.fast.rms_norm(x.astype(mx.float32), None, 1e-5)
mx.fast.layer_norm(x.astype(mx.float32), None, None, 1e-5)
mx.linspace(0, 1, 3) * x
mx.meshgrid(x[0], y[0])[0]
mx.hadamard_transform(x[:, :2])
mx.minmax(x)[0]
mx.searchsorted(mx.array([0.0, 1.0, 2.0]), x)
mx.checkpoint(lambda x: x * x)(x)
mx.custom_function(lambda x: x * x)(x)
mx.compile(lambda x: x * x)(x)
mx.depends(x, [y])
"""
# Functions of indices: x holds those of three rows.
_INDEXED = """
mx.take(table, x, 0)
mx.take(table, x)
table[x]
table[x, x]
table[0, x]
mx.take_along_axis(table[:2], x, 1)
mx.put_along_axis(table[:2], x, mx.array(2.0), 1)
mx.put_along_axis(table[:2], x, y.astype(mx.float32), 1)
table.at[x].add(1.0)
table.at[x].multiply(2.0)
table.at[x].maximum(2.0)
mx.slice(table, x[0, :1], (0,), (1, 3))
mx.slice_update(table, mx.ones((1, 3)), x[0, :1], (0,))
mx.gather_mm(stack, stack, x[0], x[1])
mx.gather_mm(stack, stack, None, x[0])
"""
FUNCTIONS = _FUNCTIONS.strip().splitlines()
INDEXED = _INDEXED.strip().splitlines()
ALL = FUNCTIONS + INDEXED
DTYPES = ("float32", "int32")
POINT = "mx.array([[3, 1, 2], [1, 2, 0]])"
SECOND = "mx.array([[1, 2, 2], [2, 1, 3]])"
HELD = "table = mx.array([[1.5, 2, 3], [4, 5, 6], [7, 8, 9]]), stack = mx.ones((3, 3, 3))"


def transforms(function: str, dtype: str) -> list[str]:
    """A call of the function, and of each transform of it."""
    point = f"{POINT}.astype(mx.{dtype})"
    if function in INDEXED:
        point = f"mx.minimum({POINT}, 2).astype(mx.{dtype if 'int' in dtype else 'int32'})"
    body = f"(lambda x, y = {SECOND}.astype(mx.{dtype}), {HELD}: {function})"
    return [
        f"{body}({point})",
        f"mx.jvp({body}, [{point}], [mx.ones((2, 3)) * 2])",
        f"mx.jvp({body}, [{point}], [mx.full((2, 3), 3, mx.{dtype})])",
        f"(lambda f, p: mx.vjp(f, [p], _ones(f(p))))({body}, {point})",
        f"mx.grad(lambda x: _first({body}(x)).sum())({point})",
        f"mx.value_and_grad(lambda x: _first({body}(x)).astype(mx.float32).sum())({point})",
        f"mx.vmap({body})({point})",
    ]
