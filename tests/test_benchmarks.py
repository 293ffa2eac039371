"""The benchmarks' framework: it runs with peers absent, measures what it is given, compares, and
hides nothing that failed."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingot.benchmarks import benchmark, command, machine, report, worker
from ingot.benchmarks.benchmark import Benchmark, against_before, chosen, named
from ingot.benchmarks.command import add_arguments, main
from ingot.benchmarks.machine import BusyMeter
from ingot.benchmarks.result import Result
from ingot.benchmarks.run import Effort, run

PEERS = ("mlx", "jax", "torch")
SHORT = Effort(
    rounds=2, round_seconds=0.0, new_processes=2, contender_seconds=60.0, limit_seconds=600.0
)

# Contenders that return known numbers, fail early, fail late, print, are absent, or die.
FAKE = '''
import os
from pathlib import Path
from ingot.benchmarks.benchmark import Measure, benchmark
from ingot.benchmarks.libraries import NotInstalledError

def giving(*numbers):
    def setup():
        left = [numbers[0], *numbers]  # one for the warm-up
        return lambda: left.pop(0)
    return setup

def absent():
    raise NotInstalledError("gone is not installed")

def broken():
    raise ValueError("it cannot\\nbe done")

def breaking():
    left = [1.0, 1.0]
    return lambda: left.pop(0)

def printing():
    print("noise on standard output")
    return giving(4.0, 8.0)()

def dying():
    os.write(2, b"the last words\\n")
    os._exit(7)

@benchmark("fakes", targets={"fast": 0.5, "slow": 1.0, "gone": 2.0}, limits={"limit 4 s": 4.0},
           measure=Measure.SELF_TIMED)
def fake():
    return {"ingot": giving(3.0, 2.0), "fast": giving(1.0, 1.5), "slow": printing, "gone": absent,
            "broken": broken, "breaking": breaking, "dying": dying}

def endless():
    import subprocess, sys
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    Path(os.environ["CHILD_FILE"]).write_text(str(child.pid))
    child.wait()

def growing():
    kept = []
    while True:
        kept.append(b"m" * 10_000_000)

@benchmark("fakes that are stopped", measure=Measure.SELF_TIMED)
def fake_endless():
    return {"ingot": giving(3.0, 2.0), "ingot endless": endless}

@benchmark("fakes that grow", measure=Measure.SELF_TIMED)
def fake_growing():
    return {"ingot": giving(3.0, 2.0), "large": growing}

@benchmark("fakes without ingot", targets={"fast": 1.0}, measure=Measure.SELF_TIMED)
def fake_failure():
    return {"ingot": broken, "fast": giving(1.0, 1.0, 1.0)}

def first():
    """Takes its time unless the cache is filled, and fills it."""
    import time
    mark = Path(os.environ["INGOT_CACHE_DIR"], "mark")
    def call():
        if not mark.exists():
            time.sleep(0.3)
            mark.touch()
    return call

@benchmark("cold", measure=Measure.FIRST_CALL_COLD)
def fake_cold():
    return {"ingot": first}

@benchmark("warm", measure=Measure.FIRST_CALL_WARM)
def fake_warm():
    return {"ingot": first}

def megabytes(kept, passing):
    def setup():
        made = b"m" * (4 * passing)  # gone before the measurement begins
        kept_bytes = b"k" * kept
        return lambda: len(kept_bytes + b"p" * passing)
    return setup

def filling():
    """Needs memory to fill the cache."""
    mark = Path(os.environ["INGOT_CACHE_DIR"], "mark")
    def call():
        if not mark.exists():
            mark.touch()
            return len(b"m" * 100_000_000)
    return call

@benchmark("memory with caches", measure=Measure.PEAK_MEMORY)
def fake_filling():
    return {"ingot": filling}

@benchmark("memory", measure=Measure.PEAK_MEMORY)
def fake_memory():
    return {"python": megabytes(20_000_000, 40_000_000)}
'''


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The fake benchmarks are in the table, and workers can import them."""
    (tmp_path / "fake_suite.py").write_text(FAKE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(benchmark, "_benchmarks", dict(benchmark._benchmarks))
    importlib.import_module("fake_suite")
    yield
    del sys.modules["fake_suite"]


def measured(name: str, effort: Effort = SHORT) -> Result:
    (result,) = run([named(name)], effort, lambda text: None, lambda result: None, BusyMeter())
    return result


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(arguments)


@pytest.mark.usefixtures("fakes")
def test_contenders_are_measured_compared_and_never_hidden() -> None:
    result = measured("fake")
    entry = result.as_json()
    assert entry["contenders"]["ingot"] == {"best": 2.0, "rounds": [3.0, 2.0]}
    assert entry["contenders"]["gone"] == {"missing": "not installed"}
    broken = entry["contenders"]["broken"]
    assert broken["missing"] == "failed: ValueError: it cannot"
    assert 'raise ValueError("it cannot' in broken["details"]
    # It worked once: that is not taken for a result.
    assert entry["contenders"]["breaking"]["missing"] == "failed: IndexError: pop from empty list"
    assert entry["contenders"]["dying"] == {
        "missing": "failed: its process ended (7)",
        "details": "the last words",
    }
    compared = {row["against"]: (row["ratio"], row["met"]) for row in entry["comparisons"]}
    assert compared == {
        "fast": (2.0, False),
        "slow": (0.5, True),
        "gone": (None, None),
        "broken": (None, None),
        "breaking": (None, None),
        "dying": (None, None),
        "limit 4 s": (0.5, True),
    }
    assert report.lines(entry) == [
        f"{'fakes':<70}       2 s",
        "    fast                           1 s   ratio 2        target 0.5    MISSED by 300%",
        "    slow                           4 s   ratio 0.5      target 1      met",
        "    gone                    not installed",
        "    broken                  failed: ValueError: it cannot",
        "    breaking                failed: IndexError: pop from empty list",
        "    dying                   failed: its process ended (7)",
        "    limit 4 s                      4 s   ratio 0.5      target 1      met",
    ]
    assert report.closing_lines({"benchmarks": [entry], "busy": 0.5, "interrupted_before": []}) == [
        "targets: 2 met, 1 missed, 1 not judged for lack of a number",
        "    MISSED by 300%: fakes, against fast",
        "failure: fakes, broken: failed: ValueError: it cannot",
        "failure: fakes, breaking: failed: IndexError: pop from empty list",
        "failure: fakes, dying: failed: its process ended (7)",
        "not installed and not measured: gone (`pip install 'ingot-ml[bench]'` has the peers)",
        "The machine is busy: other programs used 50% of the CPUs between rounds. "
        "Trust ratios more than times, and neither to the last digit.",
    ]


@pytest.mark.usefixtures("fakes")
def test_a_contender_that_takes_too_long_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHILD_FILE", str(tmp_path / "child"))
    result = measured("fake_endless", replace(SHORT, limit_seconds=8.0))
    assert result.missing == {"ingot endless": "stopped after 8 s"}
    # it shared its process with this one, which is prepared again
    assert result.rounds == {"ingot": [3.0, 2.0]}
    child = Path("/proc", (tmp_path / "child").read_text(), "status")
    assert not child.exists() or "State:\tZ" in child.read_text()  # its processes end with it


@pytest.mark.usefixtures("fakes")
def test_a_contender_that_takes_too_much_memory_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "memory_of_machine", lambda: 1_000_000_000)
    monkeypatch.setattr(worker, "SECONDS_BETWEEN_LOOKS", 0.01)
    result = measured("fake_growing")
    (reason,) = result.missing.values()
    stopped = re.fullmatch(r"stopped at (\d+\.\d) GB", reason)
    assert stopped is not None
    assert float(stopped[1]) >= 0.5
    assert result.rounds == {"ingot": [3.0, 2.0]}


