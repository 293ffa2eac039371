"""Exporters, imported functions and callbacks behave as MLX's do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest

import ingot.core as mx
import ingot.nn as nn


def outcome(call: Callable[[], Any]) -> Any:
    """The arrays that a call returns as lists, or the type of what it raises."""
    try:
        found = call()
    except Exception as error:
        return [kind for kind in (RuntimeError, TypeError, ValueError) if isinstance(error, kind)]
    return None if found is None else [np.array(x).tolist() for x in found]


def same(expected: Any, found: Any) -> None:
    if isinstance(expected, list) and expected and isinstance(expected[0], type):
        assert expected[0] in found, (expected, found)  # ingot's errors may be of several types
    else:
        assert expected == found


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "positional and keyword": lambda mx, f, x: f(x, y=x),
    "tuple and dict": lambda mx, f, x: f((x,), {"y": x}),
    "list and dict": lambda mx, f, x: f([x], {"y": x}),
    "tuple and keyword": lambda mx, f, x: f((x,), y=x),
    "another shape": lambda mx, f, x: f(mx.ones((3, 3)), y=x),
    "another dtype": lambda mx, f, x: f(x.astype(mx.int32), y=x),
    "no keyword": lambda mx, f, x: f(x, x),
    "a number": lambda mx, f, x: f(1.0, y=x),
    "a keyword more": lambda mx, f, x: f(x, y=x, z=x),
}


@pytest.mark.parametrize("name", CALLS)
def test_call(name: str, tmp_path: Path) -> None:
    found = []
    for module in (mlx, mx):
        file = str(tmp_path / "f.mlxfn")
        x = module.ones((2, 3))
        module.export_function(file, lambda x, y: x + y, (x,), {"y": x})
        function = module.import_function(file)
        found.append(outcome(lambda m=module, f=function, x=x: CALLS[name](m, f, x)))
    same(*found)


EXPORTS: dict[str, Callable[[Any, str, Any], Any]] = {
    "a number": lambda mx, file, x: mx.export_function(file, lambda x: x, 1.0),
    "nested": lambda mx, file, x: mx.export_function(file, lambda x: x[0], [[x]]),
    "a list": lambda mx, file, x: mx.export_function(file, lambda x: x, [x]),
    "no function": lambda mx, file, x: mx.export_function(file, 3, x),
    "no folder": lambda mx, file, x: mx.export_function("/no/folder.mlxfn", lambda x: x, x),
    "no file": lambda mx, file, x: mx.import_function("/no/file.mlxfn"),
    "a number as file": lambda mx, file, x: mx.import_function(3),
    "an exporter of nothing": lambda mx, file, x: mx.exporter(file, 3),
    "dict of results": lambda mx, file, x: mx.export_function(file, lambda x: {"a": x}, x),
    "a number as result": lambda mx, file, x: mx.export_function(file, lambda x: 1.0, x),
    "None": lambda mx, file, x: mx.export_function(file, lambda x: None, x),
    "nested results": lambda mx, file, x: mx.export_function(file, lambda x: (x, [x]), x),
    "no results": lambda mx, file, x: mx.export_function(file, lambda x: (), x),
    "metadata of a callback": lambda mx, file, x: mx.export_function(
        lambda part: None, lambda x: x, x, metadata="a"
    ),
    "metadata that is no text": lambda mx, file, x: mx.export_function(
        file, lambda x: x, x, metadata=3
    ),
    "evaluation": lambda mx, file, x: mx.export_function(file, lambda x: x * x.sum().item(), x),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_export(name: str, tmp_path: Path) -> None:
    file = str(tmp_path / "f.mlxfn")
    same(*(outcome(lambda m=m: EXPORTS[name](m, file, m.ones((2, 3)))) for m in (mlx, mx)))


@pytest.mark.parametrize("shapeless", [False, True])
def test_several_traces(shapeless: bool, tmp_path: Path) -> None:
    file = str(tmp_path / "f.mlxfn")
    found = [_outcomes(module, file, shapeless) for module in (mlx, mx)]
    for expected, got in zip(*found, strict=True):
        same(expected, got)


def _outcomes(module: Any, file: str, shapeless: bool) -> list[Any]:
    def function(*args: Any) -> Any:
        return sum(args)

    def ones(shapes: list[tuple[int, ...]]) -> list[Any]:
        return [module.ones(shape) for shape in shapes]

    found = []
    with module.exporter(file, function, shapeless=shapeless) as export:
        assert isinstance(export, module.FunctionExporter)
        for shapes in ([(2, 3)], [(2, 3)], [(2, 3), (2, 3)], [(5, 5)], [(4,)]):
            found.append(outcome(partial(export, *ones(shapes))))
    found.append(outcome(partial(export, *ones([(1, 1, 1)]))))
    export.close()
    imported = module.import_function(file)
    for shapes in ([(2, 3)], [(4,)], [(5, 5)], [(6,)], [(1, 1, 1)], [(2, 3), (2, 3)]):
        found.append(outcome(partial(imported, *ones(shapes))))
    return found


def test_keywords_make_a_trace_of_their_own(tmp_path: Path) -> None:
    """MLX takes f(x, y) and f(x, y=y) for the same, and refuses the second."""
    file = str(tmp_path / "f.mlxfn")
    x = mx.array([1.0, 2.0])
    with mx.exporter(file, lambda x, y: x - 2 * y) as export:
        export(x, x)
        export(x, y=x)
    function = mx.import_function(file)
    assert function(x, x)[0].tolist() == function(x, y=x)[0].tolist() == [-1, -2]


@pytest.mark.parametrize(("writer", "reader"), [(mlx, mx), (mx, mlx), (mx, mx)])
def test_traces_share_constants(writer: Any, reader: Any, tmp_path: Path) -> None:
    file = tmp_path / "f.mlxfn"
    weights = writer.array(np.arange(1000, dtype=np.float32))
    writer.eval(weights)
    with writer.exporter(str(file), lambda *xs: sum(xs) * weights, metadata="äß") as export:
        export(writer.ones(1000))
        export(writer.ones(1000), writer.ones(1000))
    assert file.stat().st_size < 2 * weights.nbytes
    function, text = reader.import_function(str(file), return_metadata=True)
    assert text == "äß"
    one = reader.ones(1000)
    assert np.array(function(one, one)[0]).tolist() == [2 * n for n in range(1000)]


def test_the_file_is_complete_after_each_trace(tmp_path: Path) -> None:
    file = str(tmp_path / "f.mlxfn")
    export = mx.exporter(file, lambda x: x + 1)
    export(mx.ones(3))
    assert mlx.import_function(file)(mlx.ones(3))[0].tolist() == [2, 2, 2]
    export.close()


def parts(module: Any, *inputs: Any, **keywords: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def function(x: Any, y: Any, *, b: Any, a: Any) -> Any:
        return module.exp(x) * y + (b - a), x

    module.export_function(found.append, function, *inputs, **keywords)
    return found


def test_callback() -> None:
    lists = []
    for module in (mlx, mx):
        x, y = module.ones((2, 3)), module.ones((2, 3))
        lists.append(parts(module, x, y, b=x + 0, a=y + 0))
    for expected, found in zip(*lists, strict=True):
        assert expected.keys() == found.keys()
        assert expected["type"] == found["type"]
        assert str(expected).replace("mlx.core", "ingot.core") == str(found)


def test_error_of_a_callback() -> None:
    with pytest.raises(ZeroDivisionError):
        mx.export_function(lambda part: 1 / 0, lambda x: x, mx.ones(3))


def test_transforms_of_an_imported_function(tmp_path: Path) -> None:
    file = str(tmp_path / "f.mlxfn")
    x = np.linspace(0.1, 0.9, 6, dtype=np.float32).reshape(2, 3)
    mlx.export_function(file, lambda x: (mlx.sin(x) * x).sum(), mlx.array(x))
    function = mx.import_function(file)
    gradient = mx.grad(lambda x: function(x)[0])(mx.array(x))
    np.testing.assert_allclose(np.array(gradient), np.cos(x) * x + np.sin(x), rtol=1e-5)
    stacked = mx.stack([mx.array(x), 2 * mx.array(x)])
    batched = mx.vmap(lambda x: function(x)[0])(stacked)
    both = [(np.sin(x) * x).sum(), (np.sin(2 * x) * 2 * x).sum()]
    np.testing.assert_allclose(np.array(batched), both, rtol=1e-5)
    compiled = mx.compile(function)(mx.array(x))
    np.testing.assert_allclose(np.array(compiled[0]), both[0], rtol=1e-5)


def test_weights_are_stored_as_they_are(tmp_path: Path) -> None:
    """Weights that were not evaluated yet are, instead of their initialisation in each call."""
    layer = nn.Linear(3, 4)
    found: list[dict[str, Any]] = []
    mx.export_function(found.append, layer, mx.ones((2, 3)))
    names = [part["name"] for part in found if part["type"] == "primitive"]
    assert "RandomBits" not in names
    (constants,) = (part["constants"] for part in found if part["type"] == "constants")
    assert {tuple(value.shape) for _, value in constants} >= {(4, 3), (4,)}


def test_an_op_that_files_lack_is_named() -> None:
    with pytest.raises(ValueError, match=r"no operation for LU: LU\(float32\[3, 3\]\), made at"):
        mx.export_function(lambda part: None, mx.linalg.lu, mx.eye(3))


def test_tracers_of_a_transform_that_is_running() -> None:
    def outer(x: mx.array) -> mx.array:
        mx.export_function(lambda part: None, lambda y: x + y, mx.ones(3))
        return x.sum()

    with pytest.raises(ValueError, match="another transform"):
        mx.compile(outer)(mx.ones(3))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"Failed to open .*none\.mlxfn"):
        mx.import_function(str(tmp_path / "none.mlxfn"))
