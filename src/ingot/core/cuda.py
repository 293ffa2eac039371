"""mlx.core.cuda without CUDA: the queries that programs make before they use it."""

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether there is a CUDA back end: no."""
    return False
