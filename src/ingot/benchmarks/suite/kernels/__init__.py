"""What one compiled function costs: fused loops, reductions, products of matrices, convolutions,
attention."""

from ingot.benchmarks.suite.kernels import (
    attention,
    convolution,
    kernels,
    linear_algebra,
    matmul,
    quantized,
    random_numbers,
    reductions,
    scans,
    scatters,
    selection,
    variations,
)

__all__ = [
    "attention",
    "convolution",
    "kernels",
    "linear_algebra",
    "matmul",
    "quantized",
    "random_numbers",
    "reductions",
    "scans",
    "scatters",
    "selection",
    "variations",
]
