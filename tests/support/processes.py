"""Work in other processes and threads: scripts, tests under other settings, forks, several threads
at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def output_of(script: str, **variables: str) -> bytes:
    """What a script prints in a process with these environment variables; it may import tests."""
    environment = {**os.environ, **variables, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def has_one_output(script: str, **variables: str) -> bool:
    """Whether a script prints the same with any number of threads."""
    return len({output_of(script, INGOT_NUM_THREADS=n, **variables) for n in ("1", "2", "5")}) == 1


def require_passing(tests: Iterable[str], **variables: str) -> None:
    """Runs some tests, by their ids, in a process with these environment variables."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, **variables, "PYTEST_XDIST_WORKER": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def holds_in_child(check: Callable[[], bool]) -> bool:
    """Whether `check` is true in a forked process."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if check() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def run_in_threads(count: int, work: Callable[[int], None]) -> None:
    """Calls `work` with the number of each of some threads; none may raise."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
