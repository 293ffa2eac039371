"""Correlations: products of an input's windows with filters, and their gradients."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from ingot.graph.roles.host import Host

if TYPE_CHECKING:
    from ingot.graph.numerics.phases import Geometry
    from ingot.graph.shape import Shape

__all__ = ["Correlation", "CorrelationByFilters"]

_WHY_HOST = "BLAS computes it as a whole"


class Correlation(Host, role=True):
    """Inputs (N, ..., C) and filters (O, ..., C / groups) of one dtype give (N, *lengths, O).

    Write a frozen dataclass with these fields, the property `geometry` and the rules. Taps
    outside the input read 0. Compiled programs have loop nests for float dtypes and
    known lengths; the rest is a host step.
    """

    groups: int
    lengths: Shape

    why_host = _WHY_HOST

    @property
    @abstractmethod
    def geometry(self) -> Geometry:
        """The geometry of the windows."""


class CorrelationByFilters(Host, role=True):
    """Inputs (N, ..., C) and what has the shape of a correlation's results, (N, ..., O), give sums
    over N and these results for each tap: (O, *taps, C / groups).

    Write a frozen dataclass with these fields, the property `geometry` and the rules.
    Compiled programs have loop nests as for `Correlation`.
    """

    groups: int
    taps: Shape

    why_host = _WHY_HOST

    @property
    @abstractmethod
    def geometry(self) -> Geometry:
        """The geometry of the windows."""
