"""Files of indexes of which one part was changed: refused when they are read, or searched rightly.

Changed files have the right checksum: what is tested is that everything a search relies on is
looked at, not that damage is noticed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
import ingot.search as search
from ingot._native import constant
from ingot.graph.dtype import from_numpy
from ingot.search.storage_files import _checksum, save_index

NUMBERS = np.random.default_rng(3)
TRAINING = NUMBERS.normal(size=(700, 4)).astype(np.float32)
ROWS = TRAINING[:60]
QUERIES = ROWS[:5] + np.float32(0.01)

INDEXES: dict[str, Callable[[], Any]] = {
    "FlatIndex": lambda: search.FlatIndex(4),
    "IVFFlatIndex": lambda: search.IVFFlatIndex(4, 3),
    "PQIndex": lambda: search.PQIndex(4, 2, 4),
    "IVFPQIndex": lambda: search.IVFPQIndex(4, 3, 2, 4),
    "ScalarQuantizerIndex": lambda: search.ScalarQuantizerIndex(4, "8bit"),
    "IVFScalarQuantizerIndex": lambda: search.IVFScalarQuantizerIndex(4, 3, "4bit"),
    "halves": lambda: search.ScalarQuantizerIndex(4, "fp16"),
}
KINDS = [(name, with_ids) for name in INDEXES for with_ids in (False, True)]


def filled(name: str, with_ids: bool) -> Any:
    index = INDEXES[name]()
    if hasattr(index, "train"):
        index.train(TRAINING, progress=False)
        index.nprobe = 3 if "IVF" in name else 1
    if with_ids:
        index.add_with_ids(ROWS, 100 + 7 * np.arange(len(ROWS)))
    else:
        index.add(ROWS)
    return index


def contents(index: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The settings and the arrays of the file of an index."""
    file = io.BytesIO()
    index.save(file)
    file.seek(0)
    arrays, metadata = mx.load(file, "safetensors", True)
    settings = json.loads(metadata["ingot.search"])["settings"]
    return settings, {name: np.array(value._data) for name, value in arrays.items()}


def written(kind: str, settings: Any, arrays: dict[str, np.ndarray]) -> io.BytesIO:
    file = io.BytesIO()
    made = {name: constant(x, from_numpy(x.dtype)) for name, x in arrays.items()}
    save_index(file, kind, settings, made)
    file.seek(0)
    return file


def outcome(kind: str, settings: Any, arrays: dict[str, np.ndarray]) -> str:
    """ "refused", or "searched" if the index of such a file can be used."""
    file = written(kind, settings, arrays)
    try:
        index = getattr(search, kind).load(file)
    except ValueError as error:
        text = str(error)
        assert text.startswith("[load] "), text
        assert text.endswith("."), text
        return "refused"
    distances, ids = index.search(QUERIES, 4)
    mx.eval(distances, ids)
    known = {int(number) for number in arrays["ids"]} if "ids" in arrays else range(index.ntotal)
    found = set(np.array(ids).ravel().tolist()) - {-1}
    assert found <= set(known)
    assert len(found) > 0 or index.ntotal == 0
    assert not np.isnan(np.array(distances)).any()
    if settings.get("state", {}).get("numbered", "ids" not in arrays):
        index.add(ROWS[:2])
    else:
        index.add_with_ids(ROWS[:2], [10**6, 10**6 + 1])
    index.remove_ids(list(found)[:1])
    index.search(QUERIES, 2)
    return "searched"


def _changed(x: np.ndarray, position: int, value: Any) -> np.ndarray:
    flat = x.copy().reshape(-1)
    flat[position] = value
    return flat.reshape(x.shape)


