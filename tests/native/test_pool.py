"""The thread pool: pieces cover the loop once, whoever calls it from wherever."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
import threadpoolctl
from tests.support.processes import holds_in_child, run_in_threads

from ingot import _native
from ingot.runtime import threads


@pytest.fixture(autouse=True)
def restore_threads() -> Iterator[None]:
    before = threads.get_num_threads()
    yield
    threads.set_num_threads(before)


def pieces_of(count: int, grain: int, nested: bool = False) -> list[tuple[int, int, int]]:
    return sorted(_native.parallel_for_probe(count, grain, nested))


def assert_covers(pieces: list[tuple[int, int, int]], count: int, grain: int) -> None:
    """The pieces follow each other from 0 to `count` and none is smaller than `grain`."""
    assert pieces[0][0] == 0
    assert pieces[-1][1] == count
    for before, after in pairwise(pieces):
        assert before[1] == after[0]
    assert all(end - begin >= min(grain, count) for begin, end, _ in pieces)


@pytest.mark.parametrize("number", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [1, 2, 7, 100, 1001, 2**40 + 3, 2**62])
@pytest.mark.parametrize("grain", [1, 3, 1000, 2**40])
def test_chunks_cover_the_loop_once(number: int, count: int, grain: int) -> None:
    threads.set_num_threads(number)
    pieces = pieces_of(count, grain)
    assert_covers(pieces, count, grain)
    assert len(pieces) <= 4 * number
    if count // grain >= number:
        assert len(pieces) % number == 0  # as many for each thread
    assert all(0 <= thread < number for _, _, thread in pieces)


def test_a_loop_inside_a_loop_runs_on_its_own_thread() -> None:
    for number in (2, 3, 8):
        threads.set_num_threads(number)
        for count in (2, 7, 1001):
            pieces = pieces_of(count, 1, nested=True)
            assert_covers(pieces, count, 1)
            assert {inner for _, _, inner in pieces} == {1}


def test_chunks_do_not_depend_on_the_threads_that_ran_them() -> None:
    threads.set_num_threads(2)
    expected = [piece[:2] for piece in pieces_of(12_345, 10)]
    assert len(expected) == 8
    for _ in range(100):
        assert [piece[:2] for piece in pieces_of(12_345, 10)] == expected


def test_loops_that_need_no_threads() -> None:
    threads.set_num_threads(2)
    assert pieces_of(0, 1) == []
    assert pieces_of(-5, 1) == []
    assert pieces_of(10, 10) == [(0, 10, 0)]
    assert pieces_of(19, 10) == [(0, 19, 0)]
    assert len(pieces_of(20, 10)) == 2
    assert len(pieces_of(100, 0)) == len(pieces_of(100, -1)) == 8
    threads.set_num_threads(1)
    assert pieces_of(1000, 1) == [(0, 1000, 0)]


def test_several_threads_help() -> None:
    """Tried until a worker got a core; on a busy machine the caller may do all the work."""
    threads.set_num_threads(2)
    for _ in range(100_000):
        if {thread for _, _, thread in pieces_of(1000, 1)} == {0, 1}:
            return
    pytest.fail("a worker never took part")


def test_sleeping_workers_wake_up() -> None:
    threads.set_num_threads(3)
    for _ in range(20):
        assert_covers(pieces_of(1000, 1), 1000, 1)
        time.sleep(0.002)


def test_several_callers_at_once() -> None:
    threads.set_num_threads(3)

    def call(number: int) -> None:
        for i in range(300):
            count = 100 * number + i + 1
            assert_covers(pieces_of(count, 1, nested=i % 2 == 0), count, 1)
            if i % 50 == 0:
                _native.set_num_threads(2 + i // 50 % 3)

    run_in_threads(4, call)


def test_forked_processes_have_workers_of_their_own() -> None:
    threads.set_num_threads(3)
    assert_covers(pieces_of(1000, 1), 1000, 1)

    def check() -> bool:
        before = len(os.listdir("/proc/self/task"))  # one, or two where an emulator has its own
        for _ in range(50):
            assert_covers(pieces_of(1000, 1), 1000, 1)
        return len(os.listdir("/proc/self/task")) == before + 2

    for _ in range(5):
        assert holds_in_child(check)
    assert_covers(pieces_of(1000, 1), 1000, 1)


def test_forking_while_another_thread_is_in_a_loop() -> None:
    threads.set_num_threads(2)
    stop = threading.Event()

    def loop() -> None:
        while not stop.is_set():
            pieces_of(100_000, 1)

    other = threading.Thread(target=loop)
    other.start()
    try:
        for _ in range(10):
            assert holds_in_child(lambda: len(pieces_of(1000, 1)) == 8)
    finally:
        stop.set()
        other.join()


def test_signals_are_left_to_the_main_thread() -> None:
    threads.set_num_threads(3)
    received: list[str] = []
    before = signal.signal(
        signal.SIGUSR1, lambda *_: received.append(threading.current_thread().name)
    )
    try:
        pieces_of(1000, 1)
        os.kill(os.getpid(), signal.SIGUSR1)
        deadline = time.monotonic() + 30
        while not received and time.monotonic() < deadline:
            pieces_of(1000, 1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert received == [threading.main_thread().name]


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "always", "-c", code]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=120
    )


SHOW = "from ingot import _native; print(_native.get_num_threads())"


def test_the_number_comes_from_the_environment() -> None:
    assert run(SHOW, INGOT_NUM_THREADS="7").stdout == "7\n"


@pytest.mark.parametrize("wrong", ["0", "-1", "many", "2.5", "1025", "2 threads"])
def test_a_wrong_environment_is_said_aloud(wrong: str) -> None:
    result = run(SHOW, INGOT_NUM_THREADS=wrong)
    assert (
        f"RuntimeWarning: INGOT_NUM_THREADS must be a whole number from 1 to 1024, got '{wrong}'"
        in result.stderr
    )
    assert int(result.stdout) <= len(os.sched_getaffinity(0))


def test_by_default_there_are_as_many_threads_as_cores_allowed() -> None:
    core = min(os.sched_getaffinity(0))
    bind = f"import os; os.sched_setaffinity(0, {{{core}}}); "
    assert run(bind + SHOW, INGOT_NUM_THREADS="").stdout == "1\n"


@pytest.mark.parametrize("spin", ["0", "1", "500"])
def test_processes_end_cleanly_whatever_workers_do(spin: str) -> None:
    code = "from ingot import _native as n; n.set_num_threads(4); n.parallel_for_probe(100, 1)"
    result = run(code, INGOT_SPIN_MICROSECONDS=spin)
    assert (result.returncode, result.stderr) == (0, "")


def test_processes_end_while_a_daemon_thread_loops() -> None:
    code = """
