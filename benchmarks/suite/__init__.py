"""The benchmarks. Importing this package enters them all into the table."""

from benchmarks.suite import gradients, matmul, overhead, startup

__all__ = ["gradients", "matmul", "overhead", "startup"]
