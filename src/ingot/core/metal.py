"""mlx.core.metal without Metal: the queries that programs make before they use it."""

from ingot.graph.boundary import check_functions as _check_functions
from ingot.runtime.memory import (
    clear_cache,
    get_active_memory,
    get_cache_memory,
    get_peak_memory,
    reset_peak_memory,
    set_cache_limit,
    set_memory_limit,
    set_wired_limit,
)

__all__ = [
    "clear_cache",
    "device_info",
    "get_active_memory",
    "get_cache_memory",
    "get_peak_memory",
    "is_available",
    "reset_peak_memory",
    "set_cache_limit",
    "set_memory_limit",
    "set_wired_limit",
    "start_capture",
    "stop_capture",
]


def is_available() -> bool:
    """Whether there is a Metal back end: no."""
    return False


def device_info() -> dict[str, str | int]:
    """Information about the Metal device, of which there is none."""
    return {}


def start_capture(path: str) -> None:
    """Do nothing, as MLX does without Metal: there is no GPU to capture."""


def stop_capture() -> None:
    """Do nothing, as MLX does without Metal: there is no GPU to capture."""


_check_functions(globals(), __all__)
