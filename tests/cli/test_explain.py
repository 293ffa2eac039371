"""`ingot explain`: which call it finds, what it prints, and what it says when it finds none."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ingot
from ingot.cli.commands import main

SCRIPT = """
import sys
from functools import partial
import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def __call__(self, x):
        return mx.tanh(self.layer(x))

def loss_function(model, x, y):
    return mx.mean(mx.square(model(x) - y))

def scaled(x, *more, scale=2.0, **others):
    return mx.exp(x) * scale

class Scaler:
    @mx.compile
    def scale(self, x):
        return mx.cos(x) * 2

def never(x):
    return x + 1

def twice(x):
    return mx.exp(x) + 2

compiled_twice = mx.compile(twice)

def run():
    model = Net()
    optimizer = optim.SGD(0.1)
    state = [model.state, optimizer.state]
    gradient = nn.value_and_grad(model, loss_function)

    @partial(mx.compile, inputs=state, outputs=state)
    def step(x, y):
        loss, gradients = gradient(model, x, y)
        optimizer.update(model, gradients)
        return loss

    x = mx.ones((16, 8))
    scaled(x, 1, scale=3.0, a=2)
    for _ in range(2):
        print("loss", step(x, mx.zeros((16, 4))).item())
    compiled_twice(x)
    Scaler().scale(x)
    print("arguments", sys.argv[1:])

if __name__ == "__main__":
    run()
