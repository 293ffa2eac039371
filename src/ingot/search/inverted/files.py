"""Files of indexes with codes: their contents, and consistency checks.

Input: an index of `index.py`, or its class and a file. Everything that a search relies on is
checked when a file is read, because native code reads lists and codes without bounds checks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot._native import array
from ingot.runtime.files.access import File
from ingot.search.inverted.lists import Lists
from ingot.search.storage_files import ArraySpec, IndexFile, load_index, save_index
from ingot.search.top_k import MAX_COUNT

__all__ = ["load_coded", "save_coded"]

_FLOATS, _INTS = np.dtype(np.float32), np.dtype(np.int64)
_LEARNT = "codec."  # prefix of the names of the codec's parameters


def save_coded(index: Any, file: File) -> None:
    """Save an index with codes."""
    state = {
        "nprobe": index.nprobe,
        "seed": index.seed,
        "next_id": index._next_id,
        "numbered": index._numbered,
    }
    contents = dict(index._lists.read()._asdict())
    if index._centroids is not None:
        contents["centroids"] = index._centroids
    contents |= {f"{_LEARNT}{name}": value for name, value in index._codec.arrays().items()}
    arrays = {name: array(value) for name, value in contents.items()}
    settings = {"arguments": index._settings(), "state": state}
    save_index(file, type(index).__name__, settings, arrays)


def load_coded(kind: Any, file: File) -> Any:
    """Load an index of the class `kind` from a file."""
    found = load_index(file, kind.__name__)
    arguments: Any = found.settings.get("arguments")
    _check_number_of_lists(found, arguments)
    index = found.make(kind, arguments)
    found.require(set(arguments) == set(index._settings()), "an argument is missing")
    found.check(_array_specs(index))
    state = found.settings.get("state")
    if not isinstance(state, dict) or not isinstance(state.get("numbered"), bool):
        found.refuse("its state cannot be read")
    index.nprobe = found.integer(state, "nprobe", 1, MAX_COUNT)
    index.seed = found.integer(state, "seed", 0)
    index._next_id = found.integer(state, "next_id", 0)
    index._numbered = state["numbered"]
    _check_lists(found, index)
    codes, ids, limits = (found.arrays[name] for name in Lists._fields)
    learnt = {n.removeprefix(_LEARNT): x for n, x in found.arrays.items() if n.startswith(_LEARNT)}
    wrong = index._codec.restore(learnt, codes)
    found.require(wrong is None, str(wrong))
    index._centroids = found.arrays.get("centroids")
    index._lists.replace(Lists(codes, ids, limits))
    return index


def _check_number_of_lists(found: IndexFile, arguments: Any) -> None:
    """Checked before the index is made, which allocates memory for each list."""
    count = arguments.get("nlist", 1) if isinstance(arguments, dict) else 1
    limits = found.arrays.get("limits")
    if limits is None:
        found.refuse("limits is missing")
    if type(count) is not int or limits.shape != (count + 1,):
        found.refuse(f"limits of shape {limits.shape} are not those of {count!r} lists")


def _array_specs(index: Any) -> dict[str, ArraySpec]:
    """The arrays in a file of such an index."""
    codec = index._codec
    specs = {
        "codes": ArraySpec(codec.code_dtype, ("codes", codec.code_size)),
        "ids": ArraySpec(_INTS, ("codes",)),
        "limits": ArraySpec(_INTS, (index.nlist + 1,)),
    }
    if index._has_centroids:
        specs["centroids"] = ArraySpec(_FLOATS, (index.nlist, index.d), trained=True)
    for name, shape in codec.shapes().items():
        specs[_LEARNT + name] = ArraySpec(_FLOATS, shape, trained=True)
    return specs


def _check_lists(found: IndexFile, index: Any) -> None:
    """FileError unless limits and ids are consistent with the lists and codes."""
    ids, limits = found.arrays["ids"], found.arrays["limits"]
    # Compared rather than subtracted: differences of malicious values wrap around.
    rising = limits[0] == 0 and limits[-1] == len(ids) and (limits[1:] >= limits[:-1]).all()
    found.require(bool(rising), f"limits do not rise from 0 to {len(ids)}, the number of codes")
    found.require(not (ids == -1).any(), "-1 is among the ids, and is none")
    if index._numbered and not index._has_centroids:
        in_order = np.array_equal(ids, np.arange(len(ids))) and index._next_id == len(ids)
        found.require(in_order, "ids should be positions, and are not")
    most = int(ids.max(initial=-1))
    found.require(index._next_id > most, f"next_id is {index._next_id}, and there is an id {most}")
