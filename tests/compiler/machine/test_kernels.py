"""Kernels in a process: equal texts are compiled once, and kept while they are held."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest
from tests.compiler.lower.nests_of_calls import nests_of, numbers

import ingot.core as mx
from ingot.compiler.llvm.nests import nest_module
from ingot.compiler.machine import jit, kernels
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


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("INGOT_CACHE", "off")
    before = mx.get_num_threads()
    mx.set_num_threads(3)
    yield
    mx.set_num_threads(before)


def test_threads_compile_at_the_same_time(threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [text_of(factor) for factor in (51, 52, 53)]  # compiles them once
    together = threading.Barrier(3, timeout=60)
    made: dict[str, bytes] = {}

    def compile_object(text: str) -> bytes:
        together.wait()  # raises unless the others come too
        data = made[text] = jit.compile_object(text)
        return data

    monkeypatch.setattr(kernels, "compile_object", compile_object)
    loaded = load_kernels([*texts, texts[0]])
    assert loaded.compiled == 3
    assert loaded.codes[0] is loaded.codes[3]
    assert not [each for each in threading.enumerate() if each.name == "ingot: compiling"]
    assert made == {text: jit.compile_object(text) for text in made}


def test_an_error_of_any_thread_is_raised(threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [text_of(factor) for factor in (61, 62, 63)]

    def compile_object(text: str) -> bytes:
        if threading.current_thread() is threading.main_thread():
            return jit.compile_object(text)
        raise ValueError("broken on purpose")

    monkeypatch.setattr(kernels, "compile_object", compile_object)
    with pytest.raises(ValueError, match="on purpose"):
        load_kernels(texts)
    monkeypatch.setattr(kernels, "compile_object", jit.compile_object)
    assert all(code.address for code in load_kernels(texts).codes)
