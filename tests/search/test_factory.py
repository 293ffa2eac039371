"""index_factory: which index a description makes, and what it says to those it cannot read."""

from __future__ import annotations

import pytest

from ingot.search import index_factory


@pytest.mark.parametrize(
    ("description", "shown"),
    [
        ("Flat", "FlatIndex(d=64, metric_type='l2')"),
        ("IVF256,Flat", "IVFFlatIndex(d=64, nlist=256, metric_type='l2')"),
        ("IVF256,PQ16", "IVFPQIndex(d=64, nlist=256, M=16, nbits=8, metric_type='l2')"),
        ("IVF256, PQ16x4", "IVFPQIndex(d=64, nlist=256, M=16, nbits=4, metric_type='l2')"),
        ("PQ16", "PQIndex(d=64, M=16, nbits=8, metric_type='l2')"),
        ("PQ16x4np", "PQIndex(d=64, M=16, nbits=4, metric_type='l2')"),
        ("SQ8", "ScalarQuantizerIndex(d=64, qtype='8bit', metric_type='l2')"),
        ("SQfp16", "ScalarQuantizerIndex(d=64, qtype='fp16', metric_type='l2')"),
        ("IVF8,SQ4", "IVFScalarQuantizerIndex(d=64, nlist=8, qtype='4bit', metric_type='l2')"),
    ],
)
def test_descriptions(description: str, shown: str) -> None:
    assert repr(index_factory(64, description)).startswith(shown)


def test_metrics() -> None:
    assert index_factory(8, "Flat", "l1").metric_type.value == "l1"
    assert index_factory(8, "IVF4,Flat", 0).metric_type.value == "inner_product"
    with pytest.raises(ValueError, match=r"FlatIndex knows all"):
        index_factory(8, "IVF4,Flat", "l1")


@pytest.mark.parametrize(
    "description", ["", "HNSW32", "IVF,Flat", "IVF8", "PQ", "IVF8,IVF8,Flat", "Flat,PQ8", "SQ7"]
)
def test_descriptions_that_mean_nothing(description: str) -> None:
    with pytest.raises(
        ValueError, match=r"\[index_factory\] does not understand .* It understands"
    ):
        index_factory(8, description)


def test_arguments() -> None:
    with pytest.raises(TypeError, match=r"\[index_factory\] d must be an int, got str"):
        index_factory("Flat", 8)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"description must be a string, got int"):
        index_factory(8, 8)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"cannot cut vectors of length 10 into M=4 equal subvectors"
    ):
        index_factory(10, "IVF8,PQ4")
