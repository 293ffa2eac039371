"""Numerics outside compiled kernels: NumPy, BLAS and the C library."""
