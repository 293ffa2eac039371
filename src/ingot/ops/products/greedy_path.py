"""The order in which MLX contracts the operands of an `einsum`, which `einsum_path` reports.

In: the labels of each operand and of the result, and their lengths. Out: the positions of the
operands of each step. Each step takes the pair whose contraction frees most memory, among equals
the cheapest one, and pairs that share a label before others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from math import prod
from typing import NamedTuple

__all__ = ["contraction_flops", "greedy_path"]

Labels = frozenset[str]


class _Pair(NamedTuple):
    """Two operands that may be contracted; pairs are ordered by what is best to do first."""

    growth: int  # elements of the result less those of the operands
    flops: int
    x: int
    y: int
    result: Labels

    def without(self, a: int, b: int) -> _Pair:
        """The pair, counted without the operands at `a` and `b`."""
        x, y = (position - (position > a) - (position > b) for position in (self.x, self.y))
        return self._replace(x=x, y=y)


def contraction_flops(
    operands: Sequence[Iterable[str]], result: Iterable[str], sizes: dict[str, int]
) -> int:
    """The FLOPs of contracting operands in one step."""
    involved = set().union(*operands)
    additions = 1 if involved.difference(result) else 0
    return prod(sizes[label] for label in involved) * (max(len(operands) - 1, 1) + additions)


def greedy_path(
    inputs: Sequence[str], output: str, sizes: dict[str, int]
) -> tuple[tuple[int, ...], ...]:
    """The operands of each step; its result becomes the last operand."""
    terms = [frozenset(labels) for labels in inputs]
    if len(terms) <= 2:
        return (tuple(range(len(terms))),)
    max_elements = max(_elements(labels, sizes) for labels in (*terms, output))
    flops_left = contraction_flops(terms, output, sizes)  # never more than in one step
    path: list[tuple[int, ...]] = []
    known: list[_Pair] = []
    positions = list(combinations(range(len(terms)), 2))
    while len(terms) > 1:
        related = [(x, y) for x, y in positions if terms[x] & terms[y]]
        for chosen in (related, positions):
            new = _pairs(terms, chosen, frozenset(output), sizes)
            known += [
                pair
                for pair in new
                if _elements(pair.result, sizes) <= max_elements and pair.flops <= flops_left
            ]
            if known:
                break
        else:
            return (*path, tuple(range(len(terms))))
        best = min(known, key=lambda pair: (pair.growth, pair.flops))
        a, b = best.x, best.y
        path.append((a, b))
        flops_left -= best.flops
        terms = [*(term for i, term in enumerate(terms) if i not in (a, b)), best.result]
        known = [pair.without(a, b) for pair in known if not {pair.x, pair.y} & {a, b}]
        positions = [(i, len(terms) - 1) for i in range(len(terms) - 1)]
    return tuple(path)


def _pairs(
    terms: list[Labels], positions: list[tuple[int, int]], output: Labels, sizes: dict[str, int]
) -> Iterator[_Pair]:
    for x, y in positions:
        others = output.union(*(term for i, term in enumerate(terms) if i not in (x, y)))
        result = (terms[x] | terms[y]) & others
        freed = _elements(terms[x], sizes) + _elements(terms[y], sizes)
        flops = contraction_flops((terms[x], terms[y]), result, sizes)
        yield _Pair(_elements(result, sizes) - freed, flops, x, y, result)


def _elements(labels: Iterable[str], sizes: dict[str, int]) -> int:
    return prod(sizes[label] for label in labels)
