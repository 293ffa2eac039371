"""Benchmarks: ingot compared with NumPy, MLX, JAX, PyTorch and others on this machine.

`ingot bench` (or `python -m ingot.benchmarks`) runs all of them, `ingot bench matmul_float32` one,
and `ingot bench --help` lists the options. To add one, write a function in a module of `suite`.
"""
