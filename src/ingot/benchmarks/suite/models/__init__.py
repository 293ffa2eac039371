"""Whole workloads: gradients, training steps, searches, tokens."""

from ingot.benchmarks.suite.models import (
    decoding,
    experts,
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
    "experts",
    "gradients",
    "growing_caches",
    "images",
    "language_models",
    "loops",
    "recurrent",
    "search",
    "training",
]
