"""The processor's vector registers and instruction sets, for code generation.

`INGOT_VECTOR_BITS` caps the vector width, so that tests can run the code for another machine.
"""

from __future__ import annotations

import os
from functools import cache

__all__ = [
    "cache_sizes",
    "datapath_bytes",
    "gathers_slowly",
    "machine",
    "processor_description",
    "processor_features",
    "stores_masked_slowly",
    "vector_bytes",
    "vector_registers",
]

CACHES = "/sys/devices/system/cpu/cpu0/cache"
UNKNOWN_CACHES = 1 << 15, 1 << 30
WIDTHS = (128, 256, 512)
ZEN_3_AND_4 = "25"  # AMD's family of processors; those of it that have AVX-512 are Zen 4


@cache
def processor_description() -> tuple[str, ...]:
    """What the system says about the first processor, line by line, without its current frequency;
    empty where it says nothing.
    """
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            first = b""
            while b"\n\n" not in first and (block := file.read(4096)):
                first += (
                    block  # the system writes what is read, which takes long for all processors
                )
    except OSError:
        return ()
    lines = first.partition(b"\n\n")[0].decode(errors="replace").splitlines()
    return tuple(x for x in lines if "MHz" not in x and "bogomips" not in x.lower())


@cache
def processor_features() -> frozenset[str]:
    """The processor's instruction sets by their Linux names, without those of vectors wider than
    the cap; empty where the system does not tell.
    """
    # An emulated processor may see the description of the one that emulates it.
    found = _entry("flags" if machine() == "x86_64" else "Features").split()
    cap = _cap()
    if cap < 512:
        found = [name for name in found if not name.startswith("avx512")]
    if cap < 256:
        found = [name for name in found if not name.startswith("avx")]
    return frozenset(found)


def machine() -> str:
    """The kind of the processor that this process runs on, as Linux names it."""
    return os.uname().machine


def _entry(name: str) -> str:
    """An entry of the processor's description; "" if there is none."""
    lines = (line.partition(":") for line in processor_description())
    return next((value.strip() for key, _, value in lines if key.strip() == name), "")


def _cap() -> int:
    text = os.environ.get("INGOT_VECTOR_BITS", "")
    if not text:
        return WIDTHS[-1]
    if text not in map(str, WIDTHS):
        allowed = ", ".join(map(str, WIDTHS))
        raise ValueError(f"INGOT_VECTOR_BITS must be one of {allowed}, got {text!r}.")
    return int(text)


@cache
def vector_bytes() -> int:
    """The width of vector registers in bytes."""
    features = processor_features()
    if "avx512f" in features and "avx512vl" in features:
        return 64
    return 32 if "avx2" in features else 16


@cache
def datapath_bytes() -> int:
    """The bytes of a vector that an arithmetic unit processes at once. Zen 4 splits vectors of 512
    bits, so that two of 256 bits take no longer.
    """
    is_zen_4 = (_entry("vendor_id"), _entry("cpu family")) == ("AuthenticAMD", ZEN_3_AND_4)
    return min(32, vector_bytes()) if is_zen_4 else vector_bytes()


@cache
def gathers_slowly() -> bool:
    """Whether loading the elements of a vector one by one is faster than its gather instruction, as
    on AMD's processors. Measured on Zen 4: chosen columns take 0.5 to 0.8 times as long, elements
    taken along rows 0.7 times.
    """
    return _entry("vendor_id") == "AuthenticAMD"


@cache
def stores_masked_slowly() -> bool:
    """Whether a vector of which some lanes are stored takes much longer than a whole one, as
    without the mask registers of AVX-512: AVX2's instruction for it takes 18 to 42 micro-operations
    on AMD's processors, and others store lane by lane.
    """
    return "avx512vl" not in processor_features()


@cache
def cache_sizes() -> tuple[int, int]:
    """The bytes of the cache next to a core and of the last one before memory; where the system
    does not tell, of the smallest and the largest there are.
    """
    units = {"K": 1 << 10, "M": 1 << 20}
    found: dict[int, int] = {}
    try:
        for folder in os.listdir(CACHES):
            if not folder.startswith("index"):
                continue
            level, kind, size = (_word(folder, name) for name in ("level", "type", "size"))
            if kind != "Instruction":
                found[int(level)] = int(size[:-1]) * units[size[-1]]
    except (OSError, ValueError, KeyError):
        return UNKNOWN_CACHES
    return (found[min(found)], found[max(found)]) if found else UNKNOWN_CACHES


def _word(folder: str, name: str) -> str:
    """A property of a cache. Files are opened by hand: importing pathlib takes 3 ms."""
    with open(f"{CACHES}/{folder}/{name}", "rb", buffering=0) as file:
        return file.read().decode().strip()


@cache
def vector_registers() -> int:
    """The number of vector registers."""
    return 32 if "avx512vl" in processor_features() or machine() == "aarch64" else 16
