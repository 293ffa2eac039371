"""ingot's functions and methods take the arguments that MLX takes, by the same names.

MLX's signatures are read from its docstrings. A call that is known to work, a case of the table, is
rewritten with more and more arguments by keyword; what MLX accepts, ingot must accept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import islice
from types import ModuleType
from typing import Any

import pytest
from tests.oracle.cases.case import Case
from tests.oracle.cases.table import CASES
from tests.oracle.harness.inputs import make
from tests.oracle.harness.signatures import parse, ways
from tests.oracle.test_names import LEFT_OUT, names

NAMES = [name for name in names() if f"mlx.core.{name}" not in LEFT_OUT]


def _call(mx: ModuleType, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    args, kwargs = make(mx, args), make(mx, kwargs)
    if "stream" in kwargs:
        kwargs["stream"] = mx.cpu
    if name.startswith("array."):
        return getattr(args[0], name.rpartition(".")[2])(*args[1:], **kwargs)
    return getattr(mx, name)(*args, **kwargs)


def _error(function: Callable[[], Any]) -> Exception | None:
    try:
        function()
    except Exception as error:
        return error
    return None


def _working(mx: ModuleType, name: str) -> Case | None:
    """The first case that works as a plain call, the one with most arguments of the first few."""
    works = (
        case
        for case in CASES.get(name, [])
        if not _error(lambda case=case: _call(mx, name, case.args, case.kwargs))
    )
    return max(islice(works, 30), key=lambda case: len(case.args) + len(case.kwargs), default=None)


@pytest.mark.parametrize("name", NAMES)
def test_signature(name: str, ours: ModuleType, theirs: ModuleType, count: Any) -> None:
    """Every way to pass arguments that MLX accepts is accepted."""
    function = reduce(getattr, name.split("."), theirs)
    case = _working(theirs, name) if callable(function) else None
    if case is None:
        return
    is_method = name.startswith("array.")
    receiver, args = (case.args[:1], case.args[1:]) if is_method else ((), case.args)
    tried = 0
    for parameters in parse(name.rpartition(".")[2], function.__doc__ or ""):
        for positional, keywords in ways(parameters, args, case.kwargs):
            call = (name, (*receiver, *positional), keywords)
            if _error(lambda call=call: _call(theirs, *call)) is None:
                error = _error(lambda call=call: _call(ours, *call))
                assert error is None, f"{call}: {error!r}"
                tried += 1
    count(name, tried)


def test_most_signatures_are_read(theirs: ModuleType) -> None:
    """The parser has not silently stopped to understand the docstrings."""
    found = 0
    for name in NAMES:
        function = reduce(getattr, name.split("."), theirs)
        found += bool(parse(name.rpartition(".")[2], getattr(function, "__doc__", None) or ""))
    assert found > 200
