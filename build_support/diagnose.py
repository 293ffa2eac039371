"""Explains in one sentence why a step of the set-up failed.

In: what pip or the compiler printed. Out: the cause and the way out, or None for a new one.
"""

from __future__ import annotations

import re

CHECK_NETWORK = (
    "Check the network and pip's settings (`pip config list`: index-url, proxy, cert), "
    "then run the same command again."
)
# The first pattern that is found decides, so the specific ones come first.
CAUSES: list[tuple[str, str]] = [
    (
        r"No space left on device",
        "The disk is full. Free some space: ingot and its test tools need about 1 GB.",
    ),
    (
        r"fatal error: Python\.h",
        "Python's C headers are missing. On Debian or Ubuntu: sudo apt install python3-dev",
    ),
    (
        r"fatal error: '?(?P<what>[^':]+)'?(:| file) (No such file|not found)",
        "The C compiler does not find {what}. "
        "If it is a system header, on Debian or Ubuntu: sudo apt install libc6-dev",
    ),
    (
        r"(?P<what>\S+\.[ch]:\d+(:\d+)?: (fatal )?error: .+)",
        "The extension does not compile: {what}",
    ),
    (
        r"undefined reference to (?P<what>.+)|undefined symbol: (?P<other>.+)",
        "The extension compiles, but nothing defines {what}.",
    ),
    (
        r"ld returned \d+ exit status|linker command failed",
        "The extension compiles but does not link.",
    ),
    (
        r"ensurepip.+returned non-zero|ensurepip is not available",
        "Python cannot make virtual environments. "
        "On Debian or Ubuntu: sudo apt install python3-venv",
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
        f"The package index cannot be reached. {CHECK_NETWORK}",
    ),
    (
        r"satisfies the requirement (?P<what>\S+) \(from versions: none\)",
        f"The package index has no {{what}} at all, or cannot be reached. {CHECK_NETWORK}",
    ),
    (
        r"ERROR: No matching distribution found for (?P<what>.+)",
        "The package index has no {what} for this Python and machine.",
    ),
]


def diagnose(output: str) -> str | None:
    for pattern, sentence in CAUSES:
        if found := re.search(pattern, output):
            named = {name: text for name, text in found.groupdict().items() if text}
            what = named.get("what") or named.get("other")
            return sentence.format(what=what)
    return None


def unreachable_index(output: str) -> bool:
    """Whether pip failed because it could not reach a package index."""
    cause = diagnose(output) or ""
    return cause.startswith(("The package index cannot", "The package index's certificate"))
