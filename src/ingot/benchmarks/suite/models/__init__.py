"""What a user waits for: gradients, training steps, searches, tokens."""

from ingot.benchmarks.suite.models import (
    decoding,
    gradients,
    images,
    recurrent,
    search,
    training,
)

__all__ = [
    "decoding",
    "gradients",
    "images",
    "recurrent",
    "search",
    "training",
]
