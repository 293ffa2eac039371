"""mlx.core.distributed: communication between processes."""

from ingot.graph.boundary import check_functions as _check_functions
from ingot.graph.communication.groups import Group, init, is_available
from ingot.ops.distributed.collectives import (
    all_gather,
    all_max,
    all_min,
    all_sum,
    all_to_all,
    broadcast,
    sum_scatter,
)
from ingot.ops.distributed.messages import recv, recv_like, send

__all__ = [
    "Group",
    "all_gather",
    "all_max",
    "all_min",
    "all_sum",
    "all_to_all",
    "broadcast",
    "init",
    "is_available",
    "recv",
    "recv_like",
    "send",
    "sum_scatter",
]

_check_functions(globals(), __all__)
