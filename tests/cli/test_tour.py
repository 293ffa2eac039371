"""The tour: every chapter runs, in colour and as plain text, whatever else is installed."""

from __future__ import annotations

import argparse
import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.cli.process import ingot, python
from tests.language_models.tiny import make_tiny_folder

import ingot.core as mx
from ingot.benchmarks.benchmark import Benchmark
from ingot.benchmarks.result import Result
from ingot.benchmarks.run import run
from ingot.benchmarks.suite.contenders import Input
from ingot.cli import tour, tour_chapters, tour_programs, tour_race
from ingot.cli.chat_model import default_folder
from ingot.cli.run import command
from ingot.cli.tour_screen import Bar, Screen

TITLES = [tour.CHAPTERS[name][0] for name in tour.available()]


def take(*chapters: str, svg: Path | None = None) -> int:
    return tour.main(argparse.Namespace(chapters=list(chapters), quick=True, svg=svg))


@pytest.fixture
def few_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside ingot only peers that are quickly there, and one that is not: processes take time."""
    monkeypatch.setattr(tour_race, "run", race_of_few)


def race_of_few(benchmarks: list[Benchmark], *rest: Any) -> list[Result]:
    few = ("ingot", "ingot op by op", "numpy memcpy", "scipy")
    quicker = [replace(each, contenders=lambda e=each: dict.fromkeys(few)) for each in benchmarks]
    (result,) = run(quicker, *rest)
    result.give_up("torch", "not installed", None)
    result.give_up("mlx compile", "failed: RuntimeError: no [compiler]", "Traceback ...")
    return [result]


def test_plain_tour(few_peers: None, capsys: pytest.CaptureFixture[str]) -> None:
    state = list(mx.random.state)
    assert take() == 0
    mx.random.state[:] = state
    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert all(len(line) <= 100 and line == line.rstrip() for line in output.splitlines())
    headings = re.findall(r"^== (\d) of (\d)  (.*) ==$", output, re.MULTILINE)
    assert headings == [(str(n), str(len(TITLES)), title) for n, title in enumerate(TITLES, 1)]
    # The race names who is missing and who failed.
    for contender in ("ingot, compiled", "copying the array", "NumPy and SciPy"):
        assert re.search(rf"^  {contender} .* [\d.]+ (µs|ms|s)  [\d.e+]+x$", output, re.MULTILINE)
    assert "Not installed: PyTorch, eager." in output
    assert "MLX, compiled: failed: RuntimeError: no [compiler]" in output
    # The kernel: one loop, with the operations of gelu in it.
    assert "5 operations became one kernel" in output
    erf = re.escape("%0[i] * (1.0 + erf(%0[i] / 1.4142135))")
    assert re.search(rf"parallel i in .*\n +%\d+\[i\] = {erf}", output)
    # Four misses with their reasons, then a single one.
    assert "5 calls: 1 hit, 4 misses" in output
    assert "argument `x`, axis 0: 3 → 5" in output
    assert "97 calls: 0 hits, 1 miss, 96 with new shapes" in output
    differences = re.findall(r"differ by (?:at most )?([\d.e-]+)", output)
    assert len(differences) == 2
    assert all(float(difference) < 1e-4 for difference in differences)


def test_the_error_names_the_line_that_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert take("error") == 0
    output = " ".join(capsys.readouterr().out.split())
    line = re.search(r"made at tour_programs.py:(\d+) in look_inside", output)
    assert line is not None
    assert f"{line[1]} z = -x" in output
    source = Path(tour_programs.__file__).read_text().splitlines()
    assert source[int(line[1]) - 1].strip() == "z = -x"


def test_recorded_tour(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = {"ingot": [0.02, 0.01], "numpy memcpy": [0.01], "jax jit": [0.04]}
    result = Result(tour_race.RACE, tuple(measured), measured, {}, {})
    monkeypatch.setattr(tour_race, "run", lambda *_: [result])
    path = tmp_path / "tour.svg"
    chapters = ("function", "compiled", "kernel", "race", "again", "error")
    assert take(*chapters, svg=path) == 0
    assert "\x1b[" in capsys.readouterr().out  # in colour, though this is no terminal
    ElementTree.parse(path)
    picture = path.read_text()
    shown = picture.replace("&#160;", " ")
    assert all(tour.CHAPTERS[name][0] in shown for name in chapters)
    assert "url(http" not in picture
    assert "█" in picture
    assert re.search(r"JAX, jit +█+ .*40 ms.*4x", re.sub(r"<[^>]*>", "", shown))


def test_training_is_drawn_in_two_rows_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(record=True)
    screen.picture([[0.0, 1.0], [0.5, 0.25]])
    output = capsys.readouterr().out
    assert output.count("▀") == 2
    assert "38;2;56;132;255" in output  # blue for 0
    assert "38;2;255;150;50" in output  # orange for 1


def test_bars_are_as_long_as_their_times(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().bars([Bar("slow", 200.0), Bar("fast", 100.0), Bar("tiny", 0.05)])
    tiny, fast, slow = capsys.readouterr().out.splitlines()
    assert slow.count("█") == 2 * fast.count("█") > 20
    assert (tiny.split()[-2:], fast.split()[-2:]) == (["50", "µs"], ["100", "ms"])
    assert len({line.index("s", 5) for line in (fast, slow)}) == 1  # units are aligned


@pytest.mark.parametrize("no_color", [True, False])
def test_no_color_is_plain_in_a_terminal(monkeypatch: pytest.MonkeyPatch, no_color: bool) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    assert Screen().rich is not no_color


def test_contenders_compute_gelu() -> None:
    setups = tour_race.contenders((3, 5))
    assert set(setups) == set(tour_race.NAMES)
    x = Input((3, 5)).numbers()
    expected = [v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in x.ravel().tolist()]
    np.testing.assert_allclose(setups["scipy"]()().ravel(), expected, rtol=1e-5)
    mx_gelu = tour_programs.gelu(mx.array(x))
    np.testing.assert_allclose(np.array(mx_gelu).ravel(), expected, rtol=1e-5, atol=1e-7)


def test_fusion_is_switched_on_again() -> None:
    def fails() -> None:
        raise KeyError("x")

    before = mx.eager_fusion_info()
    with pytest.raises(KeyError):
        tour_race.op_by_op(fails)()
    assert mx.eager_fusion_info() == before


def test_widths_are_read_from_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    code = "\tvmulss\t%xmm1, %xmm2, %xmm3\n\tvfmadd213ps\t%ymm1, %ymm2, %ymm3\n"
    tour_chapters._show_vectors(Screen(), code)
    output = capsys.readouterr().out
    assert "1 instructions work on 256 bits at a time, that is 8 float32 numbers" in output
    assert "vfmadd213ps %ymm1, %ymm2, %ymm3" in output
    tour_chapters._show_vectors(Screen(), "ret\n")
    assert capsys.readouterr().out == ""


def test_interrupted_tour(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(screen: Screen, quick: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(tour.CHAPTERS, "race", ("The race", interrupt))
    assert take("race", "error") == 130
    output = capsys.readouterr().out
    assert output.endswith("The tour was interrupted.\n")
    assert "A mistake" not in output.partition("The race")[2]


def test_unknown_chapter(capsys: pytest.CaptureFixture[str]) -> None:
    assert take("end") == 2
    assert capsys.readouterr().err == (
        "ingot tour: unknown chapter 'end'; choose from function, compiled, kernel, race, again, "
        "error, training, chat.\n"
    )


def test_without_rich_it_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['rich'] = None; import ingot.cli.commands; "
        "sys.exit(ingot.cli.commands.main(['tour']))"
    )
    done = python("-c", program)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "`ingot tour` needs rich, which is not installed. "
        f"`{command('pip')} install 'ingot-ml[cli]'` installs it.\n"
    )


def test_as_a_command_that_is_piped(tmp_path: Path) -> None:
    done = ingot("tour", "--quick", "again", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "axis 0: 3 ? 5" in done.stdout  # ASCII has no arrow


def test_the_chapter_of_the_language_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("INGOT_VERIFY", "0")
    assert take("chat") == 1
    assert "`ingot chat` downloads one" in capsys.readouterr().err
    make_tiny_folder(default_folder())
    assert take("chat") == 0
    assert re.search(r"tokens read at \d+/s, 8 written at [\d.]+/s", capsys.readouterr().out)
