"""Files cross: what MLX exported, ingot imports, and the reverse, with the same results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.export.cases import CASES, IDS, Case

import ingot.core as mx
from ingot.export.building.traces import BUILDERS
from ingot.export.format import Primitive, read, written
from ingot.export.states import STATES


def arrays(module: Any, case: Case) -> list[Any]:
    return [module.array(x) for x in case.arrays]


def agree(found: Sequence[Any], expected: Sequence[Any]) -> None:
    """The same dtypes, shapes and, up to rounding, values."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        a, b = np.array(one), np.array(other)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def several(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_from_mlx(case: Case, tmp_path: Path) -> None:
    file = str(tmp_path / "f.mlxfn")
    inputs = arrays(mlx, case)
    mlx.export_function(file, lambda *xs: case.function(mlx, *xs), *inputs)
    found = mx.import_function(file)(*arrays(mx, case))
    agree(found, mlx.import_function(file)(*inputs))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_to_mlx(case: Case, tmp_path: Path) -> None:
    file = str(tmp_path / "f.mlxfn")

    def function(*xs: Any) -> Any:
        return case.function(mx, *xs)

    mx.export_function(file, function, *arrays(mx, case))
    expected = several(case.function(mlx, *arrays(mlx, case)))
    agree(mlx.import_function(file)(*arrays(mlx, case)), expected)
    agree(mx.import_function(file)(*arrays(mx, case)), expected)


def test_the_same_bytes(tmp_path: Path) -> None:
    """A file of MLX that is read and written again is the same."""
    file = tmp_path / "f.mlxfn"

    def function(x: Any, y: Any, *, z: Any) -> Any:
        return mlx.exp(x) * 2 + y.sum(axis=0) + z, *mlx.split(x, 3, 1)

    inputs = mlx.ones((2, 3)), mlx.ones((3,))
    mlx.export_function(str(file), function, *inputs, z=mlx.array(2), metadata="some text")
    data = file.read_bytes()
    assert written(read(data, "f")) == data


def test_every_primitive_can_be_built() -> None:
    assert set(BUILDERS) == set(STATES)


def test_what_the_cases_reach(tmp_path: Path) -> None:
    """The primitives that no case of this file has, each for a reason."""
    seen = set()
    file = str(tmp_path / "f.mlxfn")
    for case in CASES:
        mlx.export_function(
            file, lambda *xs, case=case: case.function(mlx, *xs), *arrays(mlx, case)
        )
        (trace,) = read(Path(file).read_bytes(), "f").traces
        seen |= {entry.name for entry in trace.entries if isinstance(entry, Primitive)}
    assert set(STATES) - seen == {
        "BroadcastAxes",  # in functions without shapes, see test_shapeless.py
        "NumberOfElements",
    }
