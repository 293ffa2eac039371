"""Compares every kernel that the tests generate with the NumPy interpretation of its loop nest, on
the same numbers.

`make check-kernels` does this for the whole suite, `INGOT_CHECK_KERNELS=1 pytest ...` for some
tests; the test that first generated a kernel fails if the two disagree. Of kernels that would take
the interpreter too long, only the first and the last iterations of the parallel loop are compared,
or the last one alone.

What was compared is recorded in build/checked_kernels, one file per kernel, named by a digest of
the nest, its LLVM module and the code that compares: neither workers nor later runs repeat a
comparison that succeeded. Delete the folder to begin again.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numpy as np
import pytest
from tests.compiler.forms.nest import nest_runner
from tests.compiler.forms.nest.nest_runner import Memory, run_nest

from ingot.compiler.forms.affine import Affine, Extent, Symbol, affine
from ingot.compiler.forms.nest import data
from ingot.compiler.forms.nest import interpret as interpreter
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
from ingot.compiler.forms.size import hint_of
from ingot.compiler.machine import generate, jit, kernels
from ingot.graph.dtype import complex64
from ingot.graph.numerics import casts

RECORDS = Path(__file__).parents[2] / "build" / "checked_kernels"

MAX_STATEMENTS = 4_000  # that the interpreter runs of one kernel, unless one iteration has more
MAX_ITERATION = 40_000  # of which two are compared
MAX_LONG_ITERATION = 1_000_000  # of which one is compared
MAX_ELEMENTS = 1 << 22  # of all buffers of a kernel
# Functions that both round correctly; the results of others may differ in the last bits.
EXACT = frozenset(
    "absolute add bits bitwise_and bitwise_invert bitwise_or bitwise_xor cast ceil complex "
    "conjugate divide equal floor floor_divide greater greater_equal imag largest left_shift less "
    "less_equal maximum minimum multiply negative not_equal real represented right_shift "
    "rotate_left round rounded select smallest sqrt subtract taken_for".split()
)
INEXACT_OF_COMPLEX = ("absolute", "divide", "sqrt")
SMALL = 2  # the largest integer in memory, unless an index has to be less
COUNTS: Counter[str] = Counter()


@cache
def _comparison_digest() -> str:
    """A digest of everything but the kernel that the outcome of a comparison depends on."""
    modules = (interpreter, data, casts, nest_runner)
    files = [Path(__file__), *(Path(str(module.__file__)) for module in modules)]
    versions = f"{np.__version__} {llvmlite.__version__}".encode()
    return hashlib.sha256(versions + b"".join(file.read_bytes() for file in files)).hexdigest()


def _record_of(nest: Nest, module: str) -> Path:
    """Where the outcome of comparing a kernel is recorded."""
    text = "\n".join((_comparison_digest(), nest_text(nest), module))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return RECORDS / digest[:2] / digest[2:]


@pytest.fixture(autouse=True)
def checked_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Checks the kernels that are generated for a test, unless they were checked before."""
    made: dict[Path, tuple[Nest, str]] = {}
    nest_module = generate.nest_module

    def remember(nest: Nest, *arguments: Any) -> str:
        module = nest_module(nest, *arguments)
        if kernels.compile_object is jit.compile_object:  # some tests compile nothing instead
            made[_record_of(nest, module)] = nest, module
        return module

    monkeypatch.setattr(generate, "nest_module", remember)
    yield
    monkeypatch.setattr(kernels, "compile_object", jit.compile_object)  # whatever the test left
    for record, (nest, module) in made.items():
        if record.exists():
            COUNTS["checked before"] += 1
            continue
        found = check(nest, module)
        COUNTS[found] += 1
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(found)


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


