"""The benchmarks. Importing this package enters them all into the table."""

from ingot.benchmarks.suite import (
    convolution,
    first_call,
    gradients,
    kernels,
    matmul,
    memory,
    new_shapes,
    overhead,
    random_numbers,
    reductions,
    search,
    startup,
    threads,
    training,
    variations,
)

__all__ = [
    "convolution",
    "first_call",
    "gradients",
    "kernels",
    "matmul",
    "memory",
    "new_shapes",
    "overhead",
    "random_numbers",
    "reductions",
    "search",
    "startup",
    "threads",
    "training",
    "variations",
]
