"""Text written to paths and to open files."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import ingot
import ingot.core as mx
from ingot.runtime.files.access import write_text


def test_text_goes_to_paths_and_open_files(tmp_path: Path) -> None:
    path, stream = tmp_path / "text", io.StringIO()
    for file in (path, str(path), stream):
        write_text("write", file, "ä\n")
    assert path.read_text(encoding="utf-8") == stream.getvalue() == "ä\n"


@pytest.mark.parametrize("name", ["to_html", "save_trace"])
def test_profiles_refuse_other_files(name: str) -> None:
    with ingot.profile() as profile:
        mx.eval(mx.zeros(3))
    text = (
        rf"^\[Profile\.{name}\] file must be a path or an object with a method `write`, got int\.$"
    )
    with pytest.raises(ValueError, match=text):
        getattr(profile, name)(1)