"""


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "program.py"
    path.write_text(SCRIPT)
    before = sys.argv, list(sys.path), sys.modules["__main__"]
    real = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_mlx(name)}
    # What the command installs ends with this, and leaves no traces for other tests.
    with ingot.install_as_mlx():
        yield path
    sys.argv, sys.path[:], sys.modules["__main__"] = before
    sys.modules.update(real)
    sys.modules.pop("program", None)


def _is_mlx(name: str) -> bool:
    return name.partition(".")[0] == "mlx"


def explain(capsys: Any, *arguments: Any) -> tuple[int, str, str]:
    code = main(["explain", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_compiled_function_inside_another(script: Path, capsys: Any) -> None:
    code, out, err = explain(capsys, f"{script}::step", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["name"] == "run.<locals>.step"
    assert report["captured_state"]
    assert report["native"]["blas_calls"] == 2
    assert report["cache"]["misses"] == 0
    assert "loss" not in err  # the script stops at the first call


def test_a_later_call_and_the_whole_text(script: Path, capsys: Any) -> None:
    code, out, err = explain(capsys, f"{script}::run.step", "--call", 2)
    assert code == 0
    assert out.startswith("run.<locals>.step: ")
    assert "1 miss" in out
    assert "program.py:" in out
    assert err.count("loss") == 1


def test_functions_that_are_not_compiled(script: Path, capsys: Any) -> None:
    code, out, _ = explain(capsys, f"{script}::scaled", "--json")
    assert code == 0
    tape = json.loads(out)["tapes"]["traced"]
    assert tape[0] == "%0 = input argument `x` : float32[16, 8]"
    assert any("constant 3.0" in line for line in tape)


def test_methods_and_functions_inside_of_transforms(script: Path, capsys: Any) -> None:
    code, out, _ = explain(capsys, f"{script}::Net.__call__", "--stage", "program")
    assert code == 0
    assert "BLAS Matmul" in out
    assert "return mx.tanh(self.layer(x))" in out


def test_a_function_by_the_name_it_was_given(script: Path, capsys: Any) -> None:
    code, out, _ = explain(capsys, f"{script}::compiled_twice", "--stage", "loops")
    assert code == 0
    assert out.splitlines()[0] == "; kernel 0: Exp Add"
    assert "parallel i in 0..128 vector" in out


def test_a_compiled_method(script: Path, capsys: Any) -> None:
    code, out, _ = explain(capsys, f"{script}::Scaler.scale", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["name"] == "Scaler.scale"
    assert [work["name"] for work in report["program"]] == ["Cos Multiply"]


def test_given_arguments(script: Path, capsys: Any) -> None:
    code, out, err = explain(
        capsys, f"{script}::never", "--args", "mx.zeros((2, 3))", "--stage", "trace"
    )
    assert code == 0
    assert "float32[2, 3]" in out
    assert "loss" not in err  # the script is imported, not run
    code, out, _ = explain(
        capsys, f"{script}::compiled_twice", "--args", "mx.zeros(5)", "--stage", "llvm"
    )
    assert code == 0
    assert "define void @KERNEL" in out


@pytest.mark.parametrize("options", [("--stage", "program"), ()])
def test_arguments_of_the_script(script: Path, capsys: Any, options: tuple[str, ...]) -> None:
    # The first `--` ends explain's own options, wherever those are; a second is the script's.
    words = ["--stage", "x", "--", "y"]
    script.write_text("import sys; print('arguments', sys.argv[1:])\n" + script.read_text())
    code, _, err = explain(capsys, f"{script}::step", *options, "--", *words)
    assert code == 0
    assert f"arguments {words}" in err


def test_a_page(script: Path, tmp_path: Path, capsys: Any) -> None:
    page = tmp_path / "page.html"
    code, out, err = explain(capsys, f"{script}::step", "--html", page)
    assert code == 0
    assert out == ""
    assert err == f"wrote {page}\n"
    assert page.read_text().startswith("<!doctype html>")
    code, _, err = explain(capsys, f"{script}::step", "--html", tmp_path / "no" / "page.html")
    assert code == 1
    assert "cannot write the page" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("::never",), "never calls never. Give arguments for it: --args"),
        (("::stepp",), "has no function stepp. Did you mean run.step?"),
        (("::zzz",), "has no function zzz. It has Net.__init__, Net.__call__, loss_function"),
        ((), ". It defines loss_function, "),
        (("::step", "--call", "3"), "calls step only 2 times."),
        (("::step", "--call", "0"), "calls are counted from 1, got --call 0."),
        (("::never", "--args", "nonsense"), "--args 'nonsense': NameError: name 'nonsense'"),
        (("::never", "--args", "1 +"), "--args '1 +': SyntaxError"),
    ],
)
def test_what_goes_wrong(
    script: Path, capsys: Any, arguments: tuple[str, ...], message: str
) -> None:
    target = str(script) + (arguments[0] if arguments else "")
    code, out, err = explain(capsys, target, *arguments[1:])
    assert code == 2
    assert out == ""
    assert message in err.splitlines()[-1]


def test_scripts_that_fail(tmp_path: Path, script: Path, capsys: Any) -> None:
    script.write_text("def f(x):\n    return x\nraise ValueError('broken')\n")
    code, _, err = explain(capsys, f"{script}::f")
    assert code == 1
    assert "ValueError: broken" in err
    script.write_text("def f(x):\n    return x\nraise SystemExit(3)\n")
    code, _, err = explain(capsys, f"{script}::f")
    assert code == 1
    assert "ended with exit code 3 before it called f." in err
    script.write_text("def f(x:\n")
    code, _, err = explain(capsys, f"{script}::f")
    assert code == 1
    assert "is not a Python program" in err
    code, _, err = explain(capsys, f"{tmp_path}/none.py::f")
    assert code == 2
    assert "there is no file" in err
    code, _, err = explain(capsys, f"{script}:f")
    assert code == 2
    assert f"write two colons before the function: {script}::f." in err
    script.write_text(
        "import mlx.core as mx\ndef f(x):\n    return x.item()\nf(mx.ones(1).sum())\n"
    )
    code, _, err = explain(capsys, f"{script}::f")
    assert code == 1
    assert "compile only traces the function" in err
    assert err.splitlines()[-1].endswith("could not be explained.")


def test_only_the_function_is_required(capsys: Any) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["explain"])
    assert "are required: SCRIPT::FUNCTION\n" in capsys.readouterr().err
