"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import ingot

__all__ = ["describe", "lines"]

PACKAGES = ("numpy scipy llvmlite ml_dtypes mlx mlx-cpu jax jaxlib torch").split()
# Variables that change how many threads the libraries use.
VARIABLES = (
    "INGOT_NUM_THREADS OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS XLA_FLAGS"
).split()


def describe() -> dict[str, Any]:
    """The processor, how many CPUs there are and how busy, and the versions of what is compared."""
    return {
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "usable_cpus": _usable_cpus(),
        "load": [round(number, 2) for number in os.getloadavg()],
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "versions": {"ingot": ingot.__version__} | {name: _version(name) for name in PACKAGES},
    }


def lines(machine: dict[str, Any]) -> list[str]:
    """The description as the report begins with it."""
    versions = ", ".join(
        f"{name} {version or 'not installed'}" for name, version in machine["versions"].items()
    )
    described = [
        f"processor  {machine['processor']}, {machine['usable_cpus']} of {machine['cpus']} CPUs",
        f"system     {machine['system']}, {machine['python']}",
        f"versions   {versions}",
        f"load       {' '.join(map(str, machine['load']))} (1, 5, 15 minutes)",
    ]
    if machine["variables"]:
        variables = ", ".join(f"{key}={value}" for key, value in machine["variables"].items())
        described.append(f"variables  {variables}")
    if machine["load"][0] > 0.3 * machine["usable_cpus"]:
        described.append("The machine is busy: these numbers are worth little.")
    return described


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


def _usable_cpus() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
