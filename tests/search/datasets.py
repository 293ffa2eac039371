"""Real vectors to search in: scanned digits, and embeddings of texts."""

from __future__ import annotations

import inspect
import re
from functools import cache

import numpy as np
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer

from ingot.search import topk_svd

__all__ = ["DATASETS", "dataset"]

DATASETS = ("digits", "texts")


@cache
def dataset(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Vectors to search in, and queries."""
    vectors = _digits() if name == "digits" else _texts()
    vectors = vectors[np.random.default_rng(0).permutation(len(vectors))]
    return vectors[200:], vectors[:200]


def _digits() -> np.ndarray:
    vectors: np.ndarray = load_digits().data.astype(np.float32)
    return vectors


def _texts() -> np.ndarray:
    """The paragraphs of NumPy's documentation: weighted counts of words, in 32 dimensions."""
    members = (getattr(np, name) for name in sorted(dir(np)) if not name.startswith("_"))
    texts = {inspect.getdoc(member) or "" for member in members if callable(member)}
    paragraphs = sorted({part for text in texts for part in re.split(r"\n\s*\n", text)})
    long = [part for part in paragraphs if len(part) > 80][:2000]
    words = TfidfVectorizer(min_df=3, dtype=np.float32).fit_transform(long).toarray()
    u, s, _ = topk_svd(words, 32, iters=3)
    vectors = np.array(u * s)
    return vectors[np.linalg.norm(vectors, axis=1) > 0.1]  # the rest has hardly a word in common
