"""The other libraries in the tour's race, each in a process of its own.

`python -m ingot.cli.tour_peers LIBRARY LENGTH SECONDS` runs gelu on that many float32 numbers for
about that long and prints the best time of a call as JSON. A library that is broken, slow or
missing can therefore not disturb the tour.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["PEERS", "Outcome", "is_installed", "race"]

# What the race calls them, and the module that tells whether they are there. If time runs out it
# does so for the last ones.
PEERS = {
    "MLX, compiled": "mlx",
    "JAX, jit": "jax",
    "PyTorch, eager": "torch",
    "NumPy and SciPy": "scipy",
}

# Milliseconds, or why there are none.
Outcome = float | str


def is_installed(peer: str) -> bool:
    return importlib.util.find_spec(PEERS[peer]) is not None


def race(peer: str, length: int, seconds: float, limit: float) -> Outcome:
    """The best time of a call by a peer, in a new process that is ended after `limit` seconds."""
    command = [sys.executable, "-m", __spec__.name, PEERS[peer], str(length), str(seconds)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"was not done within {limit:.0f} s"
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return f"failed: {last[0]}"
    return float(json.loads(done.stdout.splitlines()[-1]))


def _numpy_gelu(x: np.ndarray) -> Callable[[], Any]:
    erf = importlib.import_module("scipy.special").erf

    def call() -> np.ndarray:
        return x * (1 + erf(x / np.float32(math.sqrt(2)))) / 2

    return call


def _jax_gelu(x: np.ndarray) -> Callable[[], Any]:
    jax: Any = importlib.import_module("jax")
    on_device = jax.device_put(x)
    compiled = jax.jit(lambda x: x * (1 + jax.scipy.special.erf(x / math.sqrt(2))) / 2)
    return lambda: compiled(on_device).block_until_ready()


def _torch_gelu(x: np.ndarray) -> Callable[[], Any]:
    torch: Any = importlib.import_module("torch")
    tensor = torch.from_numpy(x)
    return lambda: tensor * (1 + torch.erf(tensor / math.sqrt(2))) / 2


def _mlx_gelu(x: np.ndarray) -> Callable[[], Any]:
    mlx: Any = importlib.import_module("mlx.core")
    mlx.set_default_device(mlx.cpu)
    values = mlx.array(x)
    compiled = mlx.compile(lambda x: x * (1 + mlx.erf(x / math.sqrt(2))) / 2)

    def call() -> Any:
        result = compiled(values)
        mlx.eval(result)
        return result

    return call


_SETUPS = {"scipy": _numpy_gelu, "jax": _jax_gelu, "torch": _torch_gelu, "mlx": _mlx_gelu}


def _measure(library: str, length: int, seconds: float) -> float:
    x = np.random.default_rng(0).standard_normal(length, dtype=np.float32)
    call = _SETUPS[library](x)
    found = np.asarray(call())[:100]  # the first call compiles and starts threads
    expected = [value * (1 + math.erf(value / math.sqrt(2))) / 2 for value in x[:100].tolist()]
    if not np.allclose(found, expected, rtol=1e-3, atol=1e-5):
        raise ArithmeticError(f"the gelu of {library} is another function")
    best = math.inf
    end = time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        if time.perf_counter() >= end:
            return 1000 * best


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
