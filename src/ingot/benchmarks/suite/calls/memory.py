"""How much memory programs need while they run."""

from __future__ import annotations

import math

from ingot.benchmarks.benchmark import Contenders, Measure, benchmark
from ingot.benchmarks.suite.contenders import COMPILERS, Input, compilers
from ingot.benchmarks.suite.functions import gelu

LARGE = Input((32, 1000, 4096))
BYTES = 4 * math.prod(LARGE.shape)
MEGABYTE = 10**6


@benchmark(
    "peak memory of compiled gelu, 32 x 1000 x 4096, beyond the import",
    limits={"input+output+64 MB": 2 * BYTES + 64 * MEGABYTE},
    measure=Measure.PEAK_MEMORY,
)
def gelu_memory() -> Contenders:
    return compilers(gelu, LARGE, *COMPILERS)
