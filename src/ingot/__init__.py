"""ingot runs array programs written against MLX's API on the CPU: `import ingot.core as mx`."""

__version__ = "0.1.0"
