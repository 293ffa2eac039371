"""What a user waits for: gradients, training steps, searches, tokens."""

from ingot.benchmarks.suite.models import (
    decoding,
    gradients,
    recurrent,
    search,
    training,
)

__all__ = [
    "decoding",
    "gradients",
    "recurrent",
    "search",
    "training",
]
