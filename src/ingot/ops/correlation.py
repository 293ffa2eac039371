"""How convolutions and their derivatives by filters are computed: by products of matrices.

`correlate` takes inputs (N, ..., C) of any strides and filters (O, ..., C / groups);
`correlate_batch` takes inputs and a second array in the shape of the results. Neither touches the
zeros that input dilation puts between elements: results are split into phases, each of which is a
plain correlation with some of the taps.

A plain correlation is a product with a matrix of windows: a row for each result, a column for each
tap and channel. The windows are a strided view of the padded input; they are copied into matrices a
few megabytes at a time, which stay in the cache until BLAS has read them. Where each channel has a
filter of its own there is nothing to multiply matrices for: shifted inputs are summed up instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ingot.graph.libraries import prepare_blas
from ingot.graph.shape import Shape, size_of

__all__ = ["Geometry", "correlate", "correlate_batch"]

# Elements of a matrix of windows: 4 MB of float32.
_BLOCK = 1 << 20


class Geometry(NamedTuple):
    """Which elements meet along each axis.

    Tap k of result y meets place y * stride + k * step - before of the spread input, which has an
    element at every multiple of its spread and zeros elsewhere, also outside.
    """

    strides: Shape
    before: Shape
    steps: Shape
    spreads: Shape


class Phase(NamedTuple):
    """Results along one axis that a plain correlation computes with some of the taps.

    Tap k of them meets, for result y of them, the element `first + y * stride + k * step`.
    """

    results: slice
    taps: slice
    first: int
    stride: int
    step: int


Phases = tuple[Phase, ...]


def correlate(
    x: np.ndarray, filters: np.ndarray, lengths: Shape, geometry: Geometry, groups: int
) -> np.ndarray:
    """Sums over taps and channels: a result of `lengths` for each example and filter."""
    prepare_blas()
    dtype = _computed_dtype(x)
    shape = (x.shape[0], *lengths, filters.shape[0])
    if 0 in (*shape, *x.shape, *filters.shape):
        return np.zeros(shape, x.dtype)
    whole = slice(None)
    all_phases = _phases(lengths, filters.shape[1:-1], geometry)
    compute = _channel_by_channel if _is_depthwise(filters, groups) else _row_by_row
    if len(all_phases) == 1 and all(phase.results == whole for phase in all_phases[0]):
        return compute(x, filters, lengths, all_phases[0], groups, dtype).astype(
            x.dtype, copy=False
        )
    result = np.zeros(shape, x.dtype)
    for phases in all_phases:
        part = result[(whole, *(phase.results for phase in phases))]
        used = filters[(whole, *(phase.taps for phase in phases))]
        part[...] = compute(x, used, part.shape[1:-1], phases, groups, dtype)
    return result


def correlate_batch(
    x: np.ndarray, outputs: np.ndarray, taps: Shape, geometry: Geometry, groups: int
) -> np.ndarray:
    """Sums over examples and results: filters with `taps`, of products of `x` and `outputs`."""
    prepare_blas()
    dtype = _computed_dtype(x)
    result = np.zeros((outputs.shape[-1], *taps, x.shape[-1] // groups), dtype)
    if 0 in (*result.shape, *x.shape, *outputs.shape):
        return result.astype(x.dtype, copy=False)
    compute = _sums_by_channel if _is_depthwise(result, groups) else _sums_of_rows
    for phases in _phases(outputs.shape[1:-1], taps, geometry):
        part = result[(slice(None), *(phase.taps for phase in phases))]
        used = outputs[(slice(None), *(phase.results for phase in phases))]
        part += compute(x, used, part.shape[1:-1], phases, groups, dtype)
    return result.astype(x.dtype, copy=False)


def _computed_dtype(x: np.ndarray) -> np.dtype:
    return np.dtype(np.float32) if x.itemsize == 2 else x.dtype


def _is_depthwise(filters: np.ndarray, groups: int) -> bool:
    return groups > 1 and filters.shape[0] == groups and filters.shape[-1] == 1


def _phases(lengths: Shape, taps: Shape, geometry: Geometry) -> list[Phases]:
    """All combinations of the phases of all axes."""
    by_axis = zip(lengths, taps, *geometry, strict=True)
    return list(product(*[_phases_of_axis(*parameters) for parameters in by_axis]))


def _phases_of_axis(
    length: int, taps: int, stride: int, before: int, step: int, spread: int
) -> list[Phase]:
    """The results along one axis, by which of the taps meet elements: the others meet zeros."""
    if spread == 1:
        return [Phase(slice(None), slice(None), -before, stride, step)]
    every = spread // gcd(stride, spread)
    every_tap = spread // gcd(step, spread)
    found = []
    for result in range(min(every, length)):
        for tap in range(min(every_tap, taps)):
            place = result * stride + tap * step - before
            if place % spread == 0:
                phase = Phase(
                    slice(result, None, every),
                    slice(tap, None, every_tap),
                    place // spread,
                    every * stride // spread,
                    every_tap * step // spread,
                )
                found.append(phase)
                break
    return found


def _field(
    x: np.ndarray, lengths: Shape, taps: Shape, phases: Phases, groups: int, dtype: np.dtype
) -> np.ndarray:
    """The elements that windows read, (groups, N, ..., C / groups), in one block of memory.

    There are zeros where the input has no elements.
    """
    last = x.ndim - 1
    split = x.reshape(*x.shape[:-1], groups, -1).transpose(last, *range(last), last + 1)
    old, new, extents = [], [], []
    for axis, (length, count, phase) in enumerate(zip(lengths, taps, phases, strict=True), 1):
        extent = (length - 1) * phase.stride + (count - 1) * phase.step + 1
        start = min(max(phase.first, 0), x.shape[axis])
        stop = max(min(phase.first + extent, x.shape[axis]), start)
        old.append(slice(start, stop))
        new.append(slice(start - phase.first, stop - phase.first))
        extents.append(extent)
    inside = split[(slice(None), slice(None), *old)]
    if inside.shape[2:-1] == tuple(extents):
        return np.ascontiguousarray(inside, dtype)
    field = np.zeros((*split.shape[:2], *extents, split.shape[-1]), dtype)
    if inside.size:
        field[(slice(None), slice(None), *new)] = inside
    return field


def _windows(field: np.ndarray, lengths: Shape, taps: Shape, phases: Phases) -> np.ndarray:
    """A view of the field as (groups, N, *lengths, *taps, C / groups)."""
    spatial = field.strides[2:-1]
    by_result = [n * phase.stride for n, phase in zip(spatial, phases, strict=True)]
    by_tap = [n * phase.step for n, phase in zip(spatial, phases, strict=True)]
    return as_strided(
        field,
        (*field.shape[:2], *lengths, *taps, field.shape[-1]),
        (*field.strides[:2], *by_result, *by_tap, field.strides[-1]),
        writeable=False,
    )


def _row_by_row(
    x: np.ndarray,
    filters: np.ndarray,
    lengths: Shape,
    phases: Phases,
    groups: int,
    dtype: np.dtype,
) -> np.ndarray:
    """Results as products of rows of windows and the filters as columns."""
    taps = filters.shape[1:-1]
    field = _field(x, lengths, taps, phases, groups, dtype)
    windows = _windows(field, lengths, taps, phases)
    columns = size_of(filters.shape[1:])
    matrices = filters.astype(dtype, copy=False).reshape(groups, -1, columns).transpose(0, 2, 1)
    result = np.empty((x.shape[0] * size_of(lengths), groups, matrices.shape[-1]), dtype)
    for group in range(groups):
        for start, rows in _matrices(windows[group], len(lengths), columns):
            target = result[start : start + rows.shape[0], group]
            np.matmul(rows, matrices[group], out=target)
    return result.reshape(x.shape[0], *lengths, filters.shape[0])


def _sums_of_rows(
    x: np.ndarray,
    outputs: np.ndarray,
    taps: Shape,
    phases: Phases,
    groups: int,
    dtype: np.dtype,
) -> np.ndarray:
    """Filters as products of outputs as columns and rows of windows, summed over blocks of rows."""
    lengths = outputs.shape[1:-1]
    field = _field(x, lengths, taps, phases, groups, dtype)
    windows = _windows(field, lengths, taps, phases)
    columns = size_of(taps) * field.shape[-1]
    total = outputs.shape[-1] // groups
    factors = outputs.astype(dtype, copy=False).reshape(-1, groups, total)
    result = np.zeros((groups, total, columns), dtype)
    for group in range(groups):
        for start, rows in _matrices(windows[group], len(lengths), columns):
            result[group] += np.matmul(factors[start : start + rows.shape[0], group].T, rows)
    return result.reshape(groups * total, *taps, field.shape[-1])


def _matrices(windows: np.ndarray, axes: int, columns: int) -> Iterator[tuple[int, np.ndarray]]:
    """The windows (N, ...) as matrices with `columns`, a block at a time, and their first rows.

    Blocks are cut along the first axis or, if one part of it is too large, along the second. The
    first `1 + axes` axes become rows.
    """
    inner = size_of(windows.shape[2 : 1 + axes])
    whole = windows.shape[1] * inner
    row = 0
    if whole * columns <= _BLOCK:
        count = _BLOCK // (whole * columns)
        for start in range(0, windows.shape[0], count):
            rows = windows[start : start + count].reshape(-1, columns)
            yield row, rows
            row += rows.shape[0]
        return
    count = max(1, _BLOCK // (inner * columns))
    for part in windows:
        for start in range(0, windows.shape[1], count):
            rows = part[start : start + count].reshape(-1, columns)
            yield row, rows
            row += rows.shape[0]


def _channel_by_channel(
    x: np.ndarray,
    filters: np.ndarray,
    lengths: Shape,
    phases: Phases,
    groups: int,
    dtype: np.dtype,
) -> np.ndarray:
    """Results where each channel has a filter of its own: a sum over taps of shifted inputs."""
    taps = filters.shape[1:-1]
    weights = filters[..., 0].astype(dtype, copy=False)
    windows = _windows(_field(x, lengths, taps, phases, 1, dtype), lengths, taps, phases)[0]
    result = np.zeros((x.shape[0], *lengths, groups), dtype)
    target = _joined_rows(result)
    for examples in _parts(result):
        total = target[examples]
        for tap in np.ndindex(*taps):
            factors = np.tile(weights[(slice(None), *tap)], lengths[-1])
            total += _met_by(tap, windows[examples]) * factors
    return result


def _sums_by_channel(
    x: np.ndarray,
    outputs: np.ndarray,
    taps: Shape,
    phases: Phases,
    groups: int,
    dtype: np.dtype,
) -> np.ndarray:
    """Filters where each channel has one of its own: sums of shifted inputs times outputs."""
    lengths = outputs.shape[1:-1]
    windows = _windows(_field(x, lengths, taps, phases, 1, dtype), lengths, taps, phases)[0]
    factors = _joined_rows(np.ascontiguousarray(outputs, dtype))
    rows = tuple(range(factors.ndim - 1))
    result = np.zeros((groups, *taps, 1), dtype)
    for examples in _parts(outputs):
        for tap in np.ndindex(*taps):
            products = _met_by(tap, windows[examples]) * factors[examples]
            by_place = products.sum(rows).reshape(-1, groups)
            result[(slice(None), *tap, 0)] += by_place.sum(0)
    return result


def _met_by(tap: tuple[int, ...], windows: np.ndarray) -> np.ndarray:
    """The elements that a tap meets, with the places of a row and channels as one axis."""
    places: tuple[slice | int, ...] = (slice(None),) * (1 + len(tap))
    return _joined_rows(windows[places + tap])


def _joined_rows(x: np.ndarray) -> np.ndarray:
    """`x` with its last two axes as one: loops over it are longer, hence faster."""
    return x.reshape(*x.shape[:-2], -1)


def _parts(results: np.ndarray) -> Iterator[slice]:
    """Ranges of examples whose results fill a part of the cache."""
    size = size_of(results.shape[1:])
    count = max(1, (_BLOCK >> 3) // size)
    for start in range(0, results.shape[0], count):
        yield slice(start, start + count)
