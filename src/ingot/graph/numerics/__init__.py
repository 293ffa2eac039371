"""Numerics outside of compiled kernels: NumPy, BLAS and the C library."""
