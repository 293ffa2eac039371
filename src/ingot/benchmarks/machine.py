"""A description of the machine, and how busy it was with other programs."""

from __future__ import annotations

import os
import platform
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from ingot import __version__

__all__ = ["BusyMeter", "busy_line", "describe", "lines", "use_cpus"]

PACKAGES = (
    "numpy scipy llvmlite ml_dtypes mlx mlx-cpu jax jaxlib torch faiss-cpu scikit-learn"
).split()
# Variables that change how many threads the libraries use.
VARIABLES = (
    "INGOT_NUM_THREADS INGOT_SPIN_MICROSECONDS INGOT_CACHE OMP_NUM_THREADS OPENBLAS_NUM_THREADS "
    "MKL_NUM_THREADS XLA_FLAGS"
).split()
# Other programs that use more of the CPUs than this make numbers doubtful.
BUSY = 0.1


def describe() -> dict[str, Any]:
    """The processor, how many CPUs there are and how busy, and the versions of what is compared."""
    return {
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "usable_cpus": len(_usable_cpus()),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load": [round(number, 2) for number in os.getloadavg()],
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "versions": {"ingot": __version__} | {name: _version(name) for name in PACKAGES},
    }


def lines(machine: dict[str, Any]) -> list[str]:
    """The description as the report begins with it."""
    versions = ", ".join(
        f"{name} {version or 'not installed'}" for name, version in machine["versions"].items()
    )
    memory = f"{machine['memory_bytes'] / 2**30:.0f} GiB"
    cpus = f"{machine['usable_cpus']} of {machine['cpus']} CPUs"
    described = [
        f"processor  {machine['processor']}, {cpus}, {memory}",
        f"system     {machine['system']}, {machine['python']}",
        f"versions   {versions}",
        f"load       {' '.join(map(str, machine['load']))} (1, 5, 15 minutes)",
    ]
    if machine["variables"]:
        variables = ", ".join(f"{key}={value}" for key, value in machine["variables"].items())
        described.append(f"variables  {variables}")
    return described


def use_cpus(count: int) -> None:
    """Lets this process and those it starts use that many CPUs only, so that every library starts
    as many threads by itself; 0 leaves all of them."""
    usable = sorted(_usable_cpus())
    if 0 < count < len(usable) and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, usable[:count])


class BusyMeter:
    """How much of the CPUs other programs use, seen in the pauses between rounds."""

    def __init__(self) -> None:
        self.busy = 0.0
        self.total = 0.0

    def pause(self, seconds: float) -> None:
        """Sleeps, and measures meanwhile how busy the CPUs are."""
        before = _cpu_times()
        time.sleep(seconds)
        after = _cpu_times()
        self.busy += after[0] - before[0]
        self.total += after[1] - before[1]

    @property
    def share(self) -> float | None:
        """The share from 0 (idle) to 1; None if the system does not report it."""
        return self.busy / self.total if self.total else None


def busy_line(share: float | None) -> str | None:
    """A warning if other programs disturbed the measurements."""
    if share is None or share < BUSY:
        return None
    return (
        f"The machine is busy: other programs used {share:.0%} of the CPUs between rounds. "
        "Trust ratios more than times, and neither to the last digit."
    )


def _cpu_times() -> tuple[float, float]:
    """Busy and all time of the usable CPUs so far."""
    try:
        text = Path("/proc/stat").read_text(encoding="ascii")
    except OSError:
        return 0.0, 0.0
    names = {f"cpu{number}" for number in _usable_cpus()}
    busy = total = 0.0
    for line in text.splitlines():
        name, *numbers = line.split()
        if name in names:
            # The columns: user, nice, system, idle, waiting for devices, interrupts (2), stolen.
            times = [float(number) for number in numbers[:8]]
            total += sum(times)
            busy += sum(times) - times[3] - times[4]
    return busy, total


def _processor() -> str:
    try:
        information = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "unknown"
    for line in information.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or "unknown"


def _usable_cpus() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
