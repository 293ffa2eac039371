"""What one compiled function costs: fused loops, reductions, products of matrices, convolutions,
attention."""

from ingot.benchmarks.suite.kernels import (
    attention,
    convolution,
    kernels,
    matmul,
    quantized,
    random_numbers,
    reductions,
    variations,
)

__all__ = [
    "attention",
    "convolution",
    "kernels",
    "matmul",
    "quantized",
    "random_numbers",
    "reductions",
    "variations",
]
