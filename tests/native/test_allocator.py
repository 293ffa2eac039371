"""The allocator: sizes and alignment, reuse, counters, limits, threads and forked processes."""

from __future__ import annotations

import ctypes
import mmap
import random
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from tests.support.processes import holds_in_child, run_in_threads

import ingot.core as mx
from ingot import _native
from ingot.runtime import memory

KIB = 1 << 10
MIB = 1 << 20


@pytest.fixture(autouse=True)
def restore_limits() -> Iterator[None]:
    memory.clear_cache()
    cache, limit = memory.set_cache_limit(1 << 32), memory.set_memory_limit(1 << 40)
    yield
    memory.set_cache_limit(cache)
    memory.set_memory_limit(limit)
    memory.clear_cache()


SIZES = [
    *(0, 1, 63, 64, 65, 1023, 1024, 1025, 1152, 1153, 4096, 32767, 32768, 32769, 33_000),
    *(64 * KIB, 256 * KIB - 1, 256 * KIB, 256 * KIB + 1, MIB, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1),
    *(9 * MIB, 33 * MIB + 5),
]


@pytest.mark.parametrize("size", SIZES)
def test_blocks_are_aligned_counted_and_writable_to_the_end(size: int) -> None:
    before = memory.get_active_memory()
    block = _native.Buffer(size)
    assert block.address % 64 == 0
    counted = memory.get_active_memory() - before
    assert counted >= max(size, 1)
    assert counted <= max(64, size * 1.125 + 64)
    view = memoryview(block)
    assert len(view) == size
    if size:
        view[0] = 1
        view[-1] = 2
    del view, block
    assert memory.get_active_memory() == before


def test_powers_of_two_are_not_rounded() -> None:
    before = memory.get_active_memory()
    blocks = [_native.Buffer(1 << power) for power in range(6, 25)]
    assert memory.get_active_memory() - before == sum(block.nbytes for block in blocks)


def test_blocks_do_not_overlap() -> None:
    blocks = [_native.Buffer(random.choice([1, 64, 100, 5000, 40_000, MIB])) for _ in range(500)]
    random.shuffle(blocks)
    del blocks[::2]
    blocks += [_native.Buffer(random.choice([1, 64, 100, 5000, 40_000, MIB])) for _ in range(500)]
    ranges = sorted((block.address, block.address + block.nbytes) for block in blocks)
    for (_, end), (begin, _) in pairwise(ranges):
        assert end <= begin


@pytest.mark.parametrize("size", [64, 5000, 100_000, 8 * MIB])
def test_memory_is_reused(size: int) -> None:
    block = _native.Buffer(size)
    address = block.address
    cached = memory.get_cache_memory()
    del block
    if size > 64 * 1024:  # smaller blocks share chunks, which count when all of a chunk is free
        assert memory.get_cache_memory() >= cached + size
    assert _native.Buffer(size).address == address


def test_a_slightly_larger_block_serves_a_request() -> None:
    block = _native.Buffer(11 * MIB)
    address = block.address
    del block
    smaller = _native.Buffer(10 * MIB)
    assert smaller.address == address
    assert _native.Buffer(5 * MIB).address != address


def test_cache_is_cleared() -> None:
    blocks = [_native.Buffer(size) for size in SIZES]
    del blocks
    assert memory.get_cache_memory() > 0
    memory.clear_cache()
    assert memory.get_cache_memory() == 0


def test_peak_follows_active_memory_and_is_reset_to_zero() -> None:
    keep = _native.Buffer(MIB)
    memory.reset_peak_memory()
    assert memory.get_peak_memory() == 0
    block = _native.Buffer(3 * MIB)
    active = memory.get_active_memory()
    del block
    _native.Buffer(64)
    assert memory.get_peak_memory() == active
    assert active >= keep.nbytes + 3 * MIB


def test_cache_limit_evicts_the_oldest() -> None:
    sizes = [4 * MIB, 8 * MIB, 16 * MIB]
    blocks = [_native.Buffer(size) for size in sizes]
    addresses = [block.address for block in blocks]
    while blocks:
        blocks.pop(0)
    assert memory.set_cache_limit(24 * MIB) == 1 << 32
    assert memory.get_cache_memory() == 24 * MIB
    assert _native.Buffer(16 * MIB).address == addresses[2]
    assert _native.Buffer(8 * MIB).address == addresses[1]


def test_without_cache_nothing_is_kept() -> None:
    memory.set_cache_limit(0)
    assert memory.get_cache_memory() == 0
    for size in SIZES:
        _native.Buffer(size)
        assert memory.get_cache_memory() == 0