# Whatever the array is, this contradicts the others.
ALWAYS_WRONG: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "a row more": lambda x: np.concatenate([x, x[-1:]]),
    "a row less": lambda x: x[:-1],
    "no rows": lambda x: x[:0],
    "an axis more": lambda x: x[..., None],
    "an axis less": lambda x: x.reshape(-1) if x.ndim > 1 else x[:1].reshape(()),
    "another dtype": lambda x: x.astype(np.int32 if x.dtype == np.float32 else np.float32),
    "a wider dtype": lambda x: x.astype(np.uint64 if x.dtype.kind in "iu" else np.float64),
}
# This contradicts what numbers of this kind stand for.
WRONG_VALUES: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "NaN": ("f", lambda x: _changed(x, 3, np.nan)),
    "infinity": ("f", lambda x: _changed(x, 0, -np.inf)),
    "-1": ("i", lambda x: _changed(x, 1, -1)),
}
# This may be meant so.
OTHER_VALUES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "reversed": lambda x: x[::-1].copy(),
    "zeros": np.zeros_like,
    "ones": np.ones_like,
    "the least": lambda x: _changed(x, -1, _limits(x)[0]),
    "the most": lambda x: _changed(x, -1, _limits(x)[1]),
    "the most first": lambda x: _changed(x, 0, _limits(x)[1]),
}


def _limits(x: np.ndarray) -> tuple[Any, Any]:
    info: Any = np.iinfo(x.dtype) if x.dtype.kind in "iu" else np.finfo(np.float16)
    return info.min, info.max


def _class_of(name: str) -> str:
    return "ScalarQuantizerIndex" if name == "halves" else name


@pytest.mark.parametrize(("name", "with_ids"), KINDS)
def test_arrays(name: str, with_ids: bool) -> None:
    kind = _class_of(name)
    settings, arrays = contents(filled(name, with_ids))
    assert outcome(kind, settings, arrays) == "searched"
    for part, x in arrays.items():
        others = {other: value for other, value in arrays.items() if other != part}
        # An index without ids of its own is one whose vectors are numbered.
        if (kind, part) != ("FlatIndex", "ids"):
            assert outcome(kind, settings, others) == "refused", f"without {part}"
        for what, change in ALWAYS_WRONG.items():
            if kind == "FlatIndex" and not with_ids and "row" in what:
                continue  # there are other vectors then, that is all
            assert outcome(kind, settings, others | {part: change(x)}) == "refused", (part, what)
        for what, (dtypes, change) in WRONG_VALUES.items():
            if x.dtype.kind in dtypes:
                assert outcome(kind, settings, others | {part: change(x)}) == "refused", (
                    part,
                    what,
                )
        for change in OTHER_VALUES.values():
            outcome(kind, settings, others | {part: change(x)})
    assert outcome(kind, settings, arrays | {"more": ROWS}) == "refused"


HOSTILE = [
    None,
    -1,
    0,
    1,
    3,
    2**31,
    2**63,
    2**200,
    1.5,
    "x",
    "l2",
    True,
    [],
    {},
    [[]],
    float("nan"),
]


@pytest.mark.parametrize(("name", "with_ids"), KINDS)
def test_settings(name: str, with_ids: bool) -> None:
    kind = _class_of(name)
    settings, arrays = contents(filled(name, with_ids))
    places = [("",), *((key,) for key in settings)]
    places += [(key, inner) for key, x in settings.items() if isinstance(x, dict) for inner in x]
    for place in places:
        for value in HOSTILE:
            changed = json.loads(json.dumps(settings))
            target = changed if len(place) == 1 else changed[place[0]]
            target[place[-1]] = value
            outcome(kind, changed, arrays)
            del target[place[-1]]
            if place != ("",):
                assert outcome(kind, changed, arrays) == "refused", f"without {place}"


@pytest.mark.parametrize("place", ["d", "nlist", "M", "nbits", "qtype"])
def test_arguments_that_do_not_fit_the_arrays(place: str) -> None:
    other = {"d": 6, "nlist": 2, "M": 4, "nbits": 3, "qtype": "fp16"}[place]
    for name in INDEXES:
        settings, arrays = contents(filled(name, True))
        arguments = settings.get("arguments", settings)
        if place in arguments and arguments[place] != other:
            arguments[place] = other
            assert outcome(_class_of(name), settings, arrays) == "refused", name


@pytest.mark.parametrize(
    "header",
    ["", "[]", "{}", "null", "{" * 5000, '{"version": 1, "kind": "FlatIndex"}', '{"version": 1'],
)
def test_headers(header: str) -> None:
    arrays = {"vectors": mx.array(ROWS)}
    file = io.BytesIO()
    metadata = {"ingot.search": header, "checksum": _checksum(header, arrays)}
    mx.save_safetensors(file, arrays, metadata)
    file.seek(0)
    with pytest.raises(ValueError, match=r"^\[load\] .*\.$"):
        search.FlatIndex.load(file)