@pytest.mark.usefixtures("fakes")
def test_another_interpreter_is_the_only_peer_of_a_comparison_with_before(
    tmp_path: Path,
) -> None:
    # Stands for the interpreter of an older checkout, in which the fake takes ten times as long.
    older = tmp_path / "older"
    older.mkdir()
    (older / "fake_suite.py").write_text(FAKE.replace("giving(3.0, 2.0)", "giving(30.0, 20.0)"))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{older}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    benchmarks = [against_before(named("fake"))]
    (result,) = run(
        benchmarks, SHORT, lambda text: None, lambda result: None, BusyMeter(), str(python)
    )
    entry = result.as_json()
    assert entry["contenders"]["ingot"]["rounds"] == [3.0, 2.0]
    assert entry["contenders"]["before"]["rounds"] == [30.0, 20.0]
    compared = {row["against"]: row["ratio"] for row in entry["comparisons"]}
    assert compared == {"before": 0.1, "limit 4 s": 0.5}
    assert main(options("fake", "--before", str(tmp_path / "nothing"))) == 2


@pytest.mark.usefixtures("fakes")
def test_the_older_version_may_lack_a_benchmark(tmp_path: Path) -> None:
    older = tmp_path / "older"
    older.mkdir()
    (older / "fake_suite.py").write_text("")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{older}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (result,) = run(
        [against_before(named("fake"))],
        SHORT,
        lambda text: None,
        lambda result: None,
        BusyMeter(),
        str(python),
    )
    assert result.rounds == {"ingot": [3.0, 2.0]}
    assert result.missing == {"before": "that version has no such benchmark"}
    assert result.details == {}  # no traceback
    written = {"benchmarks": [result.as_json()], "busy": 0.0, "interrupted_before": []}
    assert not [line for line in report.closing_lines(written) if line.startswith("failure")]


