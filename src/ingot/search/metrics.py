"""Distance metrics of all indexes, by faiss's names and numbers."""

from __future__ import annotations

from enum import Enum
from typing import Any

__all__ = [
    "METRIC_COSINE",
    "METRIC_INNER_PRODUCT",
    "METRIC_L1",
    "METRIC_L2",
    "METRIC_LINF",
    "MetricType",
    "as_metric",
]


class MetricType(Enum):
    """A metric. Smaller distances are nearer; larger similarities are."""

    L2 = "l2"  # the sum of squared differences, without a root, as in faiss
    INNER_PRODUCT = "inner_product"
    COSINE = "cosine"  # the inner product of vectors scaled to length 1; 0 if one of them is 0
    L1 = "l1"
    LINF = "linf"

    @property
    def is_similarity(self) -> bool:
        """Whether larger values are nearer."""
        return self in (MetricType.INNER_PRODUCT, MetricType.COSINE)


METRIC_L2 = MetricType.L2
METRIC_INNER_PRODUCT = MetricType.INNER_PRODUCT
METRIC_COSINE = MetricType.COSINE
METRIC_L1 = MetricType.L1
METRIC_LINF = MetricType.LINF

_NUMBERS_OF_FAISS = {
    0: MetricType.INNER_PRODUCT,
    1: MetricType.L2,
    2: MetricType.L1,
    3: MetricType.LINF,
}
_OTHER_NAMES = {"ip": "inner_product", "dot": "inner_product", "euclidean": "l2"}


def as_metric(name: str, value: Any) -> MetricType:
    """The metric that a user gave: a MetricType, its name, or faiss's number for it.

    Args:
        name: The prefix of error messages.
        value: What was given.
    """
    if isinstance(value, MetricType):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value in _NUMBERS_OF_FAISS:
        return _NUMBERS_OF_FAISS[value]
    if isinstance(value, str):
        text = value.lower().removeprefix("metric_")
        text = _OTHER_NAMES.get(text, text)
        for metric in MetricType:
            if metric.value == text:
                return metric
    names = ", ".join(repr(metric.value) for metric in MetricType)
    raise ValueError(f"[{name}] there is no metric {value!r}: use one of {names}, or a MetricType.")