def test_memory_limit_frees_the_cache_first_and_is_a_guideline() -> None:
    _native.Buffer(64 * MIB)
    assert memory.get_cache_memory() >= 64 * MIB
    assert memory.set_memory_limit(10) == 1 << 40
    block = _native.Buffer(5 * MIB)
    assert block.nbytes == 5 * MIB
    assert memory.get_cache_memory() == 0


@pytest.mark.parametrize("size", [1 << 46, 1 << 47, (1 << 47) + 1, (1 << 63) - 1, 1 << 70])
def test_what_the_machine_does_not_have_is_refused_with_the_sizes(size: int) -> None:
    before = memory.get_active_memory(), memory.get_cache_memory()
    with pytest.raises(
        MemoryError,
        match=r"^\[malloc\] cannot allocate [\d.]+ [TPE]B: .* are in use and this process may use",
    ):
        _native.Buffer(size)
    assert (memory.get_active_memory(), memory.get_cache_memory()) == before


def test_limits_refuse_what_is_no_number_of_bytes() -> None:
    for function in (memory.set_cache_limit, memory.set_memory_limit, memory.set_wired_limit):
        name = function.__name__
        with pytest.raises(TypeError, match=rf"^\[{name}\] the limit must not be negative, got -1"):
            function(-1)
        with pytest.raises(TypeError, match=rf"^\[{name}\] the limit must be a whole number of by"):
            function(1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must not be negative, got -3"):
        _native.set_cache_limit(-3)
    with pytest.raises(TypeError):
        _native.set_memory_limit("1")  # type: ignore[arg-type]


def test_a_limit_beyond_all_memory_is_allowed() -> None:
    memory.set_memory_limit(10**30)
    memory.set_cache_limit(10**30)
    assert memory.set_cache_limit(5) == 2**63 - 1


def test_nothing_is_wired() -> None:
    assert memory.set_wired_limit(1000) == 0
    assert memory.set_wired_limit(0) == 0


def mapping_of(address: int) -> tuple[str, set[str]]:
    """The range of addresses that the system knows an address in, and the flags of that range."""
    found = ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        begin, _, end = first.partition("-")
        if end:
            found = first if int(begin, 16) <= address < int(end, 16) else ""
        elif found and first == "VmFlags:":
            return found, set(rest)
    raise AssertionError(f"{address:#x} is not mapped")


def advice_is_told() -> bool:
    """Whether the system tells which mappings were advised to be huge pages; emulators do not."""
    with mmap.mmap(-1, 4 * MIB) as pages:
        pages.madvise(mmap.MADV_HUGEPAGE)
        return "hg" in mapping_of(ctypes.addressof(ctypes.c_char.from_buffer(pages)))[1]


def test_blocks_of_middling_size_share_huge_pages() -> None:
    if not advice_is_told():
        pytest.skip("the system does not tell about huge pages")
    before = [_native.Buffer(2 * MIB) for _ in range(4)]  # small processes do without
    blocks = [_native.Buffer(1536 * 576 * 2) for _ in range(20)]
    mappings = [mapping_of(block.address) for block in blocks]
    assert all("hg" in flags for _, flags in mappings)
    assert len({addresses for addresses, _ in mappings}) < len(blocks)
    del before


def test_memory_that_would_be_wasted_in_huge_pages_is_mapped_separately() -> None:
    blocks = [_native.Buffer(size) for size in [300 * KIB] * 60]  # 512 KiB in slots
    assert not any("hg" in mapping_of(block.address)[1] for block in blocks)


@pytest.fixture
def unpoisoned() -> Iterator[None]:
    before = _native.set_memory_poison(False)
    yield
    _native.set_memory_poison(before)


@pytest.mark.usefixtures("unpoisoned")
def test_shared_pages_are_returned_and_zero_when_taken_again() -> None:
    sizes = [256 * KIB * (1 + number % 15) for number in range(60)]
    kept = [_native.Buffer(256 * KIB) for _ in range(40)]  # so that regions stay
    for _ in range(3):
        blocks = [_native.Buffer(size) for size in sizes]
        ranges = sorted((each.address, size) for each, size in zip(blocks, sizes, strict=True))
        assert all(first + size <= second for (first, size), (second, _) in pairwise(ranges))
        for block in blocks:
            view = memoryview(block)
            assert view[0] == view[len(view) // 2] == view[-1] == 0
            view[0] = view[len(view) // 2] = view[-1] = 1
            view.release()
        del blocks, block
        memory.clear_cache()
    del kept


def test_threads_share_the_allocator() -> None:
    before = memory.get_active_memory()

    def work(number: int) -> None:
        mine = random.Random(number)
        held: list[memoryview] = []
        for step in range(600):
            size = mine.choice([1, 64, 200, 3000, 20_000, 50_000, 300_000])
            view = memoryview(_native.Buffer(size))
            view[0] = view[-1] = number
            held.append(view)
            if len(held) > 20:
                old = held.pop(mine.randrange(len(held)))
                assert old[0] == number
                assert old[-1] == number
            if step % 200 == 199:
                memory.clear_cache()

    run_in_threads(4, work)
    assert memory.get_active_memory() == before


def test_a_forked_process_allocates_while_others_were_allocating() -> None:
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            _native.Buffer(100_000)
            memory.clear_cache()

    others = [threading.Thread(target=churn) for _ in range(2)]
    for other in others:
        other.start()
    try:
        for _ in range(10):
            assert holds_in_child(lambda: memoryview(_native.Buffer(MIB)).nbytes == MIB)
    finally:
        stop.set()
        for other in others:
            other.join()


def write(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


CGROUP = "sys/fs/cgroup"
CGROUP_CASES = {
    "none": ({}, (None, None)),
    "version 2": (
        {
            "proc/self/cgroup": "0::/job\n",
            f"{CGROUP}/job/memory.max": "1073741824\n",
            f"{CGROUP}/job/cpu.max": "150000 100000\n",
        },
        (1 << 30, 2),
    ),
    "version 2 without limits": (
        {
            "proc/self/cgroup": "0::/job\n",
            f"{CGROUP}/job/memory.max": "max\n",
            f"{CGROUP}/job/cpu.max": "max 100000\n",
        },
        (None, None),
    ),
    "the ancestors' limits hold": (
        {
            "proc/self/cgroup": "0::/outer/inner\n",
            f"{CGROUP}/outer/memory.max": "1000000\n",
            f"{CGROUP}/outer/inner/memory.max": "2000000\n",
            f"{CGROUP}/outer/inner/cpu.max": "50000 100000\n",
            f"{CGROUP}/outer/cpu.max": "800000 100000\n",
        },
        (1_000_000, 1),
    ),
    "the path of the host, seen from a container": (
        {
            "proc/self/cgroup": "0::/docker/0123\n",
            f"{CGROUP}/memory.max": "3000000\n",
            f"{CGROUP}/cpu.max": "300000 100000\n",
        },
        (3_000_000, 3),
    ),
    "version 1": (
        {
            "proc/self/cgroup": "5:memory:/job\n3:cpu,cpuacct:/job\n1:cpuset:/\n",
            f"{CGROUP}/memory/job/memory.limit_in_bytes": "5000000\n",
            f"{CGROUP}/cpu,cpuacct/job/cpu.cfs_quota_us": "400000\n",
            f"{CGROUP}/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
        },
        (5_000_000, 4),
    ),
    "version 1 without limits": (
        {
            "proc/self/cgroup": "5:memory:/\n3:cpu:/\n",
            f"{CGROUP}/memory/memory.limit_in_bytes": "9223372036854771712\n",
            f"{CGROUP}/cpu/cpu.cfs_quota_us": "-1\n",
            f"{CGROUP}/cpu/cpu.cfs_period_us": "100000\n",
        },
        (None, None),
    ),
    "nonsense": (
        {
            "proc/self/cgroup": "nonsense\n0:\n\n0::/a\n",
            f"{CGROUP}/a/memory.max": "much\n",
            f"{CGROUP}/a/cpu.max": "fast\n",
        },
        (None, None),
    ),
}


@pytest.mark.parametrize("case", CGROUP_CASES)
def test_limits_of_control_groups_are_read(case: str, tmp_path: Path) -> None:
    files, expected = CGROUP_CASES[case]
    assert _native.cgroup_limits(write(tmp_path, files)) == expected


def test_the_memory_limit_can_be_read() -> None:
    before = mx.get_memory_limit()
    assert mx.set_memory_limit(10**9) == before
    try:
        assert mx.get_memory_limit() == 10**9
    finally:
        mx.set_memory_limit(before)


def test_buffers_of_arrays_count_once() -> None:
    x = mx.arange(1000) + 1
    with pytest.raises(ValueError, match=r"shape \(1000,\) has no buffer before it is evaluated"):
        mx.get_array_buffer_size(x)
    view = x[10:20]
    mx.eval(x, view)
    assert mx.get_array_buffer_size(view) == mx.get_array_buffer_size(x) >= 4000
    other = mx.ones((3,)) * 2
    mx.eval(other)
    both = mx.get_array_buffer_size(x, [{"a": view}, 5], other)
    assert both == mx.get_array_buffer_size(x) + mx.get_array_buffer_size(other)
