"""ingot's functions and methods take the arguments that MLX documents, by the same names.

MLX's signatures are read from its docstrings and bound against those of ingot.
"""

from __future__ import annotations

import inspect
from functools import reduce
from types import ModuleType

import pytest

from .signatures import calls, parse
from .test_names import LATER, WITHOUT_CASES, names

NAMES = [name for name in names() if WITHOUT_CASES.get(name) != LATER]


@pytest.mark.parametrize("name", NAMES)
def test_signature(name: str, ours: ModuleType, theirs: ModuleType) -> None:
    """Every documented way to pass arguments is accepted."""
    theirs_function = reduce(getattr, name.split("."), theirs)
    ours_function = reduce(getattr, name.split("."), ours)
    short = name.rpartition(".")[2]
    documented = parse(short, getattr(theirs_function, "__doc__", None) or "")
    if not documented or not callable(ours_function) or ours is theirs:
        return
    signature = inspect.signature(ours_function)
    for expected in documented:
        for args, kwargs in calls(expected):
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                pytest.fail(f"{name}{signature} does not take {args} {kwargs}: {error}")


def test_most_signatures_are_read(theirs: ModuleType) -> None:
    """The parser has not silently stopped to understand the docstrings."""
    found = 0
    for name in NAMES:
        function = reduce(getattr, name.split("."), theirs)
        found += bool(parse(name.rpartition(".")[2], getattr(function, "__doc__", None) or ""))
    assert found > 200
