"""What the system reports about the processor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ingot.runtime import processor

ZEN_3 = "vendor_id : AuthenticAMD\ncpu family : 25\nflags : fma avx2 vaes\n"
ZEN_4 = "vendor_id : AuthenticAMD\ncpu family : 25\nflags : fma avx2 avx512f avx512vl\n"
ZEN_5 = "vendor_id : AuthenticAMD\ncpu family : 26\nflags : fma avx2 avx512f avx512vl\n"
XEON = "vendor_id : GenuineIntel\ncpu family : 6\nflags : fma avx2 avx512f avx512vl\n"
GRAVITON = "BogoMIPS : 243.75\nFeatures : fp asimd sve\n"
CACHED = (
    processor.processor_description,
    processor.processor_features,
    processor.vector_bytes,
    processor.vector_registers,
    processor.datapath_bytes,
    processor.gathers_slowly,
    processor.stores_masked_slowly,
)


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """What the caches hold belongs to the real processor."""
    for function in CACHED:
        function.cache_clear()
    yield
    for function in CACHED:
        function.cache_clear()


@pytest.mark.parametrize(
    ("text", "width", "registers", "datapath", "gathers_slowly", "stores_masked_slowly"),
    [
        (ZEN_3, 32, 16, 32, True, True),
        (ZEN_4, 64, 32, 32, True, False),
        (ZEN_5, 64, 32, 64, True, False),
        (XEON, 64, 32, 64, False, False),
        (GRAVITON, 16, 32, 16, False, True),
        ("", 16, 16, 16, False, True),
    ],
)
def test_processors(
    text: str,
    width: int,
    registers: int,
    datapath: int,
    gathers_slowly: bool,
    stores_masked_slowly: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("INGOT_VECTOR_BITS", raising=False)
    kind = "aarch64" if text == GRAVITON else "x86_64"
    monkeypatch.setattr(processor, "machine", lambda: kind)
    monkeypatch.setattr(processor, "processor_description", lambda: text.splitlines())
    assert processor.vector_bytes() == width
    assert processor.vector_registers() == registers
    assert processor.datapath_bytes() == datapath
    assert processor.gathers_slowly() == gathers_slowly
    assert processor.stores_masked_slowly() == stores_masked_slowly


def test_the_width_has_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "machine", lambda: "x86_64")
    monkeypatch.setattr(processor, "processor_description", ZEN_4.splitlines)
    monkeypatch.setenv("INGOT_VECTOR_BITS", "128")
    assert (processor.vector_bytes(), processor.datapath_bytes()) == (16, 16)
    assert processor.processor_features() == {"fma"}


def test_a_cap_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_VECTOR_BITS", "300")
    with pytest.raises(ValueError, match=r"INGOT_VECTOR_BITS must be one of 128, 256, 512"):
        processor.processor_features()


def test_an_emulated_processor_has_not_what_emulates_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processor, "machine", lambda: "aarch64")
    monkeypatch.setattr(processor, "processor_description", ZEN_4.splitlines)
    assert processor.processor_features() == set()
    assert processor.vector_bytes() == 16


def test_sizes_of_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "CACHES", str(tmp_path))
    processor.cache_sizes.cache_clear()
    assert processor.cache_sizes() == processor.UNKNOWN_CACHES
    caches = [("1", "Data", "48K"), ("1", "Instruction", "64K"), ("3", "Unified", "32M")]
    for number, values in enumerate(caches):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, value in zip(("level", "type", "size"), values, strict=True):
            (folder / name).write_text(f"{value}\n")
    processor.cache_sizes.cache_clear()
    assert processor.cache_sizes() == (48 << 10, 32 << 20)
    (tmp_path / "index2" / "size").write_text("large\n")
    processor.cache_sizes.cache_clear()
    assert processor.cache_sizes() == processor.UNKNOWN_CACHES
    processor.cache_sizes.cache_clear()
