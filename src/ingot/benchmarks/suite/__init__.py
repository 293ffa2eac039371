"""The benchmarks. Importing this package enters them all into the table.

`contenders.py` and `functions.py` are what benchmarks are made of.
"""

from ingot.benchmarks.suite import calls, kernels, models

__all__ = ["calls", "kernels", "models"]
