"""Loops and branches: ops that run programs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from ingot.graph.roles.host import Host

__all__ = ["Control"]


class Control(Host, role=True):
    """Runs the programs of traced functions: once, repeatedly, or one of several.

    Write `nested`, which compiles them. In the body of another loop it is then an instruction of
    that body's program, which native code runs; elsewhere it is a host step, for which compiled
    functions make the operands of loops contiguous.
    """

    is_loop: ClassVar[bool] = True

    @abstractmethod
    def nested(self) -> Any:
        """The op as an instruction, a `NestedProgram`; None if a program has host steps."""
