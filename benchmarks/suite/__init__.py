"""The benchmarks. Importing this package enters them all into the table."""

from benchmarks.suite import compiled, gradients, matmul, overhead, startup

__all__ = ["compiled", "gradients", "matmul", "overhead", "startup"]
