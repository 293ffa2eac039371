"""What is computed from reductions: mean, var, softmax, logsumexp, median."""

from __future__ import annotations

__all__: list[str] = []
