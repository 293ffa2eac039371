"""mlx.core.distributed: communication between processes."""

from ingot.ops.distributed import (
    Group,
    all_gather,
    all_max,
    all_min,
    all_sum,
    init,
    is_available,
    recv,
    recv_like,
    send,
    sum_scatter,
)

__all__ = [
    "Group",
    "all_gather",
    "all_max",
    "all_min",
    "all_sum",
    "init",
    "is_available",
    "recv",
    "recv_like",
    "send",
    "sum_scatter",
]
