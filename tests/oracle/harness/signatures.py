"""Reads the signatures that MLX prints in the first lines of its docstrings.

The docstrings claim more than MLX takes (many documented names are positional only), hence
`ways` gives calls to be tried with MLX first.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from tests.oracle.harness.inputs import DTYPES, Dtype

MISSING = object()


@dataclass(frozen=True)
class Parameter:
    """A parameter: `kind` is "position", "both" or "keyword"; `default` may be MISSING."""

    name: str
    kind: str
    default: Any


def parse(name: str, doc: str) -> list[list[Parameter]]:
    """The signatures in a docstring; those that are not Python or take *args are left out."""
    pattern = re.compile(rf"^\s*{re.escape(name)}(\(.*\))\s*->", re.MULTILINE)
    found = [_parameters(match.group(1)) for match in pattern.finditer(doc)]
    return [parameters for parameters in found if parameters is not None]


def _parameters(text: str) -> list[Parameter] | None:
    text = re.sub(r"=\s*(?:mlx\.core\.)?(\w+|<[^>]*>)(?=\s*[,)])", r"= \1", text)
    try:
        arguments = ast.parse(f"def f{text}: ...").body[0].args  # type: ignore[attr-defined]
    except SyntaxError:
        return None
    if arguments.vararg or arguments.kwarg:
        return None
    positional = [
        *((arg.arg, "position") for arg in arguments.posonlyargs),
        *((arg.arg, "both") for arg in arguments.args),
    ]
    padding = [None] * (len(positional) - len(arguments.defaults))
    defaults = [*padding, *arguments.defaults, *arguments.kw_defaults]
    named = [*positional, *((arg.arg, "keyword") for arg in arguments.kwonlyargs)]
    return [
        Parameter(name, kind, _default(node))
        for (name, kind), node in zip(named, defaults, strict=True)
        if name != "self"
    ]


def _default(node: ast.expr | None) -> Any:
    """The value of a default; a dtype by name."""
    if node is None:
        return MISSING
    if isinstance(node, ast.Name) and node.id in DTYPES:
        return Dtype(node.id)
    return ast.literal_eval(node)


def ways(
    parameters: list[Parameter], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """A call rewritten: each parameter by keyword in turn, all by keyword, all by position."""
    names = [parameter.name for parameter in parameters]
    values = {p.name: p.default for p in parameters if p.default is not MISSING}
    values.update(zip(names, args, strict=False))
    values.update(kwargs)
    calls = []
    for start in range(len(names) + 1):
        # From `start` on by keyword. Nothing may be left out before it.
        if all(name in values for name in names[:start]):
            first = tuple(values[name] for name in names[:start])
            calls.append((first, {name: values[name] for name in names[start:] if name in values}))
    return calls
