"""The public array type: attaches methods to the C extension's handle, by MLX's names."""

from __future__ import annotations

from typing import Any

from ingot import ops
from ingot._native import array
from ingot.graph import construct as _construct  # noqa: F401  (installs the constructor)
from ingot.ops import (
    arithmetic,
    bitwise,
    casting,
    comparison,
    complex_numbers,
    contraction,
    diagonals,
    einstein,
    exponential,
    extremes,
    indexing,
    joining,
    movement,
    powers,
    reduction,
    rounding,
    scan,
    sorting,
    statistics,
    subscript,
    trigonometry,
)

__all__ = ["array"]

METHODS = (
    "abs all any argmax argmin astype conj cos cummax cummin cumprod cumsum diag diagonal exp flatten log log10 "
    "log1p log2 logcumsumexp logsumexp max mean min moveaxis prod reciprocal reshape round rsqrt sin split sqrt "
    "square squeeze std sum swapaxes transpose var view"
).split()

_modules: tuple[Any, ...] = (
    arithmetic, bitwise, casting, comparison, complex_numbers, contraction, diagonals, einstein, exponential,
    extremes, indexing, joining, movement, powers, reduction, rounding, scan, sorting, statistics, subscript, trigonometry,
)

for _name in METHODS:
    for _module in _modules:
        if hasattr(_module, _name):
            setattr(array, _name, getattr(_module, _name))
_ = ops
