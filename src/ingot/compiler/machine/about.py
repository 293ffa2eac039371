"""Descriptions of native programs, for profiles and for the errors of their instructions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ingot.compiler.machine.work import Work

__all__ = ["About"]


class About:
    """The name of a function, and the instructions of its program. `describe` returns them; for a
    program from disk, it compiles again. It must not refer to the native program, which refers to
    this object and is not garbage collected.
    """

    def __init__(self, name: str, describe: Callable[[], list[Work]]) -> None:
        self.name = name
        self._describe = describe

    @cached_property
    def work(self) -> list[Work]:
        """The instructions, in order."""
        return self._describe()
