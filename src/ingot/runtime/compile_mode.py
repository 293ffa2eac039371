"""Which stages of `compile` run: a process-wide setting, in its own module so that it exists before
the compiler is loaded.
"""

from __future__ import annotations

import enum
import os

from ingot import _native

__all__ = [
    "CompileMode",
    "RecompilationWarning",
    "UndeclaredStateWarning",
    "checks_captures",
    "compile_mode",
    "disable_compile",
    "enable_compile",
    "set_check_captures",
    "set_compile_mode",
]


class RecompilationWarning(UserWarning):
    """A compiled function compiles again and again."""


class UndeclaredStateWarning(UserWarning):
    """A compiled function changes, or was traced with, state that was not declared."""


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
_OFF = ("", "0", "off", "false", "no")
_checks_captures = os.environ.get("INGOT_CHECK_CAPTURES", "").lower() not in _OFF


def _allow_fast_calls() -> None:
    _native.enable_fast_calls(_mode is CompileMode.enabled and not _checks_captures)


_allow_fast_calls()


def compile_mode() -> CompileMode:
    """The current mode of compiled functions."""
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
    _allow_fast_calls()


def checks_captures() -> bool:
    """Whether functions traced from now on check in each call for replaced constants."""
    return _checks_captures


def set_check_captures(flag: bool) -> None:
    """Set what INGOT_CHECK_CAPTURES sets, for functions traced from now on."""
    global _checks_captures
    _checks_captures = flag
    _allow_fast_calls()


def disable_compile() -> None:
    """Make compiled functions run uncompiled, for example to print inside them."""
    set_compile_mode(CompileMode.disabled)


def enable_compile() -> None:
    """Undo `disable_compile`, also when it came from the environment."""
    set_compile_mode(CompileMode.enabled)
