"""Every module of the compiler has a test file at the same path."""

from __future__ import annotations

from pathlib import Path

import pytest

import ingot.compiler

SOURCE = Path(ingot.compiler.__file__).parent
TESTS = Path(__file__).parent
# The product engine, whose modules only compute something together: tests are of whole products.
TOGETHER = Path("lower/products")
FOUND = (path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
MODULES = sorted(path for path in FOUND if TOGETHER not in path.parents)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_there_is_a_test_file(module: Path) -> None:
    expected = TESTS / module.parent / f"test_{module.name}"
    assert expected.exists(), f"write tests of compiler/{module} in {expected.name}"


def test_there_are_modules() -> None:
    assert len(MODULES) > 90
