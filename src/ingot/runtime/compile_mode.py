"""Which stages of `compile` run: a switch for the whole process, apart from the compiler so that it
is there before that is loaded.
"""

from __future__ import annotations

import enum
import os

from ingot import _native

__all__ = [
    "CompileMode",
    "RecompilationWarning",
    "compile_mode",
    "disable_compile",
    "enable_compile",
    "set_compile_mode",
]


class RecompilationWarning(UserWarning):
    """A compiled function compiles again and again."""


class CompileMode(enum.Enum):
    """Which stages run."""

    disabled = "disabled"
    no_simplify = "no_simplify"
    no_fuse = "no_fuse"
    enabled = "enabled"


def _mode_from_environment() -> CompileMode:
    if "MLX_DISABLE_COMPILE" in os.environ or "INGOT_DISABLE_COMPILE" in os.environ:
        return CompileMode.disabled
    return CompileMode.enabled


_mode = _mode_from_environment()
_native.enable_fast_calls(_mode is CompileMode.enabled)


def compile_mode() -> CompileMode:
    """The mode that compiled functions are called in now."""
    return _mode


def set_compile_mode(mode: CompileMode | str) -> None:
    """Choose which stages of `compile` run: "enabled", "no_fuse", "no_simplify" or "disabled"."""
    global _mode
    try:
        _mode = CompileMode(mode)
    except ValueError:
        modes = ", ".join(known.value for known in CompileMode)
        raise ValueError(
            f"[set_compile_mode] there is no mode {mode!r}; the modes are {modes}."
        ) from None
    _native.enable_fast_calls(_mode is CompileMode.enabled)


def disable_compile() -> None:
    """Make compiled functions run uncompiled, for example to print inside them."""
    set_compile_mode(CompileMode.disabled)


def enable_compile() -> None:
    """Undo `disable_compile`, also when it came from the environment."""
    set_compile_mode(CompileMode.enabled)
