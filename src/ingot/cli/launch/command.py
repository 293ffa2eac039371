"""The command line of `ingot launch`, the launcher behind it, and its signals."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ingot.cli.launch.output import BEGIN, END, LOCAL, Output
from ingot.cli.run import environment

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["add_arguments", "main"]

_INSTALL = "`pip install 'ingot-ml[distributed]'` installs MPICH's."

# Seconds that ranks have to end after Ctrl-C before they are killed.
GRACE = 3.0

# Variables that ssh does not hand on, which Python needs on the other hosts.
_HANDED_ON = ("PYTHONPATH", "INGOT_NUM_THREADS")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `mlx.launch`, and --threads and --raw."""
    add = parser.add_argument
    add("-n", "--repeat-hosts", type=_positive, default=None, help="ranks per host (default: 1)")
    add("--hosts", default="127.0.0.1", help="comma-separated host names (default: this machine)")
    add("--hostfile", help="a JSON file with hosts, as for mlx.launch")
    add("--backend", help="accepted: any, ring, mpi, nccl and jaccl all mean MPI")
    add(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set an environment variable for the ranks",
    )
    add("--cwd", help="the working directory of the ranks")
    add("--python", help="the Python that runs scripts (default: this one)")
    add("--mpi-arg", action="append", default=[], help="arguments for mpiexec itself")
    add(
        "--threads",
        type=_positive,
        help="threads per rank (default: its share of the host's cores)",
    )
    add("--raw", action="store_true", help="do not prefix output lines with their rank")
    add("--verbose", action="store_true", help="print the command that starts the ranks")
    add("--print-python", action="store_true", help="print the path of Python and exit")
    for ignored in ("--connections-per-ip", "--nccl-port"):
        add(ignored, type=int, help=argparse.SUPPRESS)
    add("-p", "--starting-port", type=int, help=argparse.SUPPRESS)
    add("command", nargs=argparse.REMAINDER, help="the program and its arguments")


def _positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return value


def main(arguments: argparse.Namespace) -> int:
    """Starts the ranks and waits for them."""
    python = arguments.python or sys.executable
    if arguments.print_python:
        print(python)
        return 0
    try:
        hosts, variables = _hosts(arguments)
        command = _program(arguments.command, python)
        launcher = _launcher()
    except ValueError as error:
        print(f"ingot launch: {error}", file=sys.stderr)
        return 2
    variables.update(_pairs(arguments.env))
    if arguments.threads is not None:
        variables["INGOT_NUM_THREADS"] = str(arguments.threads)
    line = [*launcher.arguments(hosts, arguments, variables), *command]
    if arguments.verbose:
        print(f"ingot launch: {shlex.join(line)}", file=sys.stderr)
    return _run(line, {**environment(), **variables}, Output(hosts, arguments.raw))


def _hosts(arguments: argparse.Namespace) -> tuple[list[str], dict[str, str]]:
    """The host of each rank, and the variables of a hostfile."""
    if arguments.hostfile is None:
        names = arguments.hosts.split(",")
        if "" in names:
            raise ValueError(f"a host has no name in --hosts {arguments.hosts!r}.")
        return [name for name in names for _ in range(arguments.repeat_hosts or 1)], {}
    try:
        content = json.loads(Path(arguments.hostfile).read_text())
        listed = content["hosts"] if isinstance(content, dict) else content
        variables = content.get("envs", []) if isinstance(content, dict) else []
        names = [host["ssh"] for host in listed]
    except OSError as error:
        raise ValueError(f"cannot read the hostfile: {error}.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{arguments.hostfile} is not a hostfile, which is a JSON list of objects like "
            f'{{"ssh": "name of a host"}}: {error!r}.'
        ) from None
    return [name for name in names for _ in range(arguments.repeat_hosts or 1)], _pairs(variables)


def _pairs(variables: Iterable[str]) -> dict[str, str]:
    """NAME=VALUE as a dict; a name alone is empty."""
    return {name: value for name, _, value in (text.partition("=") for text in variables)}


