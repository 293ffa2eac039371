"""The benchmarks' framework: it runs with peers absent, times what it is given, compares."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks import report, suite
from benchmarks.__main__ import main
from benchmarks.benchmark import Benchmark, chosen
from benchmarks.measure import Stopwatch
from benchmarks.run import Result

ROOT = Path(__file__).parent.parent
PEERS = ("mlx", "jax", "torch")


def test_runs_where_no_peer_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for peer in PEERS:
        absent = f"raise ModuleNotFoundError('No module named {peer}', name={peer!r})\n"
        (tmp_path / f"{peer}.py").write_text(absent)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    numbers = tmp_path / "numbers.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "scalar_chain", "--quick", "--json", str(numbers)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    written = json.loads(numbers.read_text())
    (benchmark,) = written["benchmarks"]
    contenders = benchmark["contenders"]
    assert list(contenders) == ["ingot", "mlx", "numpy", "jax", "torch"]
    for peer in PEERS:
        assert contenders[peer] == {"missing": "not installed"}
        assert f"{peer:<16}not installed" in done.stdout
    for present in ("ingot", "numpy"):
        assert len(contenders[present]["rounds"]) == 3
        assert 0 < contenders[present]["seconds"] < 0.1
    assert contenders["numpy"]["ratio"] == pytest.approx(
        contenders["ingot"]["seconds"] / contenders["numpy"]["seconds"]
    )
    assert set(written["machine"]) >= {"processor", "cpus", "versions", "load"}


def result(**seconds: list[float]) -> Result:
    benchmark = Benchmark("example", "an example", dict, {"fast": 0.5, "slow": 2.0})
    contenders = (*seconds, "absent")
    return Result(benchmark, contenders, seconds, {"absent": "not installed"})


def test_report_says_which_targets_are_met() -> None:
    lines = report.lines(result(ingot=[0.3, 0.2], fast=[0.1], slow=[0.4, 0.5], other=[2e-6]))
    assert lines == [
        "example: an example",
        "  ingot               200 ms",
        "  fast                100 ms   ingot/fast = 2.00   target 0.5: MISSED",
        "  slow                400 ms   ingot/slow = 0.50   target 2: met",
        "  other                 2 µs   ingot/other = 100000.00",
        "  absent          not installed",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(12.34, "12.3 s"), (0.9999, "1 s"), (0.9, "900 ms"), (3e-10, "0.3 ns")]
)
def test_times_have_three_digits_and_a_unit(seconds: float, text: str) -> None:
    assert report.lines(result(ingot=[seconds]))[1] == f"  ingot           {text:>10}"


def test_there_is_no_ratio_without_ingot() -> None:
    assert result(slow=[1.0]).ratio("slow") is None


def test_stopwatch_times_one_call() -> None:
    stopwatch = Stopwatch(lambda: time.sleep(0.001), round_seconds=0.005, self_timed=False)
    assert stopwatch.calls > 1
    assert 0.001 <= stopwatch.round() < 0.1
    assert Stopwatch(lambda: 7.5, round_seconds=1.0, self_timed=True).round() == 7.5


def test_names_choose_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    assert suite.__all__
    assert [benchmark.name for benchmark in chosen(["scalar", "import"])] == [
        "scalar_chain",
        "import_time",
    ]
    assert main(["--list"]) == 0
    assert "matmul_float32" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["nonsense"])
    assert "there is no benchmark 'nonsense', but: " in capsys.readouterr().err
