"""How long imports take, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial

from ingot.benchmarks.benchmark import Contenders, Measure, benchmark
from ingot.benchmarks.libraries import MODULES, load

IMPORT = """
from time import perf_counter
start = perf_counter()
import {module}
print(perf_counter() - start)
"""


def _import_time(library: str) -> Callable[[], float]:
    load(library)  # raises if it is not installed, and fills the file cache
    command = [sys.executable, "-c", IMPORT.format(module=MODULES[library])]

    def seconds() -> float:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the import failed: {done.stderr.strip().splitlines()[-1]}")
        return float(done.stdout)

    seconds()
    return seconds


@benchmark(
    "import of the library in a new process", targets={"numpy": 1.8}, measure=Measure.SELF_TIMED
)
def import_time() -> Contenders:
    libraries = ("ingot", "mlx", "numpy", "jax", "torch")
    return {library: partial(_import_time, library) for library in libraries}
