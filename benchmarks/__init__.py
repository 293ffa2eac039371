"""Benchmarks: how fast ingot is beside NumPy, MLX, JAX and PyTorch on this machine.

`python -m benchmarks` runs all of them, `python -m benchmarks matmul_float32` some, and
`python -m benchmarks --help` says the rest. To add one, write a function in a module of `suite`.
"""
