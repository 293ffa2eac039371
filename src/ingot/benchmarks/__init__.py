"""Benchmarks: how fast ingot is beside NumPy, MLX, JAX, PyTorch and others on this machine.

`ingot bench` (or `python -m ingot.benchmarks`) runs all of them, `ingot bench matmul_float32` some,
and `ingot bench --help` says the rest. To add one, write a function in a module of `suite`.
"""
