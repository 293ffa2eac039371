"""Fixtures of the compiler's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingot.compiler.run import stored


@pytest.fixture
def program_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A disk cache of the test's own, which stores programs although tests verify all forms."""
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(stored, "is_verifying", lambda: False)
    return tmp_path
