"""Kernels in a process: equal texts are compiled once, and kept while they are held."""

from __future__ import annotations

import gc

from tests.compiler.lower.nests_of_calls import nests_of, numbers

from ingot.compiler.llvm.nests import nest_module
from ingot.compiler.machine.kernels import load_kernels


def text_of(factor: float) -> str:
    (nest,) = nests_of(lambda x: x * factor - 1, numbers(40))
    return nest_module(nest)


def test_equal_texts_share_their_code() -> None:
    text = text_of(41)
    loaded = load_kernels([text, text_of(43), text])
    assert loaded.codes[0] is loaded.codes[2]
    assert loaded.codes[0] is not loaded.codes[1]
    again = load_kernels([text])
    assert again.codes[0] is loaded.codes[0]
    assert (again.compiled, again.from_disk) == (0, 0)


def test_unreferenced_code_is_loaded_from_disk() -> None:
    text = text_of(47)
    load_kernels([text])
    gc.collect()
    loaded = load_kernels([text])
    assert loaded.compiled == 0
    assert loaded.codes[0].address
