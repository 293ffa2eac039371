"""Source lines of the user's program where arrays are made, for traces, errors and profiles.

Every node records the code object and the instruction of the user's frame that made it
(`_native/objects/user_line.c`), which `Node.origin` resolves to a `Source` on demand.
"""

from __future__ import annotations

import linecache
import os
import sys
from types import CodeType

from ingot import _native
from ingot.graph.lazy_dataclass import dataclass

__all__ = ["Source", "SourceRecorder", "depth_of_user"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
# Folders of the package whose files count as user code: the tour shows its own lines.
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
        """The file's name without its folder, and the line number."""
        return f"{self.filename.replace(chr(92), '/').rsplit('/', 1)[-1]}:{self.line}"

    @property
    def text(self) -> str:
        """The text of the line; empty if its file cannot be read."""
        return linecache.getline(self.filename, self.line).strip()

    @property
    def quoted(self) -> str:
        """The line for an error: `script.py:12: y = mx.take(x, i)`."""
        text = self.text
        return f"{self.short}: {text}" if text else f"{self.short} in {self.function}"


class SourceRecorder:
    """The lines of the nodes of a trace, each as one object: given an instruction of the innermost
    frame outside ingot, as a code object and an offset in bytes.
    """

    def __init__(self) -> None:
        # by the id of a code object, which the last part keeps alive: hashing one takes long
        self._known: dict[tuple[int, int], tuple[Source, CodeType]] = {}
        self._lines: dict[Source, Source] = {}

    def __call__(self, code: CodeType, instruction: int) -> Source:
        found = self._known.get((id(code), instruction))
        if found is None:
            source = _source_of(code, instruction)
            found = self._lines.setdefault(source, source), code
            self._known[id(code), instruction] = found
        return found[0]


def depth_of_user() -> int:
    """The `stacklevel` at which a warning issued by the caller points to the user's line."""
    level = 1
    frame = sys._getframe(1)
    while _native.is_own_code(frame.f_code) and frame.f_back is not None:
        frame = frame.f_back
        level += 1
    return level


def _source_of(code: CodeType, instruction: int) -> Source:
    """The line of an instruction, given as an offset in bytes."""
    line = code.co_firstlineno
    for begin, end, number in code.co_lines():
        if begin <= instruction < end:
            line = line if number is None else number
            break
    return Source(code.co_filename, line, code.co_qualname)


_native.set_package(_PACKAGE, _PROGRAMS)
_native.set_callbacks(source_of=_source_of)
