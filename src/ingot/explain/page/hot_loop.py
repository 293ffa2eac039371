"""Finds the loop in which a kernel's machine code probably spends its time."""

from __future__ import annotations

import re

__all__ = ["hot_loop"]

_LABEL = re.compile(r"^([.\w$]+):")
_JUMP = re.compile(
    r"^\s+(?:j\w+|b|b\.\w+|cbn?z\s+\w+,|tbn?z\s+\w+,\s*#\d+,)\s+([.\w$]+)\s*(?:[#/;].*)?$"
)
_VECTOR = re.compile(r"%[yz]mm|\b[vz]\d+\.\d*[bhsd]\b")


def hot_loop(assembly: str) -> str:
    """The innermost loop with the most instructions on vectors; with none of those, the longest;
    "" if nothing is repeated.
    """
    lines = assembly.splitlines()
    labels = {
        found[1]: number for number, line in enumerate(lines) if (found := _LABEL.match(line))
    }
    loops = [
        (labels[jump[1]], number)
        for number, line in enumerate(lines)
        if (jump := _JUMP.match(line)) and labels.get(jump[1], number) < number
    ]
    innermost = [
        (start, end)
        for start, end in loops
        if not any(
            start <= other <= last <= end for other, last in loops if (other, last) != (start, end)
        )
    ]
    if not innermost:
        return ""

    def weight(loop: tuple[int, int]) -> tuple[int, int]:
        body = lines[loop[0] : loop[1] + 1]
        return sum(bool(_VECTOR.search(line)) for line in body), len(body)

    start, end = max(innermost, key=weight)
    return "\n".join(lines[start : end + 1])
