"""`index_factory`: an index from a description such as "IVF256,PQ16", as in faiss."""

from __future__ import annotations

import re
from typing import Any

from ingot.graph.errors import type_name
from ingot.search.flat import FlatIndex
from ingot.search.inverted.index import (
    IVFFlatIndex,
    IVFPQIndex,
    IVFScalarQuantizerIndex,
    PQIndex,
    ScalarQuantizerIndex,
)
from ingot.search.metrics import MetricType
from ingot.search.top_k import as_count

__all__ = ["index_factory"]

_UNDERSTOOD = (
    '"Flat", "PQ16", "PQ16x4" (4 bits a subvector), "SQ8", "SQ4", "SQfp16", and each of them '
    'behind "IVF256," (256 inverted lists), such as "IVF256,PQ16"'
)
_QTYPES = {"8": "8bit", "4": "4bit", "fp16": "fp16"}

Index = (
    FlatIndex | IVFFlatIndex | IVFPQIndex | IVFScalarQuantizerIndex | PQIndex | ScalarQuantizerIndex
)


def index_factory(
    d: int, description: str, metric: MetricType | str | int = MetricType.L2
) -> Index:
    """The index that a description names.

    Args:
        d: The length of vectors.
        description: "Flat" (vectors as they are), "PQ16" (16 subvectors of 8 bits), "PQ16x4" (of 4
            bits), "SQ8", "SQ4" or "SQfp16" (8, 4 or 16 bits a component), or one of these for
            inverted lists: "IVF256,Flat", "IVF256,PQ16", "IVF256,SQ8" with 256 lists.
        metric: "l2", "inner_product", "cosine", a MetricType, or faiss's number; "Flat" also takes
            "l1" and "linf".
    """
    length = as_count("index_factory", "d", d)
    if not isinstance(description, str):
        raise TypeError(
            f"[index_factory] a description must be a string, got {type_name(description)}."
        )
    parts = description.replace(" ", "").split(",")
    lists: tuple[int, ...] = ()
    found = re.fullmatch(r"IVF(\d+)", parts[0])
    if found is not None:
        lists = (int(found[1]),)
        parts = parts[1:]
    codes = parts[0] if len(parts) == 1 else ""
    if codes == "Flat":
        return IVFFlatIndex(length, lists[0], metric) if lists else FlatIndex(length, metric)
    if (found := re.fullmatch(r"PQ(\d+)(?:x(\d+))?(?:np)?", codes)) is not None:
        numbers = (*lists, int(found[1]), int(found[2] or 8))
        kind: Any = IVFPQIndex if lists else PQIndex
        made: Index = kind(length, *numbers, metric)
        return made
    if (found := re.fullmatch(r"SQ(8|4|fp16)", codes)) is not None:
        kind = IVFScalarQuantizerIndex if lists else ScalarQuantizerIndex
        made = kind(length, *lists, _QTYPES[found[1]], metric)
        return made
    raise ValueError(
        f"[index_factory] does not understand {description!r}. It understands {_UNDERSTOOD}."
    )
