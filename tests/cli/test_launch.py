"""`ingot launch`: real ranks under MPI's launcher; other hosts by the command line alone."""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ingot.cli.launch import command as launch
from ingot.cli.launch.output import Output

from .process import ingot as command

PROGRAM = """
import os, signal, sys, time
import mlx.core as mx
group = mx.distributed.init(strict=True, backend="ring")
total = mx.distributed.all_sum(mx.ones(2)).tolist()
print(group.rank(), total, mx.get_num_threads(), sys.argv[1:], os.environ.get("A"), flush=True)
sys.stdout.write("half a "); sys.stdout.flush(); time.sleep(0.2); print("line", flush=True)
if "kill" in sys.argv and group.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if "wait" in sys.argv:
    time.sleep(60)
mx.eval(mx.distributed.all_sum(mx.ones(3)))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_ranks(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INGOT_NUM_THREADS", raising=False)
    done = command("launch", "-n", "2", "--backend", "ring", "--env", "A=5", program, "--lr", "1")
    assert (done.returncode, done.stderr) == (0, "")
    share = max(1, len(os.sched_getaffinity(0)) // 2)  # of the cores
    assert sorted(done.stdout.splitlines()) == [
        line
        for rank in (0, 1)
        for line in (
            f"[{rank}] {rank} [2.0, 2.0] {share} ['--lr', '1'] 5",
            f"[{rank}] half a line",
        )
    ]


def test_mlx_launch_where_mlx_is_ingot(program: Path) -> None:
    script = Path(sys.executable).with_name("mlx.launch")
    done = command("run", script, "-n", "2", program, "x")
    assert done.returncode == 0, done.stderr
    assert "[1] 1 [2.0, 2.0] 1 ['x'] None\n" in done.stdout


def test_a_killed_rank_ends_all(program: Path) -> None:
    start = time.monotonic()
    done = command("launch", "-n", "2", program, "kill")
    host = socket.gethostname()
    assert done.returncode == 137
    assert f"ingot launch: rank 1 on {host} was ended by SIGKILL, which ends all" in done.stderr
    assert time.monotonic() - start < 30


def test_ctrl_c_reaches_all(program: Path) -> None:
    line = [sys.executable, "-m", "ingot", "launch", "-n", "2", str(program), "wait"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(4):
        process.stdout.readline()  # both ranks are there
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, out + err
    assert "KeyboardInterrupt" in err


def _command_line(*arguments: str, is_open_mpi: bool = False) -> list[str]:
    parser = argparse.ArgumentParser()
    launch.add_arguments(parser)
    parsed = parser.parse_args(arguments)
    launcher = object.__new__(launch._Launcher)
    launcher.path, launcher.is_open_mpi = "mpiexec", is_open_mpi
    hosts, variables = launch._hosts(parsed)
    variables.update(launch._pairs(parsed.env))
    made = launcher.arguments(hosts, parsed, variables)
    return [*made, *launch._program(parsed.command, "python")]


def test_other_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in launch._HANDED_ON:
        monkeypatch.delenv(name, raising=False)
    given = ["--hosts", "a,b", "-n", "2", "--cwd", "/data", "--env", "X=1", "--", "train.py", "-v"]
    made = " ".join(_command_line(*given))
    assert "-hosts a:2,b:2" in made
    assert made.endswith(
        "-wdir /data -prepend-pattern \x1e%r\x1f -genv X 1 -n 4 python train.py -v"
    )
    made = " ".join(_command_line(*given, is_open_mpi=True))
    assert made.startswith("mpiexec -n 4")
    assert "--host a:2,b:2 --wdir /data --tag-output" in made
    assert "-x X python train.py -v" in made
    hostfile = tmp_path / "hosts.json"
    content = {
        "backend": "jaccl",
        "envs": ["Y=2"],
        "hosts": [{"ssh": "c"}, {"ssh": "d", "ips": []}],
    }
    hostfile.write_text(json.dumps(content))
    made = " ".join(_command_line("--hostfile", str(hostfile), "--", "-m", "trainer"))
    assert "-hosts c:1,d:1" in made
    assert made.endswith("-genv Y 2 -n 2 python -m trainer")


def test_what_cannot_be_launched(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('["a"]')
    for arguments, words in (
        ([], "no program is given"),
        (["nothing_like_it"], "there is no program 'nothing_like_it'"),
        (["--hosts", "a,,b", "x.py"], "a host has no name"),
        (["--hostfile", str(tmp_path / "none"), "x.py"], "cannot read the hostfile"),
        (["--hostfile", str(bad), "x.py"], "is not a hostfile"),
    ):
        done = command("launch", *arguments)
        assert done.returncode == 2
        assert words in done.stderr


def test_chunks_become_lines() -> None:
    """However the launcher cuts them."""
    ours = b"[mpiexec@x] Exit codes: [x] 0,9\n"
    text = b"\x1e0\x1fa\n\x1e1\x1fb\xc3\x1e0\x1fc \x1e0\x1fd\re\n\x1e1\x1f\n" + ours + b"\x1e1\x1fz"
    for size in (1, 2, 3, 7, 100):
        reading, writing = os.pipe()
        output, to = Output(["h", "h"], False), io.StringIO()
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        os.write(writing, b"")
        _forwarded(output, reading, writing, pieces, to)
        assert to.getvalue().replace("\ufffd", "?") == "[0] a\n[0] c d\r[0] e\n[1] b?\n[1] z\n"
        assert (
            output.summary()
            == "ingot launch: rank 1 on h was ended by SIGKILL, which ends all ranks."
        )


def _forwarded(
    output: Output, reading: int, writing: int, pieces: list[bytes], to: io.StringIO
) -> None:
    child = os.fork()
    if child == 0:
        for piece in pieces:
            os.write(writing, piece)
            time.sleep(0.001)
        os._exit(0)
    os.close(writing)
    output.forward(reading, to)
    os.close(reading)
    os.waitpid(child, 0)
