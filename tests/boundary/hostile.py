"""Hostile arguments, the calls they are put into, and what may come of it."""

from __future__ import annotations

import ast
import inspect
import io
import re
import traceback
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.oracle.walk.environment import environment as common

import ingot
import ingot.core as mx
import ingot.search as search
from ingot._native import Checked
from ingot.graph.boundary import FUNCTION, parameters_of

# Each is evaluated once per call: generators are used up, and lists might be changed.
HOSTILE = """
None
float("nan")
float("inf")
-1
0
2**63
2**200
1.5
1j
True
"x"
""
b"x"
[]
()
{}
[[1], [1, 2]]
[None]
[1.5, "x"]
(-1, -1)
(2**63,)
object()
lambda *arguments: None
int
mx.float32
mx.array
mx.array(True)
mx.array([1j, 2])
mx.zeros((0,))
mx.zeros((2, 0, 3))
mx.ones((2, 1, 1, 1, 1, 1, 1, 1))
mx.array(3, mx.uint8)
mx.array([9, -9, 2**31 - 1])
mx.array([float("nan")] * 3)
np.array([object()])
np.float64(2.5)
np.zeros((2, 2))
np.array(["a"])
(number for number in (1, 2))
endless()
deep()
{1: "a", "b": None}
slice(None, None, 0)
...
NotImplemented
float
Hostile()
"""


def endless() -> list[Any]:
    """A list that holds itself."""
    found: list[Any] = []
    found.append(found)
    return found


def deep() -> list[Any]:
    """A list that is nested deeper than arrays have axes, or Python has frames."""
    found: list[Any] = []
    for _ in range(3000):
        found = [found]
    return found


class Hostile:
    """An object without anything."""

    __slots__ = ()


_numbers = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)


def _rows() -> Any:
    return mx.array(_numbers[:8])


def _flat() -> Any:
    index = search.FlatIndex(4)
    index.add_with_ids(_rows(), np.arange(8))
    return index


def _lists() -> Any:
    index = search.IVFFlatIndex(4, 2)
    index.train(_rows())
    index.add_with_ids(_rows(), np.arange(8))
    return index


def _saved(make: Any = _lists) -> io.BytesIO:
    file = io.BytesIO()
    make().save(file)
    file.seek(0)
    return file


def _mlxfn() -> str:
    mx.export_function("f.mlxfn", lambda x: 2 * x, mx.ones(3))
    return "f.mlxfn"


def _npz() -> io.BytesIO:
    file = io.BytesIO()
    np.savez(file, a=_numbers)
    file.seek(0)
    return file


def environment() -> dict[str, Any]:
    """What the expressions name: as in the walk beside MLX, and what ingot alone has."""
    return {
        **common("ingot"),
        "ingot": ingot,
        "search": search,
        "endless": endless,
        "deep": deep,
        "Hostile": Hostile,
        "_rows": _rows,
        "_many_rows": lambda: mx.array(_numbers),
        "_ids": lambda: np.arange(8),
        "_flat": _flat,
        "_lists": _lists,
        "_saved": _saved,
        "_saved_flat": lambda: _saved(_flat),
        "_mlxfn": _mlxfn,
        "_npz": _npz,
    }


@dataclass(frozen=True)
class Attempt:
    """A call with one argument replaced by the name HOSTILE."""

    name: str  # of the function
    argument: str
    text: str
    calls: bool  # whether the argument is a function, which will be called


def attempts(expression: str, known: dict[str, Any]) -> list[Attempt]:
    """The expression with each argument replaced in turn, and with those that have defaults."""
    tree = ast.parse(expression, mode="eval")
    found = []
    for call in _spine(tree.body):
        name = ast.unparse(call.func)
        functions = {str(n) for n, one in enumerate(call.args) if _is_function(one, known)}
        functions |= {one.arg for one in call.keywords if _is_function(one.value, known)}
        functions |= _callbacks(eval(name, dict(known)))
        for label, change, undo in _changes(call, known):
            change()
            found.append(Attempt(name, label, ast.unparse(tree), label in functions))
            undo()
    return found


def _spine(node: ast.expr) -> list[ast.Call]:
    """The outermost call, and those that make what it is called on: a layer, an optimizer."""
    found = []
    while True:
        if isinstance(node, ast.Call):
            helper = isinstance(node.func, ast.Name) and node.func.id.startswith("_")
            found += [] if helper else [node]
            found += [one for one in ast.walk(node) if _is_slice(one)]
            node = node.func
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        else:
            return found


def _is_slice(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "slice"
    )


def _is_function(argument: ast.expr, known: dict[str, Any]) -> bool:
    return isinstance(argument, ast.Name) and inspect.isfunction(known[argument.id])


