"""Correlations: products of an input's windows with filters, and their gradients."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from ingot import _native
from ingot.graph.roles.products.tiled import Tiled
from ingot.graph.shape import size_of
from ingot.tuning_products import MIN_CONVOLUTION_ALONE

if TYPE_CHECKING:
    from ingot.graph.numerics.phases import Geometry
    from ingot.graph.shape import Shape

__all__ = ["Correlation", "CorrelationByFilters"]

_WHY_HOST = "BLAS computes it as a whole"


def _is_worth_a_program(products: int) -> bool:
    """Whether so many multiplications justify machine code of their own in eager mode. Small ones
    are bit-identical compiled and uncompiled only if deterministic results are requested.
    """
    return products >= MIN_CONVOLUTION_ALONE or _native.is_deterministic()


class Correlation(Tiled, role=True):
    """Inputs (N, ..., C) and filters (O, ..., C / groups) of one dtype give (N, *lengths, O).

    Write a frozen dataclass with these fields, the property `geometry` and the rules. Taps
    outside the input read 0. There are loop nests for float dtypes and known lengths, which all but
    small ones run through without `compile` too; the rest is a host step.
    """

    groups: int
    lengths: Shape

    why_host = _WHY_HOST
    is_compiled_often = True  # short windows of a recurrent model, in each layer for each token

    @property
    @abstractmethod
    def geometry(self) -> Geometry:
        """The geometry of the windows."""

    def runs_alone(self, *shapes: Shape) -> bool:
        x, filters = shapes
        return _is_worth_a_program(x[0] * size_of(self.lengths) * size_of(filters))


class CorrelationByFilters(Tiled, role=True):
    """The gradient with respect to the filters: inputs (N, ..., C) and cotangents of a
    correlation's results (N, ..., O) give, for each tap, sums over N and the results: (O, *taps, C
    / groups).

    Write a frozen dataclass with these fields, the property `geometry` and the rules.
    There are loop nests as for `Correlation`.
    """

    groups: int
    taps: Shape

    why_host = _WHY_HOST

    @property
    @abstractmethod
    def geometry(self) -> Geometry:
        """The geometry of the windows."""

    def runs_alone(self, *shapes: Shape) -> bool:
        x, outputs = shapes
        return _is_worth_a_program(size_of(outputs) * size_of(self.taps) * x[-1] // self.groups)
