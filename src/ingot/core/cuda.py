"""mlx.core.cuda where there is no CUDA: what programs ask before they use it."""

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether there is a CUDA back end: no."""
    return False
