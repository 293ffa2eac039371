"""Reads the signatures that MLX prints in the first lines of its docstrings."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any


def parse(name: str, doc: str) -> list[inspect.Signature]:
    """The signatures in a docstring; those that are not Python are left out."""
    pattern = re.compile(rf"^\s*(?:def )?{re.escape(name)}(\(.*\))\s*->", re.MULTILINE)
    found = [_signature(match.group(1)) for match in pattern.finditer(doc)]
    return [signature for signature in found if signature is not None]


def _signature(text: str) -> inspect.Signature | None:
    # Defaults such as float32 or <object> are not needed: only whether there is one.
    text = re.sub(r"=\s*<[^>]*>", "= None", text)
    try:
        arguments = ast.parse(f"def f{text}: ...").body[0].args  # type: ignore[attr-defined]
    except SyntaxError:
        return None
    return inspect.Signature(list(_parameters(arguments)))


def _parameters(arguments: ast.arguments) -> Any:
    kinds = inspect.Parameter
    positional = [
        *((arg, kinds.POSITIONAL_ONLY) for arg in arguments.posonlyargs),
        *((arg, kinds.POSITIONAL_OR_KEYWORD) for arg in arguments.args),
    ]
    required = len(positional) - len(arguments.defaults)
    for i, (arg, kind) in enumerate(positional):
        yield kinds(arg.arg, kind, default=kinds.empty if i < required else None)
    if arguments.vararg:
        yield kinds(arguments.vararg.arg, kinds.VAR_POSITIONAL)
    for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        optional = kinds.empty if default is None else None
        yield kinds(arg.arg, kinds.KEYWORD_ONLY, default=optional)
    if arguments.kwarg:
        yield kinds(arguments.kwarg.arg, kinds.VAR_KEYWORD)


def calls(signature: inspect.Signature) -> list[tuple[tuple[str, ...], dict[str, str]]]:
    """Ways to pass the arguments: all by position, all that can be by keyword, the required only.

    Arguments are stood for by their names.
    """
    kinds = inspect.Parameter
    fixed = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
    ]
    by_position = [p.name for p in fixed if p.kind != kinds.KEYWORD_ONLY]
    only_position = [p.name for p in fixed if p.kind == kinds.POSITIONAL_ONLY]
    only_keyword = {p.name: p.name for p in fixed if p.kind == kinds.KEYWORD_ONLY}
    by_keyword = {p.name: p.name for p in fixed if p.kind != kinds.POSITIONAL_ONLY}
    required = [p for p in fixed if p.default is kinds.empty]
    return [
        (tuple(by_position), only_keyword),
        (tuple(only_position), by_keyword),
        (
            tuple(p.name for p in required if p.kind != kinds.KEYWORD_ONLY),
            {p.name: p.name for p in required if p.kind == kinds.KEYWORD_ONLY},
        ),
    ]
