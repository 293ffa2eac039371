"""Statements whose accesses are limited to some lanes of vectors, which the code contains twice
where masks are slow: without masks, for indices from which all lanes are within the limits, and
with them.

Processors without registers for masks compute and keep them like vectors, and store under a mask in
dozens of steps. Most tiles fill their vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ingot.compiler.forms.affine import Affine
from ingot.compiler.forms.nest.data import (
    Apart,
    Apply,
    Body,
    Load,
    Loop,
    Mask,
    Multiple,
    Prefetch,
    Splat,
    Split,
    Statement,
    Store,
    Value,
    When,
)
from ingot.compiler.forms.nest.traversal import statements

__all__ = ["Run", "runs"]

_SIMPLE = (Apply, Load, Prefetch, Splat, Store)


class Run(NamedTuple):
    """Consecutive statements of a body. If there are `limits`, all accesses in it are to whole
    vectors where all of these are at least zero; they are known before the run.
    """

    body: Body
    limits: list[Affine]

    def values(self) -> list[Value]:
        """The values of the run that statements after it may use."""
        found: list[Value] = []
        for statement in self.body:
            if isinstance(statement, Loop):
                found += statement.carried
            elif isinstance(statement, Value):
                found.append(statement)
        return found


def runs(body: Body) -> Iterator[Run]:
    """A body in runs: those with limits begin and end with a statement that has some. Of loops,
    these are only such whose innermost loops all have limited accesses, since the code of others
    would be repeated for little.
    """
    pending: Body = []  # statements since the last one with limits
    open_run: Run | None = None
    for statement in body:
        limits = _limits(statement)
        if limits:
            if open_run is None:
                if pending:
                    yield Run(pending, [])
                open_run = Run([], [])
            else:
                open_run.body.extend(pending)
            pending = []
            open_run.body.append(statement)
            open_run.limits.extend(limits)
            continue
        if open_run is not None and not isinstance(statement, _SIMPLE):
            yield _merged(open_run)
            open_run = None
        pending.append(statement)
    if open_run is not None:
        yield _merged(open_run)
    if pending:
        yield Run(pending, [])


def _merged(run: Run) -> Run:
    """A run with the strictest of its limits."""
    least: dict[object, Affine] = {}
    for limit in run.limits:
        key = frozenset(limit.terms.items())
        if key not in least or limit.constant < least[key].constant:
            least[key] = limit
    return Run(run.body, [*least.values()])


def _limits(statement: Statement) -> list[Affine]:
    """What is at least zero if all accesses of a statement are to whole vectors; none if there are
    no limits, if they depend on what the statement computes, or if it is not worth repeating.
    """
    if not isinstance(statement, Loop):
        found = _rest(statement)
        return [] if found is None else [found]
    if not _is_limited(statement):
        return []
    limits: list[Affine] = []
    inner: set[object] = {statement.index}
    for each in statements(statement.body):
        if isinstance(each, (When, Mask, Apart)):
            return []
        if isinstance(each, (Loop, Multiple)):
            inner.add(each.index)
        elif isinstance(each, Split):
            inner.update(each.indices)
        elif (rest := _rest(each)) is not None:
            limits.append(rest)
    return [] if any(inner & each.terms.keys() for each in limits) else limits


def _is_limited(loop: Loop) -> bool:
    """Whether all innermost loops in a loop have limited accesses."""
    inner = [each for each in loop.body if isinstance(each, Loop)]
    if inner:
        return all(map(_is_limited, inner))
    return any(_rest(each) is not None for each in loop.body)


def _rest(statement: Statement) -> Affine | None:
    """The number of lanes between the end of an access and its limit; None if it has no limit."""
    if isinstance(statement, Load):
        lanes = statement.lanes
    elif isinstance(statement, Store):
        lanes = statement.value.lanes
    else:
        return None
    if lanes == 1 or statement.limit is None:
        return None
    first = statement.index[-1]
    assert isinstance(first, Affine)
    return statement.limit - first - lanes
