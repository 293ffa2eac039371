"""What a user waits for: gradients, training steps, searches."""

from ingot.benchmarks.suite.models import (
    gradients,
    search,
    training,
)

__all__ = [
    "gradients",
    "search",
    "training",
]
