"""Weights by name, as in files: the parameters they belong to, and whether they match."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ingot.core as mx
from ingot.graph.reporting.hints import nearest

__all__ = ["check_weights", "parameter_slots"]


def parameter_slots(
    container: Any, parameters: Any, prefix: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """The path of each parameter, the dict or list of the model that holds it, and its key there.

    Names are looked up among those of the model; names from a file never create anything.

    Args:
        container: The model, or a subtree of it.
        parameters: The tree of its parameters.
        prefix: What all paths begin with.
    """
    keys = parameters if isinstance(parameters, dict) else range(len(parameters))
    for key in keys:
        subtree = parameters[key]
        if isinstance(subtree, mx.array):
            yield f"{prefix}{key}", container, key
        else:
            yield from parameter_slots(container[key], subtree, f"{prefix}{key}.")


def _parameters(names: list[str]) -> str:
    return "1 parameter" if len(names) == 1 else f"{len(names)} parameters"


def check_weights(weights: dict[str, Any], parameters: dict[str, mx.array]) -> None:
    """ValueError unless `weights` has arrays with the names and shapes of `parameters`."""
    unknown = sorted(set(weights) - set(parameters))
    if unknown:
        meant = nearest(unknown[0], parameters) or "."
        raise ValueError(
            f"[load_weights] received {_parameters(unknown)} not in the model: "
            f"{', '.join(unknown)}{meant}"
        )
    missing = sorted(set(parameters) - set(weights))
    if missing:
        raise ValueError(
            f"[load_weights] {_parameters(missing)} of the model not received: "
            f"{', '.join(missing)}. With strict=False, these keep their values."
        )
    for path, value in parameters.items():
        given = weights[path]
        if not isinstance(given, mx.array):
            raise ValueError(
                f"[load_weights] expected an array for {path}, got {type(given).__name__}."
            )
        if given.shape != value.shape:
            raise ValueError(
                f"[load_weights] expected shape {value.shape} for {path}, got {given.shape}."
            )
