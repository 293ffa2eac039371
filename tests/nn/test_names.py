"""The names and signatures of the real `mlx.nn` and `mlx.utils`."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import mlx.nn
import mlx.nn.utils
import mlx.utils
import pytest

import ingot.nn
import ingot.nn.utils
import ingot.utils

# `apply` takes more, `unfreeze` of BatchNorm says what it takes.
OWN_FORM = {"apply", "unfreeze"}
PAIRS = [
    (ingot.nn, mlx.nn),
    (ingot.nn.losses, mlx.nn.losses),
    (ingot.nn.init, mlx.nn.init),
    (ingot.nn.utils, mlx.nn.utils),
    (ingot.utils, mlx.utils),
    (ingot.nn.layers.distributed, mlx.nn.layers.distributed),
    (ingot.nn.layers.quantized, mlx.nn.layers.quantized),
]


def functions_of(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if callable(value)
        and not name.startswith(("_", "_" if module is mlx.utils else "tree_"))
        and getattr(value, "__module__", "").startswith("mlx")
    ]


NAMES = [
    pytest.param(getattr(ours, name, None), getattr(theirs, name), id=f"{theirs.__name__}.{name}")
    for ours, theirs in PAIRS
    for name in functions_of(theirs)
]


def parameters(function: Any) -> list[tuple[str, str, str]]:
    """Name, kind and default of each parameter but the first of methods, whatever it is called."""

    def default(value: Any) -> str:
        return "function" if callable(value) else str(value).replace("mlx.core.", "ingot.core.")

    return [
        (parameter.name, parameter.kind.name, default(parameter.default))
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in ("self", "_")
    ]


@pytest.mark.parametrize(("ours", "theirs"), NAMES)
def test_signature_is_the_same(ours: Any, theirs: Any) -> None:
    assert ours is not None
    assert ours.__doc__
    assert parameters(ours) == parameters(theirs)
    if not inspect.isclass(theirs):
        return
    for name, method in vars(theirs).items():
        if name in OWN_FORM or not callable(method):
            continue
        if name == "__call__" or not name.startswith("_"):
            assert parameters(getattr(ours, name)) == parameters(getattr(theirs, name)), name


def test_submodules_are_where_programs_look_for_them() -> None:
    for name in ("losses", "init", "utils", "layers", "Module"):
        assert hasattr(ingot.nn, name)
    assert ingot.nn.layers.base.Module is ingot.nn.Module
    assert ingot.nn.layers.Linear is ingot.nn.Linear
