"""Arrays described without naming a library, so that ingot and MLX are given the same ones.

An `Array` says dtype, shape, layout and kind of values; `make` builds it with either module. The
values come from a seeded NumPy generator and are exact in the dtype, so that both modules start
from equal bits. Layouts that are not plain are made by the module itself (transpose, slices,
broadcast), because kernels that read strided memory are a frequent source of errors.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
SIGNED = ("int8", "int16", "int32", "int64")
INTEGERS = UNSIGNED + SIGNED
FLOATS = ("float16", "bfloat16", "float32", "float64")
REALS = ("bool_", *INTEGERS, *FLOATS)
DTYPES = (*REALS, "complex64")
INEXACT = (*FLOATS, "complex64")

LAYOUTS = ("plain", "transposed", "stepped", "reversed", "broadcast", "offset")


@dataclass(frozen=True)
class Dtype:
    """A dtype by name; `make` turns it into the module's own object."""

    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Array:
    """An array to be made: `values` names a kind in `draw`."""

    dtype: str
    shape: tuple[int, ...]
    layout: str = "plain"
    values: str = "any"
    seed: int = 0

    def __repr__(self) -> str:
        sizes = ",".join(map(str, self.shape))
        layout = "" if self.layout == "plain" else f" {self.layout}"
        return f"{self.dtype}[{sizes}]{layout} {self.values}#{self.seed}"

    def but(self, **changes: Any) -> Array:
        """The same array with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Given:
    """An array of given values: nested lists or a number."""

    value: Any
    dtype: str

    def __repr__(self) -> str:
        return f"{self.dtype}({self.value})"


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype whose values equal those of the dtype called `name`."""
    if name == "bfloat16":
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def _specials(dtype: np.dtype) -> list[float]:
    """Values at which implementations differ first."""
    info = ml_dtypes.finfo(dtype)
    tiny, huge = float(info.smallest_normal), float(info.max)
    inf = float("inf")
    return [float("nan"), inf, -inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, huge, -huge, tiny, -tiny]


def _draw_float(rng: np.random.Generator, dtype: np.dtype, size: int, kind: str) -> np.ndarray:
    if kind == "any":
        values = rng.normal(0, 3, size)
        picks = rng.random(size) < 0.4
        return np.where(picks, rng.choice(_specials(dtype), size), values)
    if kind == "nan":
        return np.where(rng.random(size) < 0.2, np.nan, rng.integers(-3, 4, size))
    if kind == "finite":
        return np.where(rng.random(size) < 0.1, 0, rng.normal(0, 3, size))
    if kind == "unit":
        return rng.uniform(-1, 1, size)
    if kind == "positive":
        return rng.uniform(0.1, 5, size)
    if kind == "above_one":
        return rng.uniform(1, 9, size)
    if kind == "wide":
        return rng.uniform(-60, 60, size)
    if kind == "decimal":
        return np.round(rng.uniform(-40, 40, size) * 4) / 4
    return _draw_integer(rng, -8, 8, size, kind).astype(np.float64)


def _draw_integer(
    rng: np.random.Generator, low: int, high: int, size: int, kind: str
) -> np.ndarray:
    """Integers in a small range: `low` is 0 for unsigned dtypes."""
    if kind == "distinct":
        return rng.permutation(size) + low
    if kind in ("nonzero", "positive", "above_one"):
        start = 1 if kind != "nonzero" or low == 0 else low
        values = rng.integers(start, high, size)
        return np.where(values == 0, 1, values)
    if kind == "unit":
        return rng.integers(-1 if low else 0, 2, size)
    if kind == "ties":
        return rng.integers(0, 3, size)
    if kind == "shift":
        return rng.integers(0, 7, size)
    return rng.integers(low, high, size)


@lru_cache(maxsize=4096)
def draw(dtype: str, shape: tuple[int, ...], values: str, seed: int) -> np.ndarray:
    """The seeded values of an array, exact in `dtype`; not to be changed."""
    key = zlib.crc32(repr((dtype, shape, values, seed)).encode())
    rng = np.random.default_rng(key)
    size = prod(shape)
    kind = numpy_dtype(dtype)
    if dtype == "bool_":
        always = values in ("positive", "nonzero", "above_one")
        flat = np.ones(size, bool) if always else rng.random(size) < 0.6
    elif dtype == "complex64":
        source = "finite" if values in ("any", "nan") else values
        single = np.dtype(np.float32)
        flat = _draw_float(rng, single, size, source) + 1j * _draw_float(rng, single, size, source)
    elif dtype in FLOATS:
        flat = _draw_float(rng, kind, size, values)
    else:
        info = np.iinfo(kind)
        flat = _draw_integer(rng, 0 if info.min == 0 else -8, 8, size, values)
        if values == "any":
            extremes = np.array([info.min, info.max, info.max // 2], dtype=kind)
            flat = np.where(rng.random(size) < 0.25, rng.choice(extremes, size), flat.astype(kind))
    with np.errstate(over="ignore"):
        result = np.asarray(flat).astype(kind).reshape(shape)
    if dtype == "bfloat16":
        result = result.astype(np.float32)
    result.flags.writeable = False
    return result


def _base_shape(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """The shape of the array of which `layout` is a view with `shape`."""
    if layout == "transposed":
        return shape[::-1]
    if layout == "stepped":
        return (*shape[:-1], 2 * shape[-1])
    if layout == "broadcast":
        return (1, *shape[1:])
    if layout == "offset":
        return (shape[0] + 1, *shape[1:])
    return shape


def _lay_out(mx: ModuleType, base: Any, shape: tuple[int, ...], layout: str) -> Any:
    if layout == "transposed":
        return mx.transpose(base)
    if layout == "stepped":
        return base[..., ::2]
    if layout == "reversed":
        return base[..., ::-1]
    if layout == "broadcast":
        return mx.broadcast_to(base, shape)
    if layout == "offset":
        return base[1:]
    return base


def make(mx: ModuleType, value: Any) -> Any:
    """`value` with every description in it replaced by the module's own object."""
    if isinstance(value, Array):
        base_shape = _base_shape(value.shape, value.layout)
        data = draw(value.dtype, base_shape, value.values, value.seed)
        base = mx.array(data, dtype=getattr(mx, value.dtype))
        return _lay_out(mx, base, value.shape, value.layout)
    if isinstance(value, Given):
        return mx.array(value.value, dtype=getattr(mx, value.dtype))
    if isinstance(value, Dtype):
        return getattr(mx, value.name)
    if type(value) in (list, tuple):
        return type(value)(make(mx, item) for item in value)
    if isinstance(value, dict):
        return {key: make(mx, item) for key, item in value.items()}
    return value


def varied(dtype: str, values: str = "any", *, small: bool = False) -> list[Array]:
    """One array of `dtype` for each layout, with 0-d and empty ones."""
    arrays = [
        Array(dtype, (), "plain", values),
        Array(dtype, (1,), "plain", values, 1),
        Array(dtype, (0,), "plain", values),
        Array(dtype, (2, 0, 3), "plain", values),
        Array(dtype, (3, 4), "transposed", values),
        Array(dtype, (2, 3, 4), "reversed", values),
    ]
    if small:
        return arrays
    return [
        *arrays,
        Array(dtype, (37,), "plain", values),
        Array(dtype, (2, 3, 4), "transposed", values),
        Array(dtype, (5, 7), "stepped", values),
        Array(dtype, (4, 5), "broadcast", values),
        Array(dtype, (3, 5), "offset", values),
    ]
