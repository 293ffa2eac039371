"""What a user waits for: gradients, training steps, searches, tokens."""

from ingot.benchmarks.suite.models import (
    decoding,
    gradients,
    growing_caches,
    images,
    language_models,
    loops,
    recurrent,
    search,
    training,
)

__all__ = [
    "decoding",
    "gradients",
    "growing_caches",
    "images",
    "language_models",
    "loops",
    "recurrent",
    "search",
    "training",
]