def _program(command: Sequence[str], python: str) -> list[str]:
    """The command line of each rank."""
    words = list(command[1:] if command[:1] == ["--"] else command)
    if not words:
        raise ValueError("no program is given: `ingot launch -n 2 train.py` starts one.")
    if words[0].endswith(".py") or words[0].startswith("-"):
        return [python, *words]
    if shutil.which(words[0]) is None:
        raise ValueError(f"there is no program {words[0]!r}, and scripts end in .py.")
    return words


class _Launcher:
    """MPI's own launcher, MPICH's or Open MPI's."""

    def __init__(self, path: str) -> None:
        self.path = path
        asked = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        self.is_open_mpi = "HYDRA" not in asked.stdout + asked.stderr

    def arguments(
        self, hosts: list[str], arguments: argparse.Namespace, variables: dict[str, str]
    ) -> list[str]:
        """Its command line, up to the program."""
        counts = Counter(hosts)
        here = all(host in LOCAL for host in hosts)
        given = {name: os.environ[name] for name in _HANDED_ON if name in os.environ}
        handed_on = {**given, **variables} if not here else {}
        extra = [word for text in arguments.mpi_arg for word in shlex.split(text)]
        if self.is_open_mpi:
            names = [word for name in {**handed_on, **variables} for word in ("-x", name)]
            hosts_option = ["--host", ",".join(f"{host}:{count}" for host, count in counts.items())]
            root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
            folder = ["--wdir", arguments.cwd] if arguments.cwd else []
            tag = [] if arguments.raw else ["--tag-output"]
            share = ["--oversubscribe", "--bind-to", "none"]
            options = [*root, *hosts_option, *folder, *tag, *share, *names, *extra]
            return [self.path, "-n", str(len(hosts)), *options]
        hosts_option = [] if here else ["-hosts", ",".join(f"{h}:{n}" for h, n in counts.items())]
        folder = ["-wdir", arguments.cwd] if arguments.cwd else []
        tag = ["-prepend-pattern", f"{BEGIN}%r{END}"]
        names = [word for pair in handed_on.items() for word in ("-genv", *pair)]
        options = ["-print-all-exitcodes", *hosts_option, *folder, *tag, *names, *extra]
        return [self.path, *options, "-n", str(len(hosts))]


def _launcher() -> _Launcher:
    """The launcher beside Python, which belongs to the MPI library there, or else on PATH."""
    beside = Path(sys.executable).with_name("mpiexec")
    path = str(beside) if beside.exists() else shutil.which("mpiexec")
    if path is None:
        raise ValueError(f"there is no mpiexec, MPI's launcher. {_INSTALL}")
    return _Launcher(path)


def _run(line: list[str], variables: dict[str, str], output: Output) -> int:
    """Runs the launcher; the exit code of the rank that failed first, or 0."""
    process = subprocess.Popen(
        line,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C reaches the ranks once, through this process
    )
    assert process.stdout is not None
    assert process.stderr is not None
    streams = ((process.stdout.fileno(), sys.stdout), (process.stderr.fileno(), sys.stderr))
    threads = [threading.Thread(target=output.forward, args=pair) for pair in streams]
    for thread in threads:
        thread.start()
    stops = _Stops(process)
    code = stops.wait()
    for thread in threads:
        thread.join()
    summary = output.summary()
    if summary is not None and not stops.signal:
        print(summary, file=sys.stderr, flush=True)
    if stops.signal:
        return 128 + stops.signal
    ends = [os.waitstatus_to_exitcode(status) for status in output.codes if status]
    first = ends[0] if ends else code
    return first if first >= 0 else 128 - first


class _Stops:
    """Hands Ctrl-C and SIGTERM on to the ranks, and kills those that do not end in time."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.signal = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.stop)

    def stop(self, number: int, frame: object) -> None:
        """The handler: the first signal asks the ranks to end, a second one kills them."""
        first = not self.signal
        self.signal = number
        self.process.send_signal(number if first else signal.SIGKILL)
        if first:
            threading.Timer(GRACE, self.kill).start()

    def kill(self) -> None:
        """Ends the whole session of the launcher."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Waits for the launcher to end."""
        while True:
            try:
                return self.process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