def check(nest: Nest, module: str | None = None) -> str:
    """Compares the interpreter with the machine code of a nest, whose LLVM module may be given.
    Returns how much was compared, "whole" or "in part", or why nothing was.
    """
    symbols = {symbol: hint_of(symbol.size) for symbol in nest.symbols}
    elements = sum(
        int(np.prod([_number(n, symbols) for n in buffer.shape])) for buffer in nest.buffers
    )
    if elements > MAX_ELEMENTS:
        return "too much memory"
    chosen, total = _iterations(nest, symbols)
    if not chosen:
        return "too long an iteration" if total else "empty"
    largest = _largest_index(nest, symbols)
    if largest < 0:
        return "of an empty axis, whose indices are all refused before the kernel runs"
    expected, found = (Memory(nest, 1, largest, symbols) for _ in range(2))
    try:
        for begin, end in chosen:
            interpret(nest, expected.arrays, symbols, range(begin, end))
    except IndexError:
        return "indices that nothing checked"
    for begin, end in chosen:
        run_nest(nest, found.arrays, symbols, begin=begin, end=end, module=module)
    inexact = [
        each.dtype.numpy.itemsize
        for region in nest.parallel
        for each in statements(region.body)
        if isinstance(each, Apply) and each.dtype.numpy.kind not in "iub" and not _is_exact(each)
    ]
    has_padding = _skip_undefined(nest, expected, found, symbols, chosen)
    for a, b in zip(expected.arrays, found.arrays, strict=True):
        _compare(a, b, inexact, nest)
    extent = "whole" if sum(end - begin for begin, end in chosen) == total else "in part"
    return f"{extent} but for undefined padding" if has_padding else extent


def _skip_undefined(
    nest: Nest,
    expected: Memory,
    found: Memory,
    symbols: dict[Symbol, int],
    chosen: list[tuple[int, int]],
) -> bool:
    """Makes equal what depends on uninitialised stack memory in scratch memory, and tells whether
    there was any: lanes that vectors compute and nothing reads. In values that stays an error.
    """
    buffers = [buffer for buffer in nest.buffers if buffer.argument is not None]
    scratch = [
        n for n, x in enumerate(buffers) if x.origin is None and x.dtype.numpy.kind not in "iub"
    ]
    differ = any(not np.array_equal(expected.arrays[n], found.arrays[n]) for n in scratch)
    if len(buffers) == len(nest.buffers) or not differ:
        return False
    poisoned = Memory(nest, 1, _largest_index(nest, symbols), symbols)
    for begin, end in chosen:
        interpret(nest, poisoned.arrays, symbols, range(begin, end), stack=np.nan)
    has_padding = False
    for n in scratch:
        undefined = np.isnan(poisoned.arrays[n]) & ~np.isnan(expected.arrays[n])
        found.arrays[n][undefined] = expected.arrays[n][undefined]
        has_padding |= bool(undefined.any())
    return has_padding


def _is_exact(value: Apply) -> bool:
    """Whether a word is correctly rounded; of complex numbers, few are."""
    of_complex = value.operands[0].dtype is complex64
    return value.word in EXACT and not (of_complex and value.word in INEXACT_OF_COMPLEX)


def _compare(expected: np.ndarray, found: np.ndarray, inexact: list[int], nest: Nest) -> None:
    """Results are equal, or as close as the narrowest of the values that are not correctly rounded,
    whose sizes in bytes are given: wide sums of narrow values are no more exact than these.
    """
    text = nest_text(nest)
    if expected.dtype.kind in "iub":
        np.testing.assert_array_equal(expected, found, text)
        return
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore"):  # signaling NaNs, which small integers are as ranks
        a, b = expected.astype(wide), found.astype(wide)
    if not inexact:
        np.testing.assert_array_equal(a, b, text)
        return
    narrowest = min(*inexact, expected.itemsize)
    error = {2: 2e-2, 4: 2e-5, 8: 2e-5 if wide is np.complex128 else 1e-12}[narrowest]
    np.testing.assert_allclose(a, b, rtol=error, atol=error, err_msg=text)


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
    longest = max(costs)
    least = 2 if longest <= MAX_ITERATION else 1 if longest <= MAX_LONG_ITERATION else 0
    some = max(MAX_STATEMENTS // max(1, *costs), least)
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
    """The largest integer that is an index along every axis that is indexed by values; -1 if there
    is none.
    """
    bounds = [SMALL + 1]
    for region in nest.parallel:
        for statement in statements(region.body):
            for value in _indices(statement):
                if isinstance(value, Checked):
                    bounds.append(_number(value.bound, symbols))
    return min(bounds) - 1


def _indices(statement: object) -> Sequence[Affine | Value]:
    """What an access of a buffer, or a joined index, is computed of."""
    found: Sequence[Affine | Value] = getattr(statement, "index", None) or ()
    if not isinstance(found, tuple):
        found = ()
    return (*found, *getattr(statement, "parts", ()))
