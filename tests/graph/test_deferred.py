"""Modules that are imported on first use."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ingot.graph.deferred import Deferred

CODE = """
count = 0

def next_number():
    global count
    count += 1
    return count
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deferred:
    (tmp_path / "needed_late.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "needed_late", raising=False)
    return Deferred("needed_late")


def test_a_module_is_imported_on_first_use(module: Deferred) -> None:
    assert "needed_late" not in sys.modules
    assert module.next_number() == 1
    assert "needed_late" in sys.modules


def test_attributes_are_those_of_the_module_at_each_access(
    module: Deferred, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert module.next_number() == 1
    assert module.count == 1
    monkeypatch.setattr(sys.modules["needed_late"], "count", 7)
    assert module.count == 7
    assert module.next_number() == 8


def test_errors_are_those_of_imports_and_of_modules(module: Deferred) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        _ = Deferred("no_such_module").anything
    with pytest.raises(AttributeError, match="module 'needed_late' has no attribute 'other'"):
        _ = module.other
