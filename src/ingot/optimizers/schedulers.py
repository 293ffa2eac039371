"""Schedules: functions of the step that optimizers take in place of a number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import ingot.core as mx
from ingot.graph.boundary import check_function

__all__ = [
    "cosine_decay",
    "exponential_decay",
    "join_schedules",
    "linear_schedule",
    "step_decay",
]

Step = float | mx.array
Schedule = Callable[[Any], Any]  # of a step, an array or an int


def _check_steps(name: str, parameter: str, steps: int) -> None:
    if steps < 1:
        raise ValueError(f"[{name}] {parameter} must be at least 1, got {steps}.")


def exponential_decay(init: float, decay_rate: float) -> Schedule:
    """A number that is multiplied by `decay_rate` at each step.

    Args:
        init: The number at the first step.
        decay_rate: The factor.
    """

    def schedule(step: Step) -> Any:
        return init * decay_rate**step

    return check_function(schedule, "exponential_decay")


def step_decay(init: float, decay_rate: float, step_size: int) -> Schedule:
    """A number that is multiplied by `decay_rate` every `step_size` steps.

    Args:
        init: The number at the first steps.
        decay_rate: The factor.
        step_size: The number of steps between decays.
    """
    _check_steps("step_decay", "step_size", step_size)

    def schedule(step: Step) -> Any:
        return init * decay_rate ** (step // step_size)

    return check_function(schedule, "step_decay")


def cosine_decay(init: float, decay_steps: int, end: float = 0.0) -> Schedule:
    """A number that decays from one value to another along half a period of a cosine.

    Args:
        init: The number at the first step.
        decay_steps: The number of steps; afterwards the number is constant.
        end: The number at the end.
    """
    _check_steps("cosine_decay", "decay_steps", decay_steps)

    def schedule(step: Step) -> mx.array:
        angle = (math.pi / decay_steps) * mx.minimum(step, decay_steps)
        return end + 0.5 * (1.0 + mx.cos(angle)) * (init - end)

    return check_function(schedule, "cosine_decay")


def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """Several schedules in sequence.

    Args:
        schedules: The schedules. Each gets the number of steps since it began.
        boundaries: The steps at which the second and all later ones begin.
    """
    if len(schedules) == 0:
        raise ValueError("[join_schedules] needs at least one schedule.")
    if len(schedules) != len(boundaries) + 1:
        raise ValueError(
            f"[join_schedules] {len(schedules)} schedules need {len(schedules) - 1} boundaries, "
            f"got {len(boundaries)}."
        )

    def schedule(step: Step) -> Any:
        value = schedules[0](step)
        for boundary, later in zip(boundaries, schedules[1:], strict=True):
            value = mx.where(step < boundary, value, later(step - boundary))
        return value

    return check_function(schedule, "join_schedules")


def linear_schedule(init: float, end: float, steps: int) -> Schedule:
    """A number that changes linearly from one value to another.

    Args:
        init: The number at the first step.
        end: The number at the end.
        steps: The number of steps; afterwards the number is constant.
    """
    _check_steps("linear_schedule", "steps", steps)

    def schedule(step: Step) -> mx.array:
        return mx.minimum(step, steps) * ((end - init) / steps) + init

    return check_function(schedule, "linear_schedule")
