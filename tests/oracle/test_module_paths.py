"""What programs import from the modules of the mlx package resolves under `ingot run`."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx
import mlx.nn.layers.upsample as mlx_upsample
import mlx.optimizers
import numpy as np
import pytest

import ingot.core as mx
import ingot.nn.layers.upsample as upsample
import ingot.optimizers

# Modules that ingot does not have, with the reason.
LEFT_OUT = {
    "mlx.extension": "builds extensions of MLX in C++",
    "mlx.__main__": "a command, not a module to import",
    "mlx._reprlib_fix": "it can be imported, for its effect; it has nothing to use",
}
CHECK = """
import importlib, json, sys
missing = []
import mlx._reprlib_fix
for name, attributes in json.load(sys.stdin).items():
    module = importlib.import_module(name)
    missing += [f"{name}.{one}" for one in attributes if not hasattr(module, one)]
print(missing)
"""


def _own(module: Any) -> list[str]:
    """The public functions and classes that a module defines."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    ]


def test_modules_and_their_names(tmp_path: Path) -> None:
    names = [one.name for one in pkgutil.walk_packages(mlx.__path__, "mlx.")]
    assert len(names) > 20
    modules = {name: importlib.import_module(name) for name in names if name not in LEFT_OUT}
    script = tmp_path / "check.py"
    script.write_text(CHECK)
    found = subprocess.run(
        [sys.executable, "-m", "ingot", "run", str(script)],
        input=json.dumps({name: _own(module) for name, module in modules.items()}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.stdout.strip(), found.stderr) == ("[]", "")


@pytest.mark.parametrize("name", ["upsample_nearest", "upsample_linear", "upsample_cubic"])
@pytest.mark.parametrize("scale", [(2, 3), (1.5, 0.5)])
def test_upsampling_functions(name: str, scale: tuple[float, ...]) -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 4, 3)).astype(np.float32)
    found = getattr(upsample, name)(mx.array(x), scale)
    expected = getattr(mlx_upsample, name)(mlx.core.array(x), scale)
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-5, atol=1e-5)


def test_helpers_of_adafactor() -> None:
    rows, columns = np.array([1.0, 2, 3], np.float32), np.array([0.5, 4], np.float32)
    results = []
    for package, core in ((ingot.optimizers, mx), (mlx.optimizers, mlx.core)):
        optimizer: Any = package.Adafactor(warmup_init=True)
        size = optimizer._compute_rms(core.array(rows))
        results.append(
            [
                size,
                optimizer._compute_learning_rate(core.array(3), size),
                optimizer._approximate_exp_moving_avg(core.array(rows), core.array(columns)),
            ]
        )
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-6)


KINDS: tuple[str, ...] = (
    *("bool", "signed integer", "unsigned integer", "integral"),
    *("real floating", "complex floating", "numeric"),
)
INFORMATION: dict[str, Callable[[Any, Any], Any]] = {
    "capabilities": lambda mx, info: info.capabilities(),
    "devices": lambda mx, info: (str(info.default_device()), [str(one) for one in info.devices()]),
    "default dtypes": lambda mx, info: _names(info.default_dtypes(device=mx.Device(mx.cpu))),
    "all dtypes": lambda mx, info: _names(info.dtypes()),
    "one kind": lambda mx, info: [_names(info.dtypes(kind=kind)) for kind in KINDS],
    "two kinds": lambda mx, info: _names(info.dtypes(kind=("bool", "real floating"))),
    "no kind": lambda mx, info: info.dtypes(kind="words"),
    "kinds in a list": lambda mx, info: info.dtypes(kind=["bool"]),
    "no device": lambda mx, info: info.default_dtypes(device="gpu"),
}


def _names(dtypes: dict[str, Any]) -> dict[str, str]:
    return {name: str(dtype).partition(".")[2] for name, dtype in dtypes.items()}


@pytest.mark.parametrize("name", INFORMATION)
def test_information_of_the_namespace(name: str) -> None:
    found: list[Any] = []
    for core in (mx, mlx.core):
        assert core.array(1).__array_namespace__() is core
        try:
            found.append(INFORMATION[name](core, core.__array_namespace_info__()))
        except (TypeError, ValueError) as error:
            found.append(type(error))
    assert found[0] == found[1]
