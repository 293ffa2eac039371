"""Every kernel that the tests make, run once more: as the interpreter reads its loop nest, and as
machine code, on the same numbers.

`make check-kernels` does it for all of the tests; `INGOT_CHECK_KERNELS=1 pytest ...` for some. A
test fails for a kernel that it made first. What would take the interpreter too long is checked for
the first and last iterations of the parallel loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from tests.compiler.forms.nest.nest_runner import Memory, run_nest

from ingot.compiler.forms.affine import Affine, Extent, Symbol, affine
from ingot.compiler.forms.nest.data import (
    Apart,
    Apply,
    Body,
    Checked,
    CopyBlock,
    Loop,
    Mask,
    Nest,
    Value,
    When,
)
from ingot.compiler.forms.nest.interpret import interpret
from ingot.compiler.forms.nest.text import nest_text
from ingot.compiler.forms.nest.traversal import statements
from ingot.compiler.machine import generate
from ingot.graph.dtype import complex64

MAX_STATEMENTS = 4_000  # that the interpreter runs of one kernel, unless one iteration has more
MAX_ITERATION = 40_000
MAX_ELEMENTS = 1 << 22  # of all buffers of a kernel
# Words that are correctly rounded by both; of the others, some last bits differ.
EXACT = frozenset(
    "absolute add bits bitwise_and bitwise_invert bitwise_or bitwise_xor cast ceil complex "
    "conjugate divide equal floor floor_divide greater greater_equal imag largest left_shift less "
    "less_equal maximum minimum multiply negative not_equal real right_shift rotate_left round "
    "rounded select smallest sqrt subtract taken_for".split()
)
SMALL = 2  # the largest integer in memory, unless an index has to be less
COUNTS: Counter[str] = Counter()
_seen: set[str] = set()


@pytest.fixture(autouse=True)
def checked_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Checks the kernels that are generated for a test, and by nothing before it."""
    made: list[Nest] = []
    nest_module = generate.nest_module

    def remember(nest: Nest, *arguments: Any) -> str:
        text = nest_module(nest, *arguments)
        if text not in _seen:
            _seen.add(text)
            made.append(nest)
        return text

    monkeypatch.setattr(generate, "nest_module", remember)
    yield
    for nest in made:
        COUNTS[check(nest)] += 1


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Adds what a worker of xdist counted."""
    COUNTS.update(getattr(node, "workeroutput", {}).get("kernels", {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hands what a worker counted to the process that it works for."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["kernels"] = dict(COUNTS)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how many kernels were compared, and why others were not."""
    found = ", ".join(f"{count} {kind}" for kind, count in COUNTS.most_common())
    terminalreporter.write_line(f"kernels: {found or 'none'}")


def check(nest: Nest) -> str:
    """Compares interpreter and machine code, and says how far: "whole", "in part", or why not."""
    symbols = {symbol: _hint(symbol) for symbol in nest.symbols}
    elements = sum(
        int(np.prod([_number(n, symbols) for n in buffer.shape])) for buffer in nest.buffers
    )
    if elements > MAX_ELEMENTS:
        return "too much memory"
    chosen, total = _iterations(nest, symbols)
    if not chosen:
        return "too long an iteration" if total else "empty"
    largest = _largest_index(nest, symbols)
    expected, found = (Memory(nest, 1, largest, symbols) for _ in range(2))
    try:
        for begin, end in chosen:
            interpret(nest, expected.arrays, symbols, range(begin, end))
    except IndexError:
        return "indices that nothing checked"
    for begin, end in chosen:
        run_nest(nest, found.arrays, symbols, begin=begin, end=end)
    exact = all(
        _is_exact(each)
        for region in nest.parallel
        for each in statements(region.body)
        if isinstance(each, Apply)
    )
    for a, b in zip(expected.arrays, found.arrays, strict=True):
        _compare(a, b, exact, nest)
    return "whole" if sum(end - begin for begin, end in chosen) == total else "in part"


def _is_exact(value: Apply) -> bool:
    """Whether a word is correctly rounded; of complex numbers, few are."""
    rounded = value.word in EXACT
    return rounded and (value.dtype is not complex64 or value.word not in ("divide", "sqrt"))


def _compare(expected: np.ndarray, found: np.ndarray, exact: bool, nest: Nest) -> None:
    text = nest_text(nest)
    if expected.dtype.kind in "iub":
        np.testing.assert_array_equal(expected, found, text)
        return
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    a, b = expected.astype(wide), found.astype(wide)
    if exact:
        np.testing.assert_array_equal(a, b, text)
        return
    error = {2: 2e-2, 4: 2e-5, 8: 2e-5 if wide is np.complex128 else 1e-12}[expected.itemsize]
    np.testing.assert_allclose(a, b, rtol=error, atol=error, err_msg=text)


def _hint(symbol: Symbol) -> int:
    """What a symbol is in the call that the kernel was made for."""
    assert symbol.size is not None
    return int(symbol.size.hint)


def _number(x: Extent, symbols: dict[Symbol, int]) -> int:
    """An extent, with 0 for the indices of loops."""
    found = affine(x)
    return found.constant + sum(symbols.get(v, 0) * c for v, c in found.terms.items())  # type: ignore[call-overload]


def _iterations(nest: Nest, symbols: dict[Symbol, int]) -> tuple[list[tuple[int, int]], int]:
    """Ranges of iterations that are quickly interpreted, and how many there are."""
    total, costs = 0, [0]
    for region in nest.parallel:
        total += int(np.prod([_number(n, symbols) for n in region.lengths]))
        costs.append(_cost(region.body, symbols))
    some = max(MAX_STATEMENTS // max(1, *costs), 2 if max(costs) <= MAX_ITERATION else 0)
    if total <= some:
        return ([(0, total)] if total else []), total
    first = some // 2
    ranges = [(0, first), (total - (some - first), total)]
    return [(begin, end) for begin, end in ranges if begin < end], total


def _cost(body: Body, symbols: dict[Symbol, int]) -> int:
    """About how many statements the interpreter runs for a body."""
    cost = 0
    for statement in body:
        cost += 1
        if isinstance(statement, CopyBlock):
            cost += statement.side**2
        elif isinstance(statement, Loop):
            trips = min(_number(end - statement.begin, symbols) for end in statement.ends)
            cost += max(1, trips) * _cost(statement.body, symbols) // statement.step
        elif isinstance(statement, (When, Mask, Apart)):
            cost += _cost(statement.body, symbols)
    return cost


def _largest_index(nest: Nest, symbols: dict[Symbol, int]) -> int:
    """The largest integer that is an index along every axis that is indexed by values."""
    bounds = [SMALL + 1]
    for region in nest.parallel:
        for statement in statements(region.body):
            for value in _indices(statement):
                if isinstance(value, Checked):
                    bounds.append(_number(value.bound, symbols))
    return max(0, min(bounds) - 1)


def _indices(statement: object) -> Sequence[Affine | Value]:
    """What an access of a buffer, or a joined index, is computed of."""
    found: Sequence[Affine | Value] = getattr(statement, "index", None) or ()
    if not isinstance(found, tuple):
        found = ()
    return (*found, *getattr(statement, "parts", ()))
