"""Chooses the kernels of a convolution."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Constant
from ingot.compiler.forms.size import is_symbolic
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Kernel, Lowered, kernel_of
from ingot.compiler.lower.products.convolution.by_filters import correlate_by_filters
from ingot.compiler.lower.products.convolution.dense import convolution_columns, convolve
from ingot.compiler.lower.products.convolution.depthwise import convolve_depthwise, is_depthwise
from ingot.compiler.lower.products.convolution.depthwise_by_filters import (
    correlate_depthwise_by_filters,
)
from ingot.compiler.lower.products.convolution.filters import pack_filters
from ingot.compiler.lower.products.convolution.grouped import convolve_grouped, is_grouped
from ingot.compiler.lower.products.convolution.narrow import convolve_narrow, is_narrow
from ingot.compiler.lower.products.convolution.plain import (
    Layout,
    Operand,
    Plain,
    plain_correlations,
)
from ingot.compiler.lower.products.convolution.winograd import convolve_winograd, is_winograd
from ingot.graph.dtype import is_floating
from ingot.graph.roles import Correlation, CorrelationByFilters
from ingot.runtime.processor import processor_features

__all__ = ["lower_correlation", "lower_correlation_by_filters"]

Strides = dict[Step, tuple[int, ...]]
ALIGNMENT = 64  # of panels

# Kernels for special geometries, the preferred ones first, with the condition for each.
_SPECIAL_CASES = (
    (is_depthwise, convolve_depthwise),
    (is_winograd, convolve_winograd),
    (is_grouped, convolve_grouped),
    (is_narrow, convolve_narrow),
)


def lower_correlation(step: Step, strides_of: Strides) -> Lowered | None:
    """The kernels of a convolution; None if lengths are symbolic or there is nothing to compute."""
    op = step.op
    assert isinstance(op, Correlation)
    found = _operands(step, strides_of)
    if found is None:
        return None
    kernels: list[Kernel] = []
    plains = plain_correlations(op.geometry, op.groups, *found)
    if sum(prod(plain.results.layout.shape) for plain in plains) < prod(step.shape):
        kernels.append(_zeros(step, found[2]))
    return _after(kernels, plains, lambda plain, offset: _plain_kernels(plain, step, offset))


def lower_correlation_by_filters(step: Step, strides_of: Strides) -> Lowered | None:
    """The kernels of the gradient of a convolution with respect to its filters; None likewise."""
    op = step.op
    assert isinstance(op, CorrelationByFilters)
    found = _operands(step, strides_of)
    if found is None:
        return None
    x, outputs, filters = found
    given, cotangent = step.inputs
    kernels: list[Kernel] = []
    plains = plain_correlations(op.geometry, op.groups, x, filters, outputs)
    if sum(prod(plain.filters.layout.shape) for plain in plains) < prod(step.shape):
        kernels.append(_zeros(step, filters))
    steps = (given, cotangent, step)
    return _after(kernels, plains, lambda plain, offset: _by_filters(plain, steps, offset))


def _after(
    first: list[Kernel], plains: list[Plain], lower: Callable[[Plain, int], Lowered | None]
) -> Lowered | None:
    """The first kernels, then those of all plain correlations, each with its own scratch memory at
    the offset that `lower` is given; None if one of them has none.
    """
    kernels, scratch = list(first), 0
    for plain in plains:
        made = lower(plain.joined(), scratch)
        if made is None:
            return None
        kernels += made.kernels
        scratch += -(-made.scratch // ALIGNMENT) * ALIGNMENT
    return Lowered(kernels, scratch)


def _by_filters(plain: Plain, steps: tuple[Step, Step, Step], offset: int) -> Lowered | None:
    found = None
    if is_depthwise(plain):
        found = correlate_depthwise_by_filters(plain, steps, offset)
    return found or correlate_by_filters(plain, steps, offset)


def _operands(step: Step, strides_of: Strides) -> tuple[Operand, Operand, Operand] | None:
    """Both inputs and the result, if there is a nest for them."""
    steps = (*step.inputs, step)
    numbers = [n for each in steps for n in (*each.shape, *strides_of[each])]
    if any(map(is_symbolic, numbers)) or any(0 in each.shape for each in steps):
        return None
    if not is_floating(step.dtype):
        return None
    a, b, result = (
        Operand(name, each.dtype, Layout(each.shape, strides_of[each]))
        for name, each in zip(("a", "b", "result"), steps, strict=True)
    )
    return a, b, result


def _plain_kernels(plain: Plain, step: Step, offset: int) -> Lowered | None:
    x, filters = step.inputs
    for applies, convolve_specially in _SPECIAL_CASES:
        found = convolve_specially(plain, (x, filters, step), offset) if applies(plain) else None
        if found is not None:
            return found
    if "avx512_bf16" in processor_features():
        plain = plain.in_pairs() or plain
    columns = convolution_columns(plain)
    kernel = convolve(plain, (x, step), offset)
    if kernel is None:
        return None
    panels = -(-plain.outputs // columns)
    scratch = plain.groups * panels * plain.depth * columns * plain.dtype.size
    return Lowered([pack_filters(plain, filters, columns, offset), kernel], scratch)


def _zeros(step: Step, results: Operand) -> Kernel:
    """The kernel that zero-fills the results, for those whose windows are entirely outside."""
    builder = NestBuilder()
    buffer = results.buffer(builder, 0)
    *outer, last = results.layout.shape
    with (
        builder.parallel(outer, last) as indices,
        builder.loop(0, last, kind="vector") as index,
    ):
        builder.store(Constant(results.dtype, 0), buffer, (*map(affine, indices), affine(index)))
    return kernel_of(builder.nest, (step,))
