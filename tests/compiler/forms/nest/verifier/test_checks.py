"""Every check of the verifier is needed: each is left out once, and then a broken nest passes or is
rejected for another reason.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.forms.nest import test_verify
from tests.compiler.forms.nest.verifier import test_references, test_structure

from ingot.compiler.forms.nest import scope, verify

NESTS: tuple[Any, ...] = (test_verify, test_structure, test_references)

# What raises, and what else is called to check something that a statement refers to.
CHECKS = ("require", "use_value", "use_affine", "use_extent")


def _check_sites() -> dict[str, tuple[str, str, range]]:
    """The calls of checks in the verifier by a name: which check, its file and its lines."""
    found = {}
    for file in (verify.__file__, scope.__file__):
        for function in ast.walk(ast.parse(Path(file).read_text())):
            if not isinstance(function, ast.FunctionDef) or function.name == "require":
                continue
            for node in ast.walk(function):
                name = "" if not isinstance(node, ast.Call) else _called(node.func)
                if name in CHECKS:
                    assert isinstance(node, ast.Call)
                    text = ast.unparse(node.args[1])
                    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                    found[f"{function.name}: {name} {text}"] = (name, file, lines)
    return found


def _called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


SITES = _check_sites()


def _is_rejected(module: Any, name: str) -> bool:
    problem, build = module.CASES[name]
    example = module.Example()
    build(example)
    try:
        verify.verify(example.nest)
    except scope.NestError as error:
        return re.search(problem, str(error)) is not None
    except Exception:
        return False  # the test of this nest would fail
    return False


def test_checks_are_found() -> None:
    assert len(SITES) > 60


@pytest.mark.parametrize("site", SITES)
def test_a_broken_nest_needs_the_check(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, file, lines = SITES[site]
    owners: tuple[Any, ...] = (verify, scope) if name == "require" else (scope.Scope,)
    original = getattr(owners[0], name)

    def unless_left_out(*arguments: Any) -> None:
        caller = sys._getframe(1)
        if caller.f_code.co_filename != file or caller.f_lineno not in lines:
            original(*arguments)

    for owner in owners:
        monkeypatch.setattr(owner, name, unless_left_out)
    cases = [(m, name) for m in NESTS for name in m.CASES]
    assert not all(_is_rejected(*case) for case in cases), "no nest is broken in this respect only"
