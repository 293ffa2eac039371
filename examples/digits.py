"""scikit-learn's handwritten digits as arrays: 1,797 images of 8 by 8 pixels.

They come with scikit-learn, so nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterator

import ingot.core as mx

try:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
except ModuleNotFoundError as error:
    raise SystemExit(f"{error}. The examples need: pip install 'ingot-ml[examples]'") from None

__all__ = ["BATCH", "batches", "load"]

BATCH = 64


def load() -> tuple[mx.array, mx.array, mx.array, mx.array]:
    """Training images and labels, and a fifth of both held out for testing.

    Images are (N, 8, 8, 1), channels last as in MLX, with values from 0 to 1.
    """
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).reshape(-1, 8, 8, 1).astype("float32")
    parts = train_test_split(
        images, labels.astype("int32"), test_size=0.2, stratify=labels, random_state=0
    )
    train_x, test_x, train_y, test_y = map(mx.array, parts)
    return train_x, train_y, test_x, test_y


def batches(x: mx.array, y: mx.array, size: int = BATCH) -> Iterator[tuple[mx.array, mx.array]]:
    """One epoch: all examples in random order, `size` at a time.

    All batches have the same shape, so a compiled step is compiled once. The remainder, which
    differs between epochs, is dropped.
    """
    order = mx.random.permutation(len(x))
    for start in range(0, len(x) - size + 1, size):
        chosen = order[start : start + size]
        yield x[chosen], y[chosen]
