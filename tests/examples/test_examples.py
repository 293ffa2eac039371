"""The examples train: to their goals where that takes seconds, and alike compiled and not.

They run in this process, so that scikit-learn and matplotlib are loaded once for all of them.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from io import StringIO
from pathlib import Path
from types import ModuleType

import mlx.core as mlx
import numpy as np
import pytest
from rich.console import Console

import ingot.core as mx

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = ("digits_mlp", "digits_conv", "digits_vae", "character_transformer")


@pytest.fixture
def load() -> Callable[[str], ModuleType]:
    return partial(module_from, EXAMPLES)


def module_from(folder: Path, name: str) -> ModuleType:
    """A module of the examples, which import each other as programs in one folder do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        for known in ("show", "digits", *NAMES):
            patch.delitem(sys.modules, known, raising=False)
        return importlib.import_module(name)


def last_lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()[-3:]


def is_picture(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 5_000


def test_perceptron_reaches_its_goal(load, tmp_path: Path, capsys) -> None:
    picture = tmp_path / "mlp.png"
    assert load("digits_mlp").main(["--picture", str(picture)]) == 0
    where, accuracy, goal = last_lines(capsys)
    assert where == f"picture: {picture}"
    assert float(accuracy.split()[2].rstrip("%")) > 97
    assert goal == "goal reached: over 97%"
    assert is_picture(picture)


def test_convolutional_network_learns(load, tmp_path: Path, capsys) -> None:
    picture = tmp_path / "conv.png"
    assert load("digits_conv").main(["--epochs", "5", "--picture", str(picture)]) == 0
    _, accuracy, _ = last_lines(capsys)
    assert float(accuracy.split()[2].rstrip("%")) > 93
    assert is_picture(picture)


def test_autoencoder_learns_to_draw(load, tmp_path: Path, capsys) -> None:
    picture = tmp_path / "vae.png"
    assert load("digits_vae").main(["--epochs", "25", "--picture", str(picture)]) == 0
    _, loss, _ = last_lines(capsys)
    assert float(loss.split()[6]) > 8  # nats better than the mean image
    assert is_picture(picture)


def test_transformer_learns_the_frequencies_and_writes(load, tmp_path: Path, capsys) -> None:
    picture = tmp_path / "transformer.png"
    assert load("character_transformer").main(["--quick", "--picture", str(picture)]) == 0
    output = capsys.readouterr().out
    written = [line[4:] for line in output.splitlines() if line.startswith("  | ")]
    assert 80 < sum(map(len, written)) <= 100
    summary = output.splitlines()[-2].split()
    loss, entropy = float(summary[2]), float(summary[10].rstrip(","))
    assert loss < entropy  # more than the frequencies of characters
    assert is_picture(picture)


def test_entropies_are_those_of_the_text(load) -> None:
    example = load("character_transformer")
    counts = np.unique(list(example.TEXT), return_counts=True)[1]
    frequencies = counts / counts.sum()
    singles, pairs = example.entropies()
    assert singles == pytest.approx(-(frequencies * np.log(frequencies)).sum(), abs=1e-3)
    assert 2 < pairs < singles
    assert len(example.TEXT.split("\n\n")) == 154


@pytest.mark.parametrize(("name", "rounds"), list(zip(NAMES, (1, 1, 2, 3), strict=True)))
def test_losses_are_the_same_uncompiled(load, name: str, rounds: int) -> None:
    example = load(name)
    _, compiled = example.train(rounds)
    mx.disable_compile()
    _, uncompiled = example.train(rounds)
    assert compiled == pytest.approx(uncompiled, rel=2e-4)


@pytest.mark.parametrize(("name", "rounds"), list(zip(NAMES, (2, 1, 2, 2), strict=True)))
def test_losses_are_those_of_mlx(load, tmp_path: Path, name: str, rounds: int) -> None:
    # The same programs, with the imports of MLX and nothing else changed.
    for script in EXAMPLES.glob("*.py"):
        program = script.read_text().replace("import ingot.", "import mlx.")
        (tmp_path / script.name).write_text(program)
    shutil.copy(EXAMPLES / "sonnets.txt", tmp_path)
    mlx.disable_compile()  # it would start a C++ compiler
    try:
        _, expected = module_from(tmp_path, name).train(rounds)
    finally:
        mlx.enable_compile()
    _, found = load(name).train(rounds)
    assert found == pytest.approx(expected, rel=1e-3)


def test_training_depends_on_the_seed_only(load) -> None:
    example = load("digits_mlp")
    first, again, other = (example.train(1, seed)[1] for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_a_missed_goal_is_an_exit_code(load, capsys) -> None:
    show = load("show")
    assert show.verdict("over 97%", False, True) == 1
    assert capsys.readouterr().out == "MISSED: over 97%\n"
    assert show.verdict("over 97%", False, False) == 0
    assert show.verdict("over 97%", True, True) == 0


def test_options(load, capsys) -> None:
    show = load("show")
    options = show.options(["--steps", "7", "--seed", "3"], "a.py", "", steps=(100, 10))
    assert (options.rounds, options.full, options.seed) == (7, False, 3)
    assert options.picture == Path("a.png")
    assert show.options(["--quick"], "a.py", "", steps=(100, 10)).rounds == 10
    assert show.options([], "a.py", "", steps=(100, 10)).full
    with pytest.raises(SystemExit):
        show.options(["--steps", "0"], "a.py", "", steps=(100, 10))
    assert "--steps must be at least 1, not 0." in capsys.readouterr().err


def test_progress_is_a_bar_in_a_terminal_and_lines_elsewhere(load, monkeypatch, capsys) -> None:
    show = load("show")
    losses = [1.5]
    assert list(show.rounds("step", 30, losses)) == list(range(30))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 11
    assert lines[-2].split() == "step 30 of 30 loss 1.500".split()
    terminal = StringIO()
    monkeypatch.setattr(show, "console", Console(file=terminal, force_terminal=True, width=100))
    assert list(show.rounds("step", 30, losses)) == list(range(30))
    assert "━" in terminal.getvalue()
    assert "loss 1.500" in terminal.getvalue()


def test_runs_as_a_program_from_anywhere(tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    command = [sys.executable, "-W", "error", str(EXAMPLES / "digits_mlp.py")]
    done = subprocess.run(
        [*command, "--quick", "--no-compile", "--picture", str(picture)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "not reached in this short training: over 97%" in done.stdout
    assert is_picture(picture)


@pytest.mark.parametrize("package", ["sklearn", "matplotlib"])
def test_what_a_missing_package_says(package: str) -> None:
    program = f"import sys; sys.modules[{package!r}] = None; import digits_mlp"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=EXAMPLES, text=True, capture_output=True
    )
    assert done.returncode == 1
    assert f"{package}" in done.stderr.partition(". The examples")[0]
    assert done.stderr.endswith("The examples need: pip install 'ingot-ml[examples]'\n")
