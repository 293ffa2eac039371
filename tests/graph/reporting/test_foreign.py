"""Names of modules of other libraries: the error says what the name is here."""

import importlib
import re
import subprocess
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ingot
import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optim
from ingot.graph.reporting.foreign import CORE, HINTS, NN, RANDOM

MODULES = [(importlib.import_module(name), hints) for name, hints in HINTS.items()]


@pytest.mark.parametrize(("module", "hints"), MODULES)
def test_every_hint(module: ModuleType, hints: dict[str, str]) -> None:
    for name, hint in hints.items():
        assert not hasattr(module, name)
        with pytest.raises(AttributeError) as caught:
            getattr(module, name)
        expected = f"module {module.__name__!r} has no attribute {name!r}: {hint}."
        assert str(caught.value) == expected


def test_hinted_code_runs() -> None:
    """What the hints propose is valid."""
    x = mx.array([[1.0, 2.0], [4.0, 3.0]])
    names: dict[str, Any] = {"mx": mx, "nn": nn, "optim": optim, "np": np, "ingot": ingot}
    names |= {"x": x, "y": mx.ones((2, 2)), "p": mx.ones((2, 2)) / 2, "classes": mx.array([0, 1])}
    names |= {"n": 2, "axis": 0, "axes": (1, 0), "low": 0.0, "high": 1.0, "shape": (2, 3), "i": 0}
    names |= {"arrays": [x, x], "indices": mx.array([[0, 1]]), "mask": x > 2, "value": 0.0}
    model = nn.Linear(2, 2)
    names |= {"f": mx.sum, "key": mx.random.key(1), "model": model, "loss": mx.sum}
    sentences = [hint for hints in HINTS.values() for hint in hints.values()]
    proposals = {code for hint in sentences for code in re.findall("`(.*?)`", hint)}
    # Statements, keywords, and methods of what only a program has.
    left_out = r"self\.|optimizer\.|layer\.|^\w+(=|$)"
    proposals -= {code for code in proposals if re.search(left_out, code)}
    for code in proposals:
        mx.eval(eval(code, dict(names)))
    assert len(proposals) > 90


def test_the_package_says_where_functions_are() -> None:
    for name, hint in (
        ("array", "it is in `ingot.core`: `import ingot.core as mx`, then `mx.array`"),
        ("jit", CORE["jit"]),
    ):
        assert not hasattr(ingot, name)
        with pytest.raises(AttributeError, match=re.escape(f"attribute {name!r}: {hint}.")):
            getattr(ingot, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'$"):
        ingot.nonsense  # noqa: B018


def test_python_proposes_the_nearest_of_other_names() -> None:
    # By the interpreter itself: the module traceback does it only from Python 3.12 on.
    program = "import ingot.core as mx; mx.softmaxx"
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True)
    assert done.stderr.endswith("has no attribute 'softmaxx'. Did you mean: 'softmax'?\n")


def test_under_the_names_of_mlx() -> None:
    program = """
import ingot, ingot.core, ingot.nn
ingot.install_as_mlx()
import mlx.core as mx, mlx.nn as nn
for module, name in ((mx, "cat"), (mx.random, "randn"), (nn, "MSELoss"), (mx, "nonsense")):
    try:
        getattr(module, name)
    except AttributeError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, text=True, capture_output=True
    )
    assert done.stdout.splitlines() == [
        f"module 'mlx.core' has no attribute 'cat': {CORE['cat']}.",
        f"module 'mlx.core.random' has no attribute 'randn': {RANDOM['randn']}.",
        f"module 'mlx.nn' has no attribute 'MSELoss': {NN['MSELoss']}.",
        f"module 'mlx.core' has no attribute 'nonsense': ingot {ingot.__version__}, which stands in"
        f" for mlx and follows MLX {ingot.MLX_VERSION}, does not have it",
    ]
