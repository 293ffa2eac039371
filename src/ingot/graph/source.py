"""Lines of the user's program: where arrays are made, for traces, explanations and profiles."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from types import CodeType, FrameType

__all__ = ["Source", "SourceRecorder"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Programs that use ingot, though they come with it: the tour shows its own lines.
_PROGRAMS = _PACKAGE + "cli" + os.sep


@dataclass(frozen=True)
class Source:
    """A line of the user's program."""

    filename: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.filename}:{self.line} in {self.function}"

    @property
    def short(self) -> str:
        """The file's name without its folder, and the line."""
        return f"{self.filename.replace(chr(92), '/').rsplit('/', 1)[-1]}:{self.line}"


class SourceRecorder:
    """Called for each new node: the user's line that is running, the innermost outside of ingot."""

    def __init__(self) -> None:
        self.sources: dict[tuple[CodeType, int], Source] = {}

    def __call__(self) -> Source | None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and _in_library(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            return None
        key = (frame.f_code, frame.f_lineno)
        found = self.sources.get(key)
        if found is None:
            found = Source(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)
            self.sources[key] = found
        return found


def _in_library(filename: str) -> bool:
    return filename.startswith(_PACKAGE) and not filename.startswith(_PROGRAMS)
