"""The output of ranks: whole lines, marked with their rank, and which rank ended the others."""

from __future__ import annotations

import codecs
import os
import re
import signal
import socket
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BEGIN", "END", "LOCAL", "Output"]

LOCAL = ("127.0.0.1", "localhost", "::1")

# Around the rank at the beginning of each chunk of output.
BEGIN, END = "\x1e", "\x1f"

# What MPICH's launcher prints of its own when a rank fails; `Output.summary` says it in one line.
_BANNER = re.compile(
    r"^(=+|=   .*|YOUR APPLICATION TERMINATED.*|This typically refers.*|Please see the FAQ.*"
    r"|Abort\(\d+\) on node .*|\[proxy:.*|\[mpiexec@.*)$"
)
_CODES = re.compile(r"^\[mpiexec@[^\]]*\] Exit codes: (.*)$")


class Output:
    """Passes the output of the ranks on by whole lines, and notes what the launcher says of their
    ends.
    """

    def __init__(self, hosts: list[str], raw: bool) -> None:
        self.hosts = hosts
        self.raw = raw
        self.codes: list[int] = []

    def forward(self, source: int, to: IO[str]) -> None:
        """Reads a pipe until it ends. MPICH's launcher marks each chunk with its rank, wherever in
        a line the chunk begins.
        """
        begun: dict[str, str] = {}  # lines without an end, by rank; "" is the launcher itself
        left, rank = "", ""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while chunk := os.read(source, 1 << 16):
            text = left + decoder.decode(chunk)
            complete = text.rfind(BEGIN) if END not in text[text.rfind(BEGIN) :] else -1
            text, left = (text[:complete], text[complete:]) if complete >= 0 else (text, "")
            for source_rank, part in _chunks(text, rank):
                rank = source_rank
                *lines, begun[rank] = re.split(r"(?<=[\n\r])", begun.get(rank, "") + part)
                self.write(rank, lines, to)
        for rank, rest in begun.items():
            self.write(rank, [rest + "\n"] if rest else [], to)

    def write(self, rank: str, lines: list[str], to: IO[str]) -> None:
        """Lines of one rank, each written at once."""
        tag = f"[{rank}] " if rank and not self.raw else ""
        for line in lines:
            if not self.is_own(rank, line.rstrip("\r\n")):
                to.write(tag + line)
        to.flush()

    def is_own(self, rank: str, line: str) -> bool:
        """Whether a line is the launcher's own, or MPI's at the end of a rank."""
        found = _CODES.match(line)
        if found:
            lists = re.findall(r"\] ([\d,]+)", found[1])
            self.codes = [int(code) for codes in lists for code in codes.split(",")]
        return bool(_BANNER.match(line)) or not (rank or line)

    def summary(self) -> str | None:
        """Which ranks failed; None if none did, or the launcher does not tell."""
        lines = []
        for rank, status in enumerate(self.codes):
            code = os.waitstatus_to_exitcode(status)
            end = f"was ended by {_signal_name(-code)}" if code < 0 else f"ended with status {code}"
            host = socket.gethostname() if self.hosts[rank] in LOCAL else self.hosts[rank]
            if code:
                lines.append(f"ingot launch: rank {rank} on {host} {end}, which ends all ranks.")
        return "\n".join(lines) or None


def _chunks(text: str, rank: str) -> Iterator[tuple[str, str]]:
    """The chunks of a text and the rank that each is from; `rank` is that of an unmarked beginning.

    Every line of a rank has a mark, so what follows the end of a line without one is the
    launcher's own.
    """
    first, *marked = text.split(BEGIN)
    for chunk in (rank + END + first, *marked):
        rank, _, part = chunk.partition(END)
        line, end, own = part.partition("\n")
        yield rank, line + end
        if end:
            yield "", own


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
