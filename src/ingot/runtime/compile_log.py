"""The compiler's log, `ingot.compile`, and INGOT_LOG, which prints it.

Every compilation is an INFO record with function, reason and time, and so is machine code that is
generated during evaluation; where each kernel came from is DEBUG; a corrupt cache file is a
WARNING. `INGOT_LOG=compile` prints INFO and above on stderr, `INGOT_LOG=compile:debug` everything,
unless the program has its own handlers for these records. Without it only warnings are recorded:
servers log at INFO, and a first request would be lost among the kernels that it needs.
"""

from __future__ import annotations

import logging
import os
import warnings

from ingot.runtime.progress import write_line

__all__ = ["log"]

log = logging.getLogger("ingot.compile")
if log.level == logging.NOTSET:  # the program has not chosen one
    log.setLevel(logging.WARNING)

_LEVELS = {"compile": logging.INFO, "compile:info": logging.INFO, "compile:debug": logging.DEBUG}


class _Printer(logging.Handler):
    """Prints records that no handler of the program receives."""

    def emit(self, record: logging.LogRecord) -> None:
        if not self._others_listen():
            write_line(f"ingot: {record.getMessage()}")

    def _others_listen(self) -> bool:
        logger: logging.Logger | None = log
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


def _print_if_wanted(wanted: str) -> None:
    """Apply INGOT_LOG: names of logs, of which there is one, with an optional level."""
    names = [name.strip().lower() for name in wanted.split(",") if name.strip()]
    unknown = [name for name in names if name not in _LEVELS]
    if unknown:
        warnings.warn(
            f"INGOT_LOG={wanted}: there is no log {unknown[0]!r}; the logs are compile and "
            "compile:debug.",
            stacklevel=2,
        )
    levels = [_LEVELS[name] for name in names if name in _LEVELS]
    if levels:
        log.setLevel(min(levels))
        log.addHandler(_Printer())


_print_if_wanted(os.environ.get("INGOT_LOG", ""))