def _callbacks(function: Any) -> set[str]:
    """The parameters that take functions."""
    checked = getattr(function, "__init__", None) if isinstance(function, type) else function
    checked = getattr(checked, "__func__", checked)
    if not isinstance(checked, Checked):
        return set()
    found = parameters_of(checked)
    pairs = zip(found.names, found.kinds, strict=True)
    return {name for name, kind in pairs if kind.bits & FUNCTION}


def _changes(call: ast.Call, known: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """A label, a function that replaces or adds an argument, and one that takes it back."""
    hostile = ast.Name("HOSTILE", ast.Load())
    for position, old in enumerate(call.args):
        if isinstance(old, ast.Starred):
            continue
        yield (
            str(position),
            lambda position=position: call.args.__setitem__(position, hostile),
            lambda position=position, old=old: call.args.__setitem__(position, old),
        )
    for keyword in list(call.keywords):
        old = keyword.value
        yield (
            str(keyword.arg),
            lambda keyword=keyword: setattr(keyword, "value", hostile),
            lambda keyword=keyword, old=old: setattr(keyword, "value", old),
        )
    for name in (*_missing(call, known), "no_such_argument"):
        added = ast.keyword(name, hostile)
        yield name, lambda added=added: call.keywords.append(added), lambda: call.keywords.pop()
    yield "one more", lambda: call.args.append(hostile), lambda: call.args.pop()
    if call.args:
        old = call.args[-1]
        yield "one less", lambda: call.args.pop(), lambda: call.args.append(old)


def _missing(call: ast.Call, known: dict[str, Any]) -> list[str]:
    """The parameters with defaults that the call does not give."""
    function = eval(ast.unparse(call.func), dict(known))
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return []
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        given = len(eval(ast.unparse(ast.Tuple(call.args, ast.Load())), dict(known)))
    else:
        given = len(call.args)
    named = {keyword.arg for keyword in call.keywords}
    free = [
        parameter.name
        for position, parameter in enumerate(parameters)
        if parameter.kind is parameter.KEYWORD_ONLY
        or (parameter.kind is parameter.POSITIONAL_OR_KEYWORD and position >= given)
    ]
    return [name for name in free if name not in named]


def hostile_values(attempt: Attempt, every: bool) -> list[str]:
    """The values for an attempt: all, or some that depend on its text alone."""
    values = [line for line in HOSTILE.splitlines() if line]
    if re.match(r"operator|divmod", attempt.name) and attempt.argument == "0":
        values = [value for value in values if not value.startswith("np.")]  # NumPy's operators
    if attempt.calls:
        values = [value for value in values if value not in FUNCTIONS]
    if attempt.argument in ("no_such_argument", "one more", "one less"):
        return values[:1]
    if every:
        return values
    start = zlib.crc32(attempt.text.encode()) % SHARE
    return values[start::SHARE]


FUNCTIONS = ("lambda *arguments: None", "int", "float", "mx.array")
SHARE = 9  # one hostile value of so many is tried where not every one is

_OWN = re.compile(r"\[[\w.]+\] .+[.)'\"]", re.DOTALL)
_PYTHONS = re.compile(  # about the number and the names of arguments
    r"missing \d+ required|missing required argument|(unexpected|invalid) keyword argument|"
    r"positional arguments?( but|$)|takes (no|exactly|at most) |multiple values for argument|"
    r"expected (at (most|least) )?\d+ arguments?"
)
# The names in such sentences must be public ones, or those of the functions that calls are given.
_INTERNAL = re.compile(r"(?!_double|_total|environment)([\w<>]+\.)*_(?!_call__|_init__)\w+\(\)")
_TYPES = (TypeError, ValueError, IndexError, OverflowError, RuntimeError, MemoryError, OSError)


def complaint(error: BaseException) -> str | None:
    """Why an exception is none that a user should see; None if it is."""
    text = str(error)
    shown = f"{type(error).__name__}: {text}"
    place = traceback.extract_tb(error.__traceback__)[-1].filename
    if place in (__file__, common.__code__.co_filename):
        return None  # from a function of the user's
    if not isinstance(error, (*_TYPES, BufferError)) or "bug in ingot" in text:
        return shown
    if isinstance(error, TypeError) and _PYTHONS.search(text):
        return f"{shown}, from inside" if _INTERNAL.match(text) else None
    if isinstance(error, OSError) and error.errno is not None:
        return None
    return None if _OWN.fullmatch(text) else shown


def evaluate(result: Any) -> None:
    """Evaluates the arrays in a result."""
    if isinstance(result, mx.array):
        mx.eval(result)
    elif isinstance(result, (list, tuple)) and len(result) < 100:
        for item in result:
            if item is not result:
                evaluate(item)
