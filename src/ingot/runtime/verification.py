"""Whether the compiler verifies its intermediate forms: `INGOT_VERIFY=1`, as in all tests."""

from __future__ import annotations

import os

__all__ = ["is_verifying"]

_is_verifying = os.environ.get("INGOT_VERIFY", "0") not in ("", "0")


def is_verifying() -> bool:
    """Whether loop nests are verified before code generation."""
    return _is_verifying