import threading
from ingot import _native
_native.set_num_threads(3)
def loop():
    while True:
        _native.parallel_for_probe(1000, 1)
threading.Thread(target=loop, daemon=True).start()
_native.parallel_for_probe(1000, 1)
"""
    assert run(code).returncode == 0


@pytest.mark.parametrize("wrong", [0, -3, 1025, 10**30])
def test_numbers_out_of_range(wrong: int) -> None:
    with pytest.raises(
        ValueError,
        match=rf"^\[set_num_threads\] the number of threads must be from 1 to 1024, got {wrong}\.$",
    ):
        threads.set_num_threads(wrong)


@pytest.mark.parametrize("wrong", [1.5, "2", None])
def test_what_is_no_number(wrong: object) -> None:
    with pytest.raises(
        TypeError,
        match=r"^\[set_num_threads\] the number of threads must be a whole number, got ",
    ):
        threads.set_num_threads(wrong)  # type: ignore[arg-type]


def blas_threads() -> set[int]:
    libraries = threadpoolctl.threadpool_info()  # with those of OpenMP that other tests load
    return {each["num_threads"] for each in libraries if each["user_api"] == "blas"}


def test_blas_follows() -> None:
    threads.set_num_threads(1)
    assert blas_threads() == {1}
    threads.set_num_threads(2)
    assert blas_threads() == {2}


def test_blas_that_is_loaded_later_follows_too() -> None:
    code = """
from ingot.runtime import threads
threads.set_num_threads(1)
import numpy, scipy.linalg
threads.limit_blas_threads()
import threadpoolctl
print({library["num_threads"] for library in threadpoolctl.threadpool_info()})
"""
    assert run(code).stdout == "{1}\n", run(code).stderr


def test_the_address_can_be_called_from_generated_code() -> None:
    body_type = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int
    )
    function = ctypes.CFUNCTYPE(None, body_type, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
        _native.parallel_for_address
    )
    threads.set_num_threads(2)
    seen: list[tuple[int, int]] = []
    function(body_type(lambda _, begin, end, __: seen.append((begin, end))), None, 100, 1)
    seen.sort()
    assert seen[0][0] == 0
    assert seen[-1][1] == 100
    assert len(seen) == 8


CORES_OF_WORKERS = """
import os, time
from ingot import _native
from ingot.runtime import threads

def call_parked_workers():
    _native.parallel_for_probe(100, 1, False)  # makes workers
    time.sleep(0.1)
    _native.parallel_for_probe(100, 1, False)

def of_workers(cores):
    before = set(os.listdir("/proc/self/task"))
    os.sched_setaffinity(0, cores)
    threads.set_num_threads(threads.get_num_threads() + 1)
    call_parked_workers()
    new = set(os.listdir("/proc/self/task")) - before
    return [os.sched_getaffinity(int(thread)) for thread in new]

threads.set_num_threads(1)
cores = sorted(os.sched_getaffinity(0))[:2]
print(of_workers({cores[0]}) == [{cores[0]}])  # rather there than where it may not be
shared = of_workers(set(cores))
print({len(each) for each in shared} >= {1})  # BLAS may have made a thread, too
child = os.fork()  # whose workers are new ones
if child == 0:
    call_parked_workers()
    found = [os.sched_getaffinity(int(each)) for each in os.listdir("/proc/self/task")]
    os._exit(0 if sum(len(each) == 1 for each in found) >= 2 else 1)
print(os.waitpid(child, 0)[1] == 0)
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores whose threads can be told apart",
)
def test_workers_leave_the_core_of_the_caller_alone_and_stay_on_its_others() -> None:
    """A worker that wakes up on the caller's core would run before it."""
    assert run(CORES_OF_WORKERS).stdout.split() == ["True", "True", "True"]
