"""Run by test_search.py as several ranks: sharded indexes against faiss and against one index."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from tests.distributed.checks import RANK, SIZE, run

import ingot.core as mx
from ingot import search

RNG = np.random.default_rng(3)  # the same numbers on all ranks
VECTORS = RNG.standard_normal((700, 16)).astype(np.float32)
QUERIES = RNG.standard_normal((9, 16)).astype(np.float32)


def folder() -> Path:
    """One that all ranks know, though only the first makes it."""
    name = tempfile.mkdtemp() if RANK == 0 else ""
    text = np.zeros(200, np.uint8)
    text[: len(name)] = np.frombuffer(name.encode(), np.uint8)
    return Path(bytes(mx.distributed.broadcast(mx.array(text)).tolist()).rstrip(b"\0").decode())


def like_faiss() -> None:
    for metric, peer in (("l2", faiss.IndexFlatL2(16)), ("inner_product", faiss.IndexFlatIP(16))):
        index = search.ShardedIndex(search.FlatIndex(16, metric))
        for part in (VECTORS[:301], VECTORS[301:]):
            peer.add(part)
            index.add(part)
        assert (index.ntotal, peer.ntotal) == (700, 700)
        assert index.index.ntotal <= 700 // SIZE + 1
        for k in (1, 10, 690):
            distances, ids = peer.search(QUERIES, k)
            found, numbers = index.search(QUERIES, k)
            assert (np.array(numbers) == ids).mean() > 0.99  # rounding may swap two
            np.testing.assert_allclose(np.array(found), distances, 1e-3, 1e-3)


def like_one_index() -> None:
    def check(one: Any, sharded: Any, **options: Any) -> None:
        for wanted, found in zip(
            one.search(QUERIES, 12, **options), sharded.search(QUERIES, 12, **options), strict=True
        ):
            np.testing.assert_array_equal(np.array(found), np.array(wanted))
        limits, distances, ids = map(np.array, one.range_search(QUERIES, 15.0, **options))
        order = np.lexsort((ids, np.repeat(np.arange(9), np.diff(limits))))
        found = [np.array(x) for x in sharded.range_search(QUERIES, 15.0, **options)]
        np.testing.assert_array_equal(found[0], limits)
        np.testing.assert_array_equal(found[1], distances[order])
        np.testing.assert_array_equal(found[2], ids[order])

    made = folder()
    for kind, arguments, options in (
        (search.FlatIndex, (16,), {}),
        (search.IVFFlatIndex, (16, 8), {"nprobe": 3}),
        (search.IVFPQIndex, (16, 8, 4), {"nprobe": 8}),
    ):
        one = kind(*arguments)
        sharded = search.ShardedIndex(kind(*arguments))
        if not one.is_trained:
            one.train(VECTORS)
            sharded.train(VECTORS)
        assert sharded.is_trained
        one.add(VECTORS)
        # Rank r brings the rows of its own share.
        sharded.add_shard(np.array_split(VECTORS, SIZE)[RANK])
        check(one, sharded, **options)
        np.testing.assert_array_equal(
            np.array(sharded.reconstruct(650)), np.array(one.reconstruct(650))
        )
        unwanted = [3, 77, 690, 5000]
        assert sharded.remove_ids(unwanted) == 3
        one_left = kind.__name__ == "FlatIndex"
        again = kind(*arguments)
        if one_left:
            rest = np.delete(np.arange(700), unwanted[:3])
            again.add_with_ids(VECTORS[rest], rest)
            check(again, sharded)
        sharded.save(made / kind.__name__)
        assert (made / f"{kind.__name__}.{RANK}-of-{SIZE}.safetensors").exists()
        loaded = search.ShardedIndex.load(kind, made / kind.__name__)
        check(sharded, loaded, **options)
        assert loaded.ntotal == 697


def few_vectors_and_mistakes() -> None:
    index = search.ShardedIndex(search.FlatIndex(16))
    index.add(VECTORS[:1])
    distances, ids = index.search(QUERIES, 3)
    assert np.array(ids).tolist() == [[0, -1, -1]] * 9
    assert np.isinf(np.array(distances)[:, 1:]).all()
    for call in (
        lambda: index.reconstruct(5),
        lambda: index.add_with_ids(VECTORS[:2], [1]),
        lambda: search.ShardedIndex(_filled()),
    ):
        try:
            call()
        except ValueError:
            continue
        raise AssertionError("nothing was refused")
    index.reset()
    assert index.ntotal == 0


def _filled() -> search.FlatIndex:
    made = search.FlatIndex(16)
    made.add(VECTORS[:1])
    return made


if __name__ == "__main__":
    run(like_faiss, like_one_index, few_vectors_and_mistakes)