@pytest.mark.usefixtures("fakes")
def test_the_older_version_may_have_a_benchmark_in_another_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ingot.benchmarks.run.SUITE", "fake_suite")
    moved = replace(against_before(named("fake")), module="fake_suite.moved")
    (result,) = run([moved], SHORT, lambda text: None, lambda result: None, BusyMeter())
    assert result.rounds["before"] == [3.0, 2.0]


@pytest.mark.usefixtures("fakes")
def test_ingot_failing_fails_the_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    numbers = tmp_path / "numbers.json"
    assert main(options("fake_failure", "--quick", "--json", str(numbers))) == 1
    said = capsys.readouterr()
    assert (
        "fakes without ingot\n"
        "    ingot                   failed: ValueError: it cannot\n"
        "    fast                           1 s target 1      not judged\n"
    ) in said.out
    assert "targets: 0 met, 0 missed, 1 not judged" in said.out
    assert "Traceback" in said.err
    assert main(options("--from", str(numbers), "--markdown")) == 1
    again = capsys.readouterr().out
    assert again.startswith(said.out)
    assert "| fakes without ingot | failed | - | - | - | - |" in again


@pytest.mark.usefixtures("fakes")
def test_an_interrupted_run_keeps_what_it_has(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(benchmarks: list[Benchmark], *rest: Any) -> None:
        run(benchmarks[:1], *rest)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run", interrupted)
    numbers = tmp_path / "numbers.json"
    names = ("fake_failure", "fake_cold", "fake_warm")
    assert main(options(*names, "--quick", "--json", str(numbers))) == 130
    said = capsys.readouterr().out
    assert "interrupted: 2 benchmarks, from fake_cold on, did not run" in said
    written = json.loads(numbers.read_text())
    assert [entry["name"] for entry in written["benchmarks"]] == ["fake_failure"]


@pytest.mark.usefixtures("fakes")
def test_first_calls_are_cold_or_warm() -> None:
    assert min(measured("fake_cold").rounds["ingot"]) >= 0.3
    assert min(measured("fake_warm").rounds["ingot"]) < 0.3


@pytest.mark.usefixtures("fakes")
def test_peak_memory_counts_what_is_there_while_the_function_runs() -> None:
    """20 MB are kept, 40 pass, and 60 more while both are joined; the 160 before do not count."""
    assert max(measured("fake_memory").rounds["python"]) == pytest.approx(120e6, rel=0.1)


@pytest.mark.usefixtures("fakes")
def test_what_fills_the_caches_is_no_round() -> None:
    result = measured("fake_filling", replace(SHORT, contender_seconds=0.0))
    (peak,) = result.rounds["ingot"]
    assert peak < 50e6


def test_runs_where_no_peer_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for peer in PEERS:
        absent = f"raise ModuleNotFoundError('No module named {peer}', name={peer!r})\n"
        (tmp_path / f"{peer}.py").write_text(absent)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    numbers = tmp_path / "numbers.json"
    done = subprocess.run(
        [sys.executable, "-m", "ingot", "bench", "scalar_chain", "--quick", "--json", str(numbers)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    written = json.loads(numbers.read_text())
    (only,) = written["benchmarks"]
    contenders = only["contenders"]
    assert list(contenders) == ["ingot", "mlx", "numpy", "jax", "torch"]
    for peer in PEERS:
        assert contenders[peer] == {"missing": "not installed"}
        assert f"    {peer:<24}not installed" in done.stdout
    assert "not installed and not measured: mlx, jax, torch" in done.stdout
    for present in ("ingot", "numpy"):
        assert 1 <= len(contenders[present]["rounds"]) <= 3  # fewer on a very busy machine
        assert contenders[present]["best"] > 0
    ratios = {row["against"]: row["ratio"] for row in only["comparisons"]}
    assert ratios["numpy"] == pytest.approx(
        contenders["ingot"]["best"] / contenders["numpy"]["best"]
    )
    assert set(written["machine"]) >= {"processor", "cpus", "versions", "load"}
    assert 0 <= written["busy"] <= 1


def entry(name: str, group: str | None = None, **seconds: float) -> dict[str, Any]:
    targets = {"fast": 0.5, "slow": 2.0, "jax jit": 1.0}
    example = Benchmark(name, f"the {name}", dict, __name__, targets, group=group)
    rounds = {contender.replace("_", " "): [number] for contender, number in seconds.items()}
    return Result(example, (*rounds, "torch"), rounds, {"torch": "not installed"}, {}).as_json()


def test_the_worst_of_a_group_is_against_the_best_peer() -> None:
    group = "odd sizes"
    entries = [
        entry("lone", ingot=9.0, fast=1.0),
        entry("first", group, ingot=1.0, fast=0.5, slow=2.0),
        entry("second", group, ingot=3.0, fast=6.0, slow=1.0),
        entry("third", group, ingot=0.5, jax_jit=1.0),
    ]
    (worst,) = report.worst_of_groups(entries)
    assert (worst["title"], worst["against"], worst["ratio"]) == ("the second", "slow", 3.0)
    assert report.closing_lines({"benchmarks": entries, "busy": None, "interrupted_before": []})[
        0
    ] == ("worst of 3 odd sizes against the best peer: 3 (the second, slow)")
    assert report.lines(entries[2])[1:] == [
        "    slow                           1 s   ratio 3        target 2      MISSED by 50%",
        "    torch                   not installed",
    ]


def test_the_geometric_mean_and_the_worst_ratio_are_against_the_best_peers() -> None:
    entries = [
        entry("first", ingot=1.0, jax_jit=2.0, mlx=8.0),
        entry("second", "odd sizes", ingot=4.0, jax_jit=2.0, numpy_memcpy=1.0),
        entry("third", ingot=8.0, fast=1.0),  # no library that counts
    ]
    said = report.closing_lines({"benchmarks": entries, "busy": None, "interrupted_before": []})
    assert (
        "against the best peer of each of 2: geometric mean 1, worst 2 (the second, jax jit)"
        in said
    )


def test_markdown_has_a_row_for_each_benchmark_and_group() -> None:
    described = {
        "processor": "A processor",
        "usable_cpus": 2,
        "versions": {"jax": "1", "mlx": None},
    }
    entries = [
        entry("lone", ingot=0.2, fast=0.1, jax_jit=0.8),
        entry("first", "odd sizes", ingot=1.0, jax_jit=0.5),
    ]
    table = report.markdown({"machine": described, "benchmarks": entries}).splitlines()
    assert table[0].startswith("A processor, 2 CPUs; jax 1. ")
    assert table[2:] == [
        "| work | ingot | MLX | JAX | PyTorch | others and limits |",
        "| --- | --- | --- | --- | --- | --- |",
        "| the lone | 200 ms | - | 0.25 (≤ 1) | - | fast **2** (≤ 0.5) |",
        "| worst of 1 odd sizes: the first |  | - | **2** (≤ 1) | - | - |",
    ]


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (12.34, "seconds", "12.3 s"),
        (0.9999, "seconds", "1 s"),
        (0.9, "seconds", "900 ms"),
        (3e-10, "seconds", "0.3 ns"),
        (1.112e9, "bytes", "1.11 GB"),
        (64e6, "bytes", "64 MB"),
    ],
)
def test_numbers_have_three_digits_and_a_unit(number: float, unit: str, text: str) -> None:
    assert report.lines({**entry("example", ingot=number), "unit": unit})[0].endswith(f" {text}")


def test_a_busy_machine_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([(0.0, 0.0), (1.0, 4.0), (10.0, 10.0), (12.0, 14.0)])
    monkeypatch.setattr(machine, "_cpu_times", lambda: next(times))
    meter = BusyMeter()
    assert meter.share is None
    meter.pause(0.0)
    meter.pause(0.0)
    assert meter.share == 3 / 8
    assert machine.busy_line(0.01) is None
    assert "other programs used 38% of the CPUs" in str(machine.busy_line(meter.share))


def test_names_choose_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    assert [known.name for known in chosen(["scalar", "import"])] == [
        "scalar_chain",
        "import_time",
    ]
    assert main(options("--list")) == 0
    assert "matmul_float32" in capsys.readouterr().out
    assert main(options("nonsense")) == 2
    assert "there is no benchmark 'nonsense'. `ingot bench --list`" in capsys.readouterr().err


def test_files_of_other_kinds_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "numbers.json"
    path.write_text("[]")
    assert main(options("--from", str(path))) == 2
    assert "cannot be read as what `ingot bench --json` writes" in capsys.readouterr().err
    path.write_text('{"benchmarks": [], "format": 0}')
    assert main(options("--from", str(path))) == 2
    assert "was written by another version of ingot" in capsys.readouterr().err


def test_every_target_is_for_a_contender() -> None:
    """A misspelt name would never be judged."""
    for known in chosen([]):
        contenders = set(known.contenders())
        assert "ingot" in contenders, known.name
        assert set(known.targets) <= contenders - {"ingot"}, known.name


def test_older_versions_find_benchmarks_in_any_folder() -> None:
    """A benchmark may have moved to another module of the suite since."""
    gelu = against_before(named("gelu_small"))
    assert gelu.module == "ingot.benchmarks.suite"
    assert against_before(replace(gelu, module="elsewhere")).module == "elsewhere"
