"""The examples of loops reach their goals, and compute what SciPy and closed forms say."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.stats import multivariate_normal

import ingot.core as mx

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MODULES = ("show", "character_transformer", "character_rnn", "kalman", "pendulum")


@pytest.fixture
def load() -> Callable[[str], ModuleType]:
    def module(name: str) -> ModuleType:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(EXAMPLES))
            for known in MODULES:
                patch.delitem(sys.modules, known, raising=False)
            return importlib.import_module(name)

    return module


@pytest.mark.parametrize("name", ["kalman", "pendulum"])
def test_parameters_are_found(load: Any, name: str, tmp_path: Path, capsys: Any) -> None:
    picture = tmp_path / "picture.png"
    assert load(name).main(["--picture", str(picture)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("goal reached")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_recurrent_network_learns_and_writes(load: Any, tmp_path: Path, capsys: Any) -> None:
    picture = tmp_path / "picture.png"
    example = load("character_rnn")
    assert example.main(["--steps", "40", "--picture", str(picture)]) == 0
    output = capsys.readouterr().out.splitlines()
    written = [line[4:] for line in output if line.startswith("  | ")]
    assert 60 < sum(map(len, written)) <= 100
    loss = float(output[-2].split()[2])
    assert loss < example.entropies()[0]  # more than the frequencies of characters


def test_writing_is_what_the_steps_say(load: Any) -> None:
    """The text that the loop draws, drawn again step by step with the same random numbers."""
    example = load("character_rnn")
    mx.random.seed(5)
    model = example.Writer(16)
    mx.random.seed(6)
    text = example.write(model, 30)
    mx.random.seed(6)
    state, character, drawn = mx.zeros(16), mx.array(example.NUMBERS["\n"], mx.uint32), []
    for _ in range(30):
        state, scores = model.step(state, character)
        character = mx.random.categorical(scores / 0.8)
        drawn.append(example.CHARACTERS[character.item()])
    assert text == "".join(drawn).strip("\n")


def test_the_likelihood_is_that_of_a_normal_distribution(load: Any) -> None:
    """All observations together are normally distributed, with a covariance that pushes add to."""
    example = load("kalman")
    count, push, blur = 12, 0.7, 0.4
    _, seen = example.simulated(count, 3)
    move, effect = np.array(example.MOVE, np.float64), np.array(example.EFFECT, np.float64)
    covariance = blur**2 * np.eye(count)
    powers = [np.linalg.matrix_power(move, n) for n in range(count + 1)]
    for i in range(count):
        for j in range(count):
            covariance[i, j] += 1e-4 * powers[i + 1][0] @ powers[j + 1][0]
            for k in range(min(i, j) + 1):
                one, other = powers[i - k] @ effect, powers[j - k] @ effect
                covariance[i, j] += push**2 * one[0] * other[0]
    expected = multivariate_normal(np.zeros(count), covariance).logpdf(np.array(seen))
    found, _ = example.filtered(mx.log(mx.array([push, blur])), seen)
    assert found.item() == pytest.approx(expected, rel=1e-4)


def test_both_solvers_find_scipys_solution(load: Any) -> None:
    example = load("pendulum")

    def slope(_: float, y: np.ndarray) -> list[float]:
        return [y[1], -example.GRAVITY / 1.7 * np.sin(y[0]) - 0.15 * y[1]]

    solved = solve_ivp(slope, (0, 10), example.START, rtol=1e-10, atol=1e-10)
    expected = solved.y[:, -1]

    def f(y: mx.array) -> mx.array:
        return example.slope(y, 1.7, 0.15)

    start = mx.array(example.START)
    fixed = example.runge_kutta(f, start, 0.01, 1000)[-1]
    np.testing.assert_allclose(np.array(fixed), expected, atol=2e-4)
    end, count = example.adaptive(f, start, 10.0, 1e-5)
    np.testing.assert_allclose(np.array(end), expected, atol=5e-3)
    assert 50 < count.item() < 1000
