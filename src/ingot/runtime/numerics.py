"""Which bits results have: settings for the whole process.

In: what users and the environment say. Out: what the compiler and evaluation ask.
"""

from __future__ import annotations

import os

from ingot.runtime.compile_mode import assume_usual_settings

__all__ = ["excess_precision", "set_excess_precision"]

_ON = ("1", "on", "true", "yes")


def _from_environment(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in _ON


def excess_precision() -> bool:
    """Whether fused ops of half types hand each other float32."""
    return _excess_precision


def set_excess_precision(on: bool) -> None:
    """Choose whether fused ops of float16 and bfloat16 keep float32 between them.

    By default every op rounds its result to its dtype, so that programs give the same bits compiled
    and uncompiled. With excess precision, what is fused is rounded only where it is written to
    memory or cast: results are closer to those of float32 and depend on what was fused.

    Args:
        on: Whether to; it is off by default, unless INGOT_EXCESS_PRECISION is "1".
    """
    global _excess_precision
    _excess_precision = on
    assume_usual_settings(not _excess_precision)


_excess_precision = False
set_excess_precision(_from_environment("INGOT_EXCESS_PRECISION"))
