"""Evaluation of convolutions and their filter gradients by matrix products.

`correlate` takes inputs (N, ..., C) of any strides and filters (O, ..., C / groups);
`correlate_batch` takes inputs and a second array in the shape of the results. Neither touches the
zeros of input dilation: results are split into phases, each of which is a plain correlation with a
subset of the taps.

A plain correlation is a product with a matrix of windows (im2col): a row per result, a column per
tap and channel. The windows are a strided view of the padded input; they are copied into matrices
of a few megabytes at a time, which stay in cache until BLAS has read them. Examples are distributed
over threads. Depthwise convolutions need no matrix product: they sum shifted inputs instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ingot import _native
from ingot.graph.libraries import prepare_blas
from ingot.graph.numerics.parallel import each_in_parallel, one_blas_thread
from ingot.graph.numerics.phases import Geometry, Phase, phases_of
from ingot.graph.shape import Shape, size_of
from ingot.tuning import MIN_CORRELATION_THREAD_WORK, WINDOW_BLOCK

__all__ = ["correlate", "correlate_batch"]


class Plain(NamedTuple):
    """A plain correlation: the lengths of its results and filters, and its geometry."""

    lengths: Shape
    taps: Shape
    phases: tuple[Phase, ...]
    groups: int


def correlate(
    x: np.ndarray, filters: np.ndarray, lengths: Shape, geometry: Geometry, groups: int
) -> np.ndarray:
    """Sums over taps and channels: a result of `lengths` for each example and filter."""
    prepare_blas()
    shape = (x.shape[0], *lengths, filters.shape[0])
    if 0 in (*shape, *x.shape, *filters.shape):
        return np.zeros(shape, x.dtype)
    # With input dilation, the windows of some results may contain only zeros.
    make = np.empty if set(geometry.spreads) == {1} else np.zeros
    result = make(shape, x.dtype)
    weights = filters.astype(_computed_dtype(x), copy=False)
    for phases in phases_of(lengths, filters.shape[1:-1], geometry):
        part = result[(slice(None), *(phase.results for phase in phases))]
        used = weights[(slice(None), *(phase.taps for phase in phases))]
        plain = Plain(part.shape[1:-1], used.shape[1:-1], phases, groups)
        _fill(part, x, used, plain)
    return result


def correlate_batch(
    x: np.ndarray, outputs: np.ndarray, taps: Shape, geometry: Geometry, groups: int
) -> np.ndarray:
    """Sums over examples and results: filters with `taps`, of products of `x` and `outputs`."""
    prepare_blas()
    result = np.zeros((outputs.shape[-1], *taps, x.shape[-1] // groups), _computed_dtype(x))
    if 0 not in (*result.shape, *x.shape, *outputs.shape):
        for phases in phases_of(outputs.shape[1:-1], taps, geometry):
            part = result[(slice(None), *(phase.taps for phase in phases))]
            used = outputs[(slice(None), *(phase.results for phase in phases))]
            plain = Plain(used.shape[1:-1], part.shape[1:-1], phases, groups)
            _add(part, x, used, plain)
    return result.astype(x.dtype, copy=False)


def _computed_dtype(x: np.ndarray) -> np.dtype:
    return np.dtype(np.float32) if x.itemsize == 2 else x.dtype


def _fill(result: np.ndarray, x: np.ndarray, weights: np.ndarray, plain: Plain) -> None:
    """Write the results of a plain correlation, a block of examples at a time."""
    is_depthwise = _is_depthwise(weights, plain.groups)
    compute = _by_channel if is_depthwise else _by_rows
    factors = weights if is_depthwise else _as_columns(weights, plain, result.size)

    def fill(examples: slice) -> None:
        part = result[examples]
        in_place = part.flags.c_contiguous and part.dtype == weights.dtype
        found = part if in_place else np.empty(part.shape, weights.dtype)
        compute(x[examples], factors, plain, found)
        if not in_place:
            part[...] = found

    blocks = list(_blocks(range(x.shape[0]), x.shape[-1], plain))
    if _threads(result.size * size_of(weights.shape[1:])) > 1:
        each_in_parallel(fill, blocks)
        return
    with one_blas_thread():
        for examples in blocks:
            fill(examples)


def _add(result: np.ndarray, x: np.ndarray, outputs: np.ndarray, plain: Plain) -> None:
    """Add the sums over all examples: each thread has a fixed share of them."""
    compute = _sums_by_channel if _is_depthwise(result, plain.groups) else _sums_of_rows

    def total(examples: range) -> np.ndarray:
        found = np.zeros(result.shape, result.dtype)
        for block in _blocks(examples, x.shape[-1], plain):
            found += compute(x[block], outputs[block], plain)
        return found

    count = x.shape[0]
    threads = _threads(outputs.size * size_of(result.shape[1:]))
    if threads == 1:
        with one_blas_thread():
            result += total(range(count))
        return
    threads = min(threads, count)
    bounds = [count * number // threads for number in range(threads + 1)]
    parts = [range(start, stop) for start, stop in pairwise(bounds)]
    for found in each_in_parallel(total, parts):
        result += found


def _threads(work: int) -> int:
    """The number of threads for this many multiplications."""
    return max(1, min(_native.get_num_threads(), work // MIN_CORRELATION_THREAD_WORK))


def _blocks(examples: range, channels: int, plain: Plain) -> Iterator[slice]:
    """Blocks of examples whose windows fill a matrix, or of one example."""
    windows = size_of(plain.lengths) * size_of(plain.taps) * channels
    count = max(1, WINDOW_BLOCK // windows)
    for start in range(examples.start, examples.stop, count):
        yield slice(start, min(start + count, examples.stop))


def _is_depthwise(filters: np.ndarray, groups: int) -> bool:
    """Whether each channel has its own filter."""
    return groups > 1 and filters.shape[0] == groups and filters.shape[-1] == 1


def _windows(x: np.ndarray, plain: Plain) -> np.ndarray:
    """The windows, (groups, N, *lengths, *taps, C / groups), as a view of a padded copy."""
    last = x.ndim - 1
    split = x.reshape(*x.shape[:-1], plain.groups, -1).transpose(last, *range(last), last + 1)
    field = _padded(split, plain)
    spatial = field.strides[2:-1]
    by_result = [n * phase.stride for n, phase in zip(spatial, plain.phases, strict=True)]
    by_tap = [n * phase.step for n, phase in zip(spatial, plain.phases, strict=True)]
    return as_strided(
        field,
        (*field.shape[:2], *plain.lengths, *plain.taps, field.shape[-1]),
        (*field.strides[:2], *by_result, *by_tap, field.strides[-1]),
        writeable=False,
    )


def _padded(x: np.ndarray, plain: Plain) -> np.ndarray:
    """The elements (groups, N, ..., C / groups) that windows read, with zero padding."""
    old, new, extents = [], [], []
    for length, taps, phase, available in zip(*plain[:3], x.shape[2:-1], strict=True):
        extent = (length - 1) * phase.stride + (taps - 1) * phase.step + 1
        start = min(max(phase.first, 0), available)
        stop = max(min(phase.first + extent, available), start)
        old.append(slice(start, stop))
        new.append(slice(start - phase.first, stop - phase.first))
        extents.append(extent)
    everything = (slice(None), slice(None))
    inside = x[(*everything, *old)]
    dtype = _computed_dtype(x)
    if inside.shape[2:-1] == tuple(extents):
        return np.ascontiguousarray(inside, dtype)
    field = np.zeros((*x.shape[:2], *extents, x.shape[-1]), dtype)
    if inside.size:
        field[(*everything, *new)] = inside
    return field


def _as_columns(weights: np.ndarray, plain: Plain, results: int) -> np.ndarray:
    """The filters as columns: a matrix for each group."""
    columns = size_of(weights.shape[1:])
    matrices = weights.reshape(plain.groups, -1, columns).transpose(0, 2, 1)
    # BLAS is faster with contiguous matrices, but the copy must pay off.
    return np.ascontiguousarray(matrices) if results > weights.size else matrices


def _by_rows(x: np.ndarray, matrices: np.ndarray, plain: Plain, out: np.ndarray) -> None:
    """Results as products of rows of windows and the filters as columns."""
    _, columns, count = matrices.shape
    result = out.reshape(-1, plain.groups, count)
    for group, windows in enumerate(_windows(x, plain)):
        for position, matrix in _matrices(windows, plain, columns):
            np.matmul(matrix, matrices[group], out=result[position, group])


def _sums_of_rows(x: np.ndarray, outputs: np.ndarray, plain: Plain) -> np.ndarray:
    """Filters as products of outputs as columns and rows of windows."""
    count = outputs.shape[-1] // plain.groups
    factors = outputs.astype(_computed_dtype(x), copy=False).reshape(-1, plain.groups, count)
    columns = size_of(plain.taps) * (x.shape[-1] // plain.groups)
    result = np.zeros((plain.groups, count, columns), factors.dtype)
    for group, windows in enumerate(_windows(x, plain)):
        for position, matrix in _matrices(windows, plain, columns):
            result[group] += np.matmul(factors[position, group].T, matrix)
    return result.reshape(outputs.shape[-1], *plain.taps, -1)


def _matrices(
    windows: np.ndarray, plain: Plain, columns: int
) -> Iterator[tuple[slice, np.ndarray]]:
    """The windows (N, ...) of a group as matrices, and the range of rows of each.

    There is one matrix unless it would be too large: an example is then cut along its first axis.
    """
    inner = size_of(plain.lengths[1:])
    count = WINDOW_BLOCK // (inner * columns)
    length = plain.lengths[0]
    if count >= length:
        matrix = windows.reshape(-1, columns)
        yield slice(0, matrix.shape[0]), matrix
        return
    row = 0
    for example in windows:
        for start in range(0, length, max(1, count)):
            matrix = example[start : start + max(1, count)].reshape(-1, columns)
            yield slice(row, row + matrix.shape[0]), matrix
            row += matrix.shape[0]


def _by_channel(x: np.ndarray, weights: np.ndarray, plain: Plain, out: np.ndarray) -> None:
    """Depthwise results: a sum over taps of shifted inputs."""
    windows = _windows(x, plain._replace(groups=1))[0]
    total = _joined_rows(out)
    total.fill(0)
    for tap in np.ndindex(*plain.taps):
        by_channel = weights[(slice(None), *tap, 0)]
        total += _met_by(tap, windows) * np.tile(by_channel, plain.lengths[-1])


def _sums_by_channel(x: np.ndarray, outputs: np.ndarray, plain: Plain) -> np.ndarray:
    """Depthwise filter gradients: sums of shifted inputs times outputs."""
    windows = _windows(x, plain._replace(groups=1))[0]
    factors = _joined_rows(np.ascontiguousarray(outputs, windows.dtype))
    rows = tuple(range(factors.ndim - 1))
    result = np.empty((x.shape[-1], *plain.taps, 1), windows.dtype)
    for tap in np.ndindex(*plain.taps):
        by_place = (_met_by(tap, windows) * factors).sum(rows)
        result[(slice(None), *tap, 0)] = by_place.reshape(plain.lengths[-1], -1).sum(0)
    return result


def _met_by(tap: tuple[int, ...], windows: np.ndarray) -> np.ndarray:
    """The elements that a tap reads, with the last position axis and channels merged."""
    positions: tuple[slice | int, ...] = (slice(None),) * (1 + len(tap))
    return _joined_rows(windows[positions + tap])


def _joined_rows(x: np.ndarray) -> np.ndarray:
    """`x` with its last two axes merged: longer inner loops are faster."""
    return x.reshape(*x.shape[:-2], -1)
