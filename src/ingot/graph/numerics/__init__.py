"""How NumPy, BLAS and the C library compute what kernels do not."""
