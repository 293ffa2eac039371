"""Modules of which each process of a group has a shard of all parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import ingot.core as mx
from ingot.nn.module import Module
from ingot.nn.shards import bounds_of, sharded
from ingot.nn.substitution import call_lent
from ingot.utils import tree_flatten, tree_unflatten

__all__ = ["FullyShardedModule", "fully_shard"]

Group = mx.distributed.Group


class _Gathering:
    """Gathers the whole parameters of a module from the shards of all processes, in one message.

    Shards differ by a row if a length is not a multiple of the number of processes, so messages
    are padded to the longest.
    """

    def __init__(self, shapes: list[tuple[int, ...]], group: Group, dtype: mx.Dtype | None) -> None:
        self.shapes = shapes
        self.group = group
        self.dtype = dtype
        self.bounds = [bounds_of(shape[0], group.size()) for shape in shapes]
        rows = [math.prod(shape[1:]) for shape in shapes]
        # The elements of each parameter, for each process.
        self.sizes = [
            [
                (bounds[number + 1] - bounds[number]) * row
                for bounds, row in zip(self.bounds, rows, strict=True)
            ]
            for number in range(group.size())
        ]
        self.length = max(map(sum, self.sizes))

    def message(self, parts: Sequence[mx.array], number: int) -> mx.array:
        """The parts of the parameters that process `number` has, in one row."""
        flat = [part.reshape(-1) for part in parts]
        padding = self.length - sum(self.sizes[number])
        if padding:
            flat.append(mx.zeros((padding,), flat[0].dtype))
        return mx.concatenate(flat)[None]

    def parts(self, row: mx.array, number: int) -> list[mx.array]:
        """The parts of the parameters in the row of process `number`."""
        ends = [sum(self.sizes[number][: end + 1]) for end in range(len(self.shapes))]
        flat = mx.split(row, ends, axis=0)[:-1]
        return [
            part.reshape(bounds[number + 1] - bounds[number], *shape[1:])
            for part, bounds, shape in zip(flat, self.bounds, self.shapes, strict=True)
        ]

    def whole(self, shards: list[mx.array]) -> list[mx.array]:
        """The parameters, from this process's shards."""
        dtype = self.dtype or shards[0].dtype
        cast = [shard.astype(dtype) for shard in shards]
        mine = self.message(cast, self.group.rank())
        rows = mx.distributed.all_gather(mine, group=self.group)
        parts = [self.parts(rows[number], number) for number in range(self.group.size())]
        return [mx.concatenate(list(shards)) for shards in zip(*parts, strict=True)]

    def shards(self, wholes: list[mx.array]) -> list[mx.array]:
        """This process's shards of the average of arrays like the parameters."""
        shards = [
            mx.split(whole, bounds[1:-1]) for whole, bounds in zip(wholes, self.bounds, strict=True)
        ]
        size = self.group.size()
        rows = [self.message([shard[number] for shard in shards], number) for number in range(size)]
        mine = mx.distributed.sum_scatter(mx.concatenate(rows), group=self.group)
        return self.parts(mine[0] / size, self.group.rank())

    def function(self) -> Callable[[list[mx.array]], list[mx.array]]:
        """`whole` as a function whose gradient is averaged over the processes."""

        @mx.custom_function
        def gather(shards: list[mx.array]) -> list[mx.array]:
            return self.whole(shards)

        @gather.vjp
        def averaged(shards: Any, cotangents: list[mx.array], outputs: Any) -> list[mx.array]:
            found = self.shards(cotangents)
            return [part.astype(shard.dtype) for part, shard in zip(found, shards, strict=True)]

        return averaged


def _own_parameters(module: Module, key: str, value: Any) -> bool:
    """Which parameters a wrapper of `module` shards: not those that an inner one does."""
    if isinstance(value, FullyShardedModule):
        return False
    return bool(Module.valid_parameter_filter(module, key, value))


class FullyShardedModule(Module):
    """A module of which each process of a group has a shard of the parameters.

    For each call, the parameters are gathered, and cast if `compute_dtype` is given. Gradients are
    averaged over the processes, each of which gets those of its shard.

    Args:
        module: The module.
        group: The group of processes, all by default.
        compute_dtype: The dtype of the parameters in calls; their own by default.
    """

    def __init__(
        self,
        module: Module,
        group: Group | None = None,
        compute_dtype: mx.Dtype | None = None,
    ) -> None:
        super().__init__()
        group = group or mx.distributed.init()
        tree = module.filter_and_map(_own_parameters)
        found = tree_flatten(tree)
        for path, parameter in found:
            if parameter.ndim == 0:
                raise ValueError(
                    f"[FullyShardedModule] parameter {path} is a scalar, which cannot be sharded."
                )
        object.__setattr__(self, "_paths", [path for path, _ in found])
        shapes = [parameter.shape for _, parameter in found]
        module.update(sharded(tree, lambda path, parameter: 0, group))
        self.module = module
        gathering = _Gathering(shapes, group, compute_dtype).function() if found else None
        object.__setattr__(self, "_gather", gathering)

    def _extra_repr(self) -> str:
        return f"num_sharded_params={len(self._paths)}"

    def _gathered(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function while the module has all of its parameters."""
        if self._gather is None:
            return function(*args, **kwargs)
        shards = [shard for _, shard in tree_flatten(self.module.filter_and_map(_own_parameters))]
        wholes = tree_unflatten(list(zip(self._paths, self._gather(shards), strict=True)))
        return call_lent(self.module, wholes, function, *args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._gathered(self.module, *args, **kwargs)

    def as_linear(self, *args: Any, **kwargs: Any) -> Any:
        """Calls `as_linear` of the module, for tables of vectors.

        Args:
            args: What the method takes.
            kwargs: What the method takes by name.
        """
        return self._gathered(self.module.as_linear, *args, **kwargs)


def fully_shard(
    module: Module,
    *,
    group: Group | None = None,
    compute_dtype: mx.Dtype | None = None,
) -> Module:
    """Shard a module's parameters over the processes of a group: with one process, the module
    itself.

    Args:
        module: The module.
        group: The group of processes, all by default.
        compute_dtype: The dtype of the parameters in calls, if there are several processes.
    """
    group = group or mx.distributed.init()
    if group.size() == 1 or isinstance(module, FullyShardedModule):
        return module
    wrapped = FullyShardedModule(module, group, compute_dtype)
    return wrapped if wrapped._paths else module
