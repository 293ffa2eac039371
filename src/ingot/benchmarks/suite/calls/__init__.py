"""Overheads: start-up, first calls, calls, new shapes, threads, memory."""

from ingot.benchmarks.suite.calls import (
    first_call,
    memory,
    new_shapes,
    overhead,
    startup,
    threads,
)

__all__ = [
    "first_call",
    "memory",
    "new_shapes",
    "overhead",
    "startup",
    "threads",
]
