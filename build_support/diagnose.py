"""Says in a sentence why a step of the set-up failed.

In: what pip or the compiler printed. Out: the cause and the way out, or None for a new one.
"""

from __future__ import annotations

import re

# The first pattern that is found decides, so the specific ones come first.
CAUSES: list[tuple[str, str]] = [
    (
        r"No space left on device",
        "The disk is full. Free some space: ingot and its test tools need about 1 GB.",
    ),
    (
        r"Permission denied|Read-only file system",
        "A file cannot be written. Check who owns this folder and its .venv.",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|SSLError",
        "The package index's certificate was not accepted. Behind a proxy that has its own, "
        "set PIP_CERT to that.",
    ),
    (
        r"Temporary failure in name resolution|Name or service not known|NewConnectionError"
        r"|Failed to establish a new connection|Network is unreachable|ConnectTimeout|ProxyError"
        r"|Read timed out|Connection refused",
        "The package index cannot be reached. Check the network and pip's settings "
        "(`pip config list`: index-url, proxy, cert), then run the same command again.",
    ),
    (
        r"ERROR: No matching distribution found for (?P<what>.+)",
        "The package index has no {what} for this Python and machine.",
    ),
    (
        r"fatal error: Python\.h",
        "Python's C headers are missing. On Debian or Ubuntu: sudo apt install python3-dev",
    ),
    (
        r"fatal error: (?P<what>\S+): No such file",
        "The C compiler does not find {what}. If it is a system header: sudo apt install libc6-dev",
    ),
    (
        r"(?P<what>\S+\.[ch]:\d+(:\d+)?: (fatal )?error: .+)",
        "The extension does not compile: {what}",
    ),
    (
        r"undefined reference to .+|ld returned \d+ exit status|undefined symbol: .+",
        "The extension compiles but does not link.",
    ),
    (
        r"ensurepip.+returned non-zero|ensurepip is not available",
        "Python cannot make virtual environments. "
        "On Debian or Ubuntu: sudo apt install python3-venv",
    ),
]


def diagnose(output: str) -> str | None:
    for pattern, sentence in CAUSES:
        if found := re.search(pattern, output):
            return sentence.format(**found.groupdict())
    return None


def unreachable_index(output: str) -> bool:
    """Whether pip failed for want of a package index, and not for a reason of ours."""
    cause = diagnose(output) or ""
    return cause.startswith(("The package index cannot", "The package index's certificate"))
