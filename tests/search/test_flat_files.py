"""Indexes in files: the same results, nothing lost, clear errors for what is damaged."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import ingot.core as mx
from ingot.search import FlatIndex


def vectors(count: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, d)).astype(np.float32)


@pytest.mark.parametrize("metric", ["l2", "inner_product", "cosine", "l1", "linf"])
@pytest.mark.parametrize("ids", [None, [5, -7, 5, 2**40]])
def test_the_same_results_after_loading(tmp_path: Path, metric: str, ids: list[int] | None) -> None:
    index = FlatIndex(6, metric)
    if ids is None:
        index.add(vectors(4, 6))
    else:
        index.add_with_ids(vectors(4, 6), ids)
    index.save(tmp_path / "vectors")
    loaded = FlatIndex.load(tmp_path / "vectors")
    assert repr(loaded) == repr(index)
    queries = vectors(3, 6, 1)
    for found, expected in zip(loaded.search(queries, 6), index.search(queries, 6), strict=True):
        np.testing.assert_array_equal(np.array(found), np.array(expected))
    loaded.remove_ids([5])
    assert (loaded.ntotal, index.ntotal) == (4 if ids is None else 2, 4)


def test_an_empty_index_and_open_files(tmp_path: Path) -> None:
    file = io.BytesIO()
    FlatIndex(3, "l1").save(file)
    file.seek(0)
    loaded = FlatIndex.load(file)
    assert repr(loaded) == "FlatIndex(d=3, metric_type='l1') with 0 vectors"
    loaded.add([[1, 2, 3]])
    assert loaded.ntotal == 1


def test_damaged_files_are_noticed(tmp_path: Path) -> None:
    index = FlatIndex(5)
    index.add(vectors(20, 5))
    path = tmp_path / "index.safetensors"
    index.save(path)
    good = path.read_bytes()
    for place in (0, 20, 150, len(good) // 2, len(good) - 3):
        bad = bytearray(good)
        bad[place] ^= 0x41
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=r"\[load\]"):
            FlatIndex.load(path)
    for length in (0, 7, 100, len(good) - 1):
        path.write_bytes(good[:length])
        with pytest.raises(ValueError, match=r"\[load\]"):
            FlatIndex.load(path)
    path.write_bytes(good)
    assert FlatIndex.load(path).ntotal == 20


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    mx.save_safetensors(path, {"vectors": mx.ones((2, 2))})
    with pytest.raises(ValueError, match="holds arrays, but no index that ingot saved"):
        FlatIndex.load(path)
    with pytest.raises(ValueError, match=r"\[load\] cannot open .*missing.safetensors"):
        FlatIndex.load(tmp_path / "missing")


def test_a_save_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = FlatIndex(5)
    index.add(vectors(20, 5))
    path = tmp_path / "index.safetensors"
    index.save(path)
    index.add(vectors(20, 5, 1))

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(OSError, match="No space left"):
        index.save(path)
    monkeypatch.undo()
    assert [file.name for file in tmp_path.iterdir()] == ["index.safetensors"]
    assert FlatIndex.load(path).ntotal == 20
