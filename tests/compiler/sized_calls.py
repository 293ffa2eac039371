"""Calls of functions that take shapes, sizes and slices, with sizes taken from `x.shape`.

Each is a function of a module, ingot's or MLX's, and a matrix. A name is that of the function, and
after a colon what is special.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["CALLS", "EXEMPT"]

Call = Callable[[Any, Any], Any]


def _set(subscript: Callable[[int, int], Any], value: Any = 5.0) -> Call:
    """Assigns to a part of a copy."""

    def call(m: Any, x: Any) -> Any:
        x = x * 1
        x[subscript(*x.shape)] = value
        return x

    return call


def _at(mode: str, subscript: Callable[[int, int], Any]) -> Call:
    return lambda m, x: getattr(x.at[subscript(*x.shape)], mode)(2.0)


# subscripts of a matrix of n rows and k columns
SUBSCRIPTS: dict[str, Callable[[int, int], Any]] = {
    "rows": lambda n, k: slice(1, n),
    "two axes": lambda n, k: (slice(1, 3), slice(None, 2)),
    "computed": lambda n, k: (slice(n // 2, n), slice(None, k - 1)),
    "from the end": lambda n, k: (slice(-2, None), slice(-k, -1)),
    "steps": lambda n, k: (slice(None, None, 2), slice(k, None, -2)),
    "backwards": lambda n, k: (slice(n - 1, None, -1), slice(None, None, -1)),
    "a row": lambda n, k: n - 1,
    "an element": lambda n, k: (n - 1, k // 2),
    "a row and a part": lambda n, k: (n // 2, slice(1, k)),
    "ellipsis": lambda n, k: (..., slice(k // 2)),
    "new axes": lambda n, k: (None, slice(n // 2), None, slice(1, None)),
    "beyond": lambda n, k: (slice(n + 3), slice(2 * k)),
    "nothing": lambda n, k: (slice(n, n), slice(0, 0)),
    "outside": lambda n, k: n - 3,
}

INDEXING: dict[str, Call] = {
    **{
        f"getitem: {name}": lambda m, x, s=subscript: x[s(*x.shape)]
        for name, subscript in SUBSCRIPTS.items()
    },
    **{f"setitem: {name}": _set(subscript) for name, subscript in SUBSCRIPTS.items()},
    **{f"at add: {name}": _at("add", subscript) for name, subscript in SUBSCRIPTS.items()},
    **{f"at maximum: {name}": _at("maximum", s) for name, s in SUBSCRIPTS.items()},
    "setitem: an array": lambda m, x: _set(lambda n, k: (slice(1, n), slice(0, k)), x[1:] * 2)(
        m, x
    ),
    "setitem: a row for all": lambda m, x: _set(lambda n, k: (slice(n // 2, n),), x[0] * 2)(m, x),
    "setitem: indices": lambda m, x: _set(lambda n, k: (m.arange(n // 2 + 1), slice(k)))(m, x),
    "at add: indices": lambda m, x: x.at[m.arange(x.shape[0]), m.array(0)].add(x[:, 0]),
    "slice": lambda m, x: m.slice(
        x, m.array([0, 0]), (0, 1), (x.shape[0] // 2 + 1, max(x.shape[1] - 1, 1))
    ),
    "slice: one axis": lambda m, x: m.slice(x, m.array([0]), (1,), (x.shape[0], 1)),
    "slice: too large": lambda m, x: m.slice(x, m.array([0]), (1,), (x.shape[0], 4)),
    "slice_update": lambda m, x: m.slice_update(x, x[1:, :1] * 2, m.array([0, 0]), (0, 1)),
    "slice_update: all": lambda m, x: m.slice_update(x, x * 2, m.array([0, 0]), (0, 1)),
    "slice_update: a row": lambda m, x: m.slice_update(x, x[0] * 2, m.array([0]), (0,)),
    "take": lambda m, x: m.take(x, m.arange(x.shape[1]) % x.shape[0], axis=0),
    "take: an int": lambda m, x: m.take(x, x.shape[0] - 1, axis=0),
    "take_along_axis": lambda m, x: m.take_along_axis(x, m.zeros((x.shape[0], 1), m.int32), axis=1),
    "put_along_axis": lambda m, x: m.put_along_axis(
        x, m.zeros((x.shape[0], 1), m.int32), x[:, :1] * 2, axis=1
    ),
}

CREATION: dict[str, Call] = {
    "arange": lambda m, x: m.arange(x.shape[0]) * x.shape[1],
    "arange: steps": lambda m, x: m.arange(1, x.shape[0] * 2, 2),
    "zeros": lambda m, x: m.zeros((x.shape[1], 2, x.shape[0])) + x.shape[0],
    "ones": lambda m, x: m.ones(x.shape[1]) * x,
    "empty": lambda m, x: m.empty((x.shape[0], 3)).shape[0] + x,
    "full": lambda m, x: m.full((x.shape[0], 2), x.shape[1] * 1.5),
    "eye": lambda m, x: m.eye(x.shape[0], x.shape[1], k=1) * x,
    "identity": lambda m, x: m.identity(x.shape[0]) @ x,
    "tri": lambda m, x: m.tri(x.shape[0], x.shape[1], k=x.shape[0] // 3),
    "linspace": lambda m, x: m.linspace(0, x.shape[1], x.shape[0]),
    "array: a shape": lambda m, x: m.array(x.shape) * 2,
    "array: a size": lambda m, x: m.array(x.size) + x.shape[0],
    **{
        name: lambda m, x, name=name: getattr(m, name)(x.shape[0] + 2)
        for name in ("bartlett", "blackman", "hamming", "hanning")
    },
    "broadcast_to": lambda m, x: m.broadcast_to(x[None, :1], (2, *x.shape)),
    "broadcast_shapes": lambda m, x: list(m.broadcast_shapes(x.shape, (x.shape[0], 1), (3, 1, 1))),
}

MOVEMENT: dict[str, Call] = {
    "reshape": lambda m, x: m.reshape(x, (x.shape[1], x.shape[0])),
    "reshape: flat": lambda m, x: x.reshape(x.shape[0] * x.shape[1]) * 2,
    "reshape: rest": lambda m, x: m.reshape(x, (x.shape[1], -1, 1)),
    "reshape: misfit": lambda m, x: m.reshape(x, (x.shape[0], 3)),
    "flatten": lambda m, x: m.flatten(x * x.shape[0]),
    "unflatten": lambda m, x: m.unflatten(m.flatten(x), 0, (x.shape[1], x.shape[0])),
    "as_strided": lambda m, x: m.as_strided(x, (x.shape[1], x.shape[0]), (1, x.shape[1]), offset=0),
    "as_strided: offset": lambda m, x: m.as_strided(x, (x.shape[0],), (1,), offset=x.shape[1] - 1),
    "pad": lambda m, x: m.pad(x, ((x.shape[0] // 2, 0), (1, x.shape[1])), constant_values=2),
    "pad: all": lambda m, x: m.pad(x, x.shape[0] // 2),
    "repeat": lambda m, x: m.repeat(x, x.shape[0] // 2 + 1, axis=1),
    "tile": lambda m, x: m.tile(x, (x.shape[0] // 2 + 1, 2)),
    "roll": lambda m, x: m.roll(x, x.shape[0] // 2, axis=0),
    "roll: axes": lambda m, x: m.roll(x, (x.shape[1] - 1, -1), axis=(1, 0)),
    "split": lambda m, x: m.split(x, [x.shape[0] // 2, x.shape[0] - 1], axis=0),
    "split: sections": lambda m, x: m.split(x, 2, axis=1),
    "split: halves": lambda m, x: m.split(m.concatenate([x, x]), 2, axis=0),
    "split: as many as rows": lambda m, x: m.split(x, x.shape[0], axis=0),
    "diag": lambda m, x: m.diag(x[0], k=x.shape[0] // 2),
    "diagonal": lambda m, x: m.diagonal(x, offset=x.shape[1] // 2),
    "trace": lambda m, x: m.trace(x, offset=x.shape[1] // 2),
    "tril": lambda m, x: m.tril(x, k=x.shape[1] - x.shape[0]),
    "triu": lambda m, x: m.triu(x, k=x.shape[1] - x.shape[0]),
    "diff": lambda m, x: m.diff(x, n=1, axis=0),
    "moveaxis": lambda m, x: m.moveaxis(x, 0, x.ndim - 1) * x.shape[1],
    "swapaxes": lambda m, x: m.swapaxes(x, 0, x.ndim - 1) * x.shape[1],
    "meshgrid": lambda m, x: m.meshgrid(m.arange(x.shape[0]), m.arange(x.shape[1])),
    "concatenate": lambda m, x: m.concatenate([x[: x.shape[0] // 2], x[x.shape[0] // 2 :]]),
    "stack": lambda m, x: m.stack([x[0], x[x.shape[0] - 1]]),
    "expand_dims": lambda m, x: m.expand_dims(x, 0) + m.ones((x.shape[1], 1, 1)),
    "view": lambda m, x: x.view(m.int16)[:, : x.shape[1]],
    "kron": lambda m, x: m.kron(x, m.eye(x.shape[0])),
    "einsum": lambda m, x: m.einsum("ij,kj->ik", x, x[: x.shape[0] // 2 + 1]),
    "tensordot": lambda m, x: m.tensordot(x, m.ones((x.shape[1], 2)), 1),
}

REDUCTION: dict[str, Call] = {
    "std": lambda m, x: m.std(x, axis=0, ddof=0) * x.shape[0],
    "var": lambda m, x: m.var(m.concatenate([x, x + 1]), axis=0, ddof=1),
    "mean: by hand": lambda m, x: x.sum() / x.size + m.sum(x, axis=0) / x.shape[0],
    "topk": lambda m, x: m.sort(m.topk(x, x.shape[1] // 2 + 1, axis=1), axis=1),
    "partition": lambda m, x: m.partition(x, x.shape[1] // 2, axis=1)[:, x.shape[1] // 2],
    "argpartition": lambda m, x: m.argpartition(x, x.shape[1] // 2, axis=1)[:, x.shape[1] // 2],
    "round": lambda m, x: m.round(x, decimals=1) * x.shape[0],
    "softmax": lambda m, x: m.softmax(x * x.shape[1] ** -0.5, axis=-1),
    "sum: some": lambda m, x: x[: x.shape[0] // 2 + 1].sum(axis=0) / (x.shape[0] // 2 + 1),
}

CONVOLUTION: dict[str, Call] = {
    "conv1d": lambda m, x: m.conv1d(
        x[None], m.ones((2, 1, x.shape[1])), stride=1, padding=x.shape[0] // 2
    ),
    "conv2d": lambda m, x: m.conv2d(
        x[None, :, :, None], m.ones((2, 1, 1, 1)), padding=(x.shape[0] // 2, 1)
    ),
    "conv3d": lambda m, x: m.conv3d(
        x[None, :, :, None, None], m.ones((2, 1, 1, 1, 1)), padding=(x.shape[0] // 2, 1, 0)
    ),
    "conv_general": lambda m, x: m.conv_general(
        x[None], m.ones((2, 1, x.shape[1])), padding=x.shape[0] // 2, input_dilation=2
    ),
    "conv_transpose1d": lambda m, x: m.conv_transpose1d(
        x[None], m.ones((2, 1, x.shape[1])), stride=2, padding=0
    ),
    "conv_transpose2d": lambda m, x: m.conv_transpose2d(
        x[None, :, :, None], m.ones((2, 2, 1, 1)), stride=2
    ),
    "conv_transpose3d": lambda m, x: m.conv_transpose3d(
        x[None, :, :, None, None], m.ones((2, 2, 1, 1, 1)), stride=2
    ),
}


def _parts(m: Any, z: Any) -> list[Any]:
    return [m.real(z), m.imag(z)]


FOURIER: dict[str, Call] = {
    **{
        f"fft.{name}": lambda m, x, name=name: _parts(
            m, getattr(m.fft, name)(x, x.shape[1] // 2 + 2, axis=1)
        )
        for name in ("fft", "ifft", "rfft", "irfft")
    },
    **{
        f"fft.{name}: rows": lambda m, x, name=name: _parts(
            m, getattr(m.fft, name)(x, 2 * x.shape[0], axis=0)
        )
        for name in ("fft", "ifft", "rfft", "irfft")
    },
    **{
        f"fft.{name}": lambda m, x, name=name: _parts(
            m, getattr(m.fft, name)(x, (x.shape[0] + 1, x.shape[1] // 2 + 2))
        )
        for name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")
    },
    "fft.fftshift": lambda m, x: m.fft.fftshift(x),
    "fft.ifftshift": lambda m, x: m.fft.ifftshift(x),
}

RANDOM: dict[str, Call] = {
    **{
        f"random.{name}": lambda m, x, name=name: getattr(m.random, name)(
            shape=x.shape, key=m.random.key(3)
        )
        for name in ("bernoulli", "gumbel", "laplace", "normal", "uniform")
    },
    "random.truncated_normal": lambda m, x: m.random.truncated_normal(
        -1.0, 1.0, (x.shape[1], 3), key=m.random.key(3)
    ),
    "random.randint": lambda m, x: m.random.randint(0, 99, (x.shape[1], 3), key=m.random.key(3)),
    "random.randint: below a size": lambda m, x: m.random.randint(
        0, x.shape[0], (x.shape[1],), key=m.random.key(3)
    ),
    "random.categorical": lambda m, x: m.random.categorical(
        x, num_samples=x.shape[0], key=m.random.key(3)
    ),
    "random.categorical: shape": lambda m, x: m.random.categorical(
        x, shape=(2, x.shape[0]), key=m.random.key(3)
    ),
    "random.split": lambda m, x: m.random.split(m.random.key(3), x.shape[0]),
    "random.key": lambda m, x: m.random.key(x.shape[0]),
    "random.permutation": lambda m, x: m.sort(m.random.permutation(x.shape[0])),
    "random.permutation: rows": lambda m, x: m.random.permutation(x, key=m.random.key(3)),
    "random.multivariate_normal": lambda m, x: (
        m.random.multivariate_normal(
            m.zeros(2), m.eye(2), (x.shape[0],), key=m.random.key(3), stream=m.cpu
        ).shape[0]
        + x
    ),
}

FAST: dict[str, Call] = {
    "fast.rope": lambda m, x: m.fast.rope(
        m.concatenate([x, x], 1)[None],
        2 * x.shape[1],
        traditional=False,
        base=1e4,
        scale=1.0,
        offset=x.shape[0],
    ),
    "fast.rms_norm": lambda m, x: m.fast.rms_norm(x, m.ones(x.shape[1]), 1e-5),
    "fast.layer_norm": lambda m, x: m.fast.layer_norm(x, m.ones(x.shape[1]), None, 1e-5),
    "fast.scaled_dot_product_attention": lambda m, x: m.fast.scaled_dot_product_attention(
        x[None, None], x[None, None], x[None, None], scale=x.shape[1] ** -0.5
    ),
}

CALLS: dict[str, Call] = {
    **INDEXING,
    **CREATION,
    **MOVEMENT,
    **REDUCTION,
    **CONVOLUTION,
    **FOURIER,
    **RANDOM,
    **FAST,
}

# Functions whose ints are no sizes of arrays, or that need sizes which matrices here do not have.
EXEMPT = {
    "block_masked_mm": "blocks of 32, 64 or 128",
    **dict.fromkeys(
        ("fori_loop", "scan", "switch", "while_loop"),
        "tests/transforms/control: bodies need shapes that are numbers",
    ),
    **dict.fromkeys(("argwhere", "nonzero", "unique"), "shapes that depend on values"),
    "dequantize": "groups of 32, 64 or 128",
    "quantize": "groups of 32, 64 or 128",
    "quantized_matmul": "groups of 32, 64 or 128",
    "gather_qmm": "groups of 32, 64 or 128",
    "gather_qqmm": "groups of 32, 64 or 128",
    "qqmm": "groups of 16 or 32",
    "grad": "positions of arguments",
    "value_and_grad": "positions of arguments",
    "printoptions": "digits",
    "set_printoptions": "digits",
    "random.seed": "a seed, which is state",
    "fast.cuda_kernel": "not on a CPU",
    "fft.fftfreq": "MLX has none",
    "fft.rfftfreq": "MLX has none",
    "fft.stft": "MLX has none",
    "fft.istft": "MLX has none",
}
