"""The README's picture of speeds: drawn from what `ingot bench --json` writes."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

PROJECT = Path(__file__).resolve().parent.parent
TOOL = PROJECT / "tools" / "speed_picture.py"
IMAGE = PROJECT / "docs" / "images" / "speed.svg"


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("speed_picture", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["speed_picture"] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


def _numbers(**contenders: float) -> dict[str, Any]:
    times = {name.replace("_", " "): {"best": time} for name, time in contenders.items()}
    return {
        "quick": True,
        "machine": {"usable_cpus": 2, "processor": "x", "versions": {"mlx": "1"}},
        "benchmarks": [{"name": "gelu_large", "contenders": times}],
    }


def test_a_dot_for_each_library_at_its_best(tool: Any) -> None:
    numbers = _numbers(ingot=2.0, mlx=200.0, torch_compile=6.0, torch=8.0, numpy_memcpy=1.0)
    (row,) = tool.rows_of(numbers)
    assert row.factors == {"mlx": 100.0, "torch": 3.0}
    assert tool.x_of(1) < tool.x_of(3) < tool.x_of(100) < tool.x_of(1e9) <= tool.WIDTH


def test_what_was_not_measured_is_left_out(tool: Any) -> None:
    assert tool.rows_of(_numbers(mlx=1.0)) == []
    assert tool.rows_of(_numbers(ingot=1.0)) == []


def test_the_program_writes_a_picture(tmp_path: Path) -> None:
    numbers, picture = tmp_path / "numbers.json", tmp_path / "picture.svg"
    numbers.write_text(json.dumps(_numbers(ingot=1.0, mlx=3.0, jax_jit=2.0)))
    subprocess.run([sys.executable, str(TOOL), str(numbers), str(picture)], check=True)
    for file in (picture, IMAGE):
        titles = [node.text for node in ElementTree.parse(file).iter() if "title" in node.tag]
        assert any(title and title.startswith("MLX: ") for title in titles)


def test_its_rows_are_benchmarks(tool: Any) -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "ingot.benchmarks", "--list"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert [name for name in tool.ROWS if name not in listed] == []
