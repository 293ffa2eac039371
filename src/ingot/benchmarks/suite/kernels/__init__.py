"""What one compiled function costs: fused loops, reductions, products of matrices, convolutions."""

from ingot.benchmarks.suite.kernels import (
    convolution,
    kernels,
    matmul,
    quantized,
    random_numbers,
    reductions,
    variations,
)

__all__ = [
    "convolution",
    "kernels",
    "matmul",
    "quantized",
    "random_numbers",
    "reductions",
    "variations",
]
