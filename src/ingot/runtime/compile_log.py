"""The compiler's log, `ingot.compile`, and INGOT_LOG, which prints it.

Every compilation is an INFO record with function, reason and time, and so is machine code that is
generated during evaluation; where each kernel came from is DEBUG; a corrupt cache file is a
WARNING. `INGOT_LOG=compile` prints INFO and above on stderr, `INGOT_LOG=compile:debug` everything,
unless the program has its own handlers for these records. Without it only warnings are recorded:
servers log at INFO, and a first request would be lost among the kernels that it needs.

`logging` takes longer to import than a small function to compile. Nobody listens to records below
WARNING in a program that has not imported it, so that it is imported for warnings only.
"""

from __future__ import annotations

import os
import sys
import warnings
from functools import cache
from typing import TYPE_CHECKING

from ingot.graph.deferred import Deferred
from ingot.runtime.progress import write_line

if TYPE_CHECKING:
    import logging
else:
    logging = Deferred("logging")

__all__ = ["log"]


class _Log:
    """The logger, as far as it is used."""

    def debug(self, message: str, *values: object) -> None:
        """A record for those who debug the compiler."""
        if "logging" in sys.modules:
            _logger().debug(message, *values, stacklevel=2)

    def info(self, message: str, *values: object) -> None:
        """A record for those who watch what is compiled."""
        if "logging" in sys.modules:
            _logger().info(message, *values, stacklevel=2)

    def warning(self, message: str, *values: object) -> None:
        """A record for everybody."""
        _logger().warning(message, *values, stacklevel=2)


log = _Log()


@cache
def _logger() -> logging.Logger:
    found = logging.getLogger("ingot.compile")
    if found.level == logging.NOTSET:  # the program has not chosen one
        found.setLevel(logging.WARNING)
    return found


def _printer() -> logging.Handler:
    """Prints records that no handler of the program receives."""
    made = logging.Handler()

    def emit(record: logging.LogRecord) -> None:
        try:
            if not _others_listen(made):
                write_line(f"ingot: {record.getMessage()}")
        except Exception:  # as the handlers of `logging` do: the program's streams may be closed
            made.handleError(record)

    made.emit = emit  # type: ignore[method-assign]
    return made


def _others_listen(printer: logging.Handler) -> bool:
    logger: logging.Logger | None = _logger()
    while logger is not None:
        if any(handler is not printer for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def _print_if_wanted(wanted: str) -> None:
    """Apply INGOT_LOG: names of logs, of which there is one, with an optional level."""
    names = [name.strip().lower() for name in wanted.split(",") if name.strip()]
    if not names:
        return
    levels = {"compile": logging.INFO, "compile:info": logging.INFO, "compile:debug": logging.DEBUG}
    unknown = [name for name in names if name not in levels]
    if unknown:
        warnings.warn(
            f"INGOT_LOG={wanted}: there is no log {unknown[0]!r}; the logs are compile and "
            "compile:debug.",
            stacklevel=2,
        )
    chosen = [levels[name] for name in names if name in levels]
    if chosen:
        _logger().setLevel(min(chosen))
        _logger().addHandler(_printer())


_print_if_wanted(os.environ.get("INGOT_LOG", ""))
