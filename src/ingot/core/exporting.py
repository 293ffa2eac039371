"""Exported functions: the public functions, which load the implementation when first called."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ingot.graph.errors import value_text

if TYPE_CHECKING:
    from ingot.export.functions import Exporter, ImportedFunction

__all__ = ["FunctionExporter", "export_function", "exporter", "import_function"]


@cache
def _functions() -> Any:
    return importlib.import_module("ingot.export.functions")


@cache
def _tracing() -> Any:
    return importlib.import_module("ingot.export.tracing")


class FunctionExporter:
    """Writes several traces of one function to a file; made by `exporter`.

    Call it with example arguments for each trace, and use it as a context manager.
    """

    def __init__(self, writer: Exporter) -> None:
        self._writer = writer

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self._writer.trace(args, kwargs)

    def close(self) -> None:
        """End the export: there are no further traces."""
        self._writer.closed = True

    def __enter__(self) -> FunctionExporter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def export_function(
    file_or_callback: Any,
    fun: Any,
    *args: Any,
    shapeless: bool = False,
    metadata: str | None = None,
    **kwargs: Any,
) -> None:
    """Write a function to a file in MLX's format, as a graph of operations.

    Example:
        >>> mx.export_function("add.mlxfn", lambda x, y: x + y, mx.array(1), y=mx.array([1, 2]))

    Args:
        file_or_callback: A path, or a function that is called with each part of the graph.
        fun: A function of arrays that returns an array or a sequence of them. It is traced, so
            side effects happen only now.
        args: Example inputs: arrays, or one sequence and one dict of arrays.
        shapeless: Whether inputs may have other lengths, with as many axes.
        metadata: A text that is stored in the file.
        kwargs: Example inputs by keyword.
    """
    _check_function("export_function", fun)
    if callable(file_or_callback) and not isinstance(file_or_callback, (str, os.PathLike)):
        if metadata is not None:
            raise ValueError(
                "[export_function] The metadata argument is only supported when exporting to a "
                "file, not when using a callback."
            )
        positional, named = _functions().arguments("export_function", args, kwargs)
        emitter = _tracing().new_emitter(shapeless)
        trace = _tracing().traced(emitter, fun, positional, named)
        _functions().report(file_or_callback, trace)
        return
    with exporter(file_or_callback, fun, shapeless=shapeless, metadata=metadata) as export:
        export(*args, **kwargs)


def exporter(
    file: Any, fun: Any, *, shapeless: bool = False, metadata: str | None = None
) -> FunctionExporter:
    """An object that writes several traces of a function to one file.

    Example:
        >>> with mx.exporter("sum.mlxfn", lambda *args: sum(args)) as export:
        ...     export(mx.array(1))
        ...     export(mx.array(1), mx.array(2))

    Args:
        file: A path.
        fun: A function of arrays that returns an array or a sequence of them.
        shapeless: Whether inputs may have other lengths, with as many axes.
        metadata: A text that is stored in the file.

    Returns:
        The exporter, to be called with the example inputs of each trace.
    """
    _check_function("exporter", fun)
    path = _path("exporter", file)
    return FunctionExporter(_functions().Exporter(path, fun, shapeless, metadata or ""))


def import_function(file: Any, return_metadata: bool = False) -> Any:
    """A function that was written by `export_function`, here or by MLX.

    Nothing in the file is executed but operations on arrays. A file that is damaged, or that has
    operations or a version that are not known, raises ValueError.

    Args:
        file: The path.
        return_metadata: Whether to return the metadata as well.

    Returns:
        The function, which returns a tuple of arrays; or that and the text.
    """
    found: ImportedFunction = _functions().imported(_path("import_function", file))
    return (found, found.file.metadata) if return_metadata else found


def _path(name: str, file: Any) -> str:
    if not isinstance(file, (str, os.PathLike)):
        raise TypeError(f"[{name}] a file must be a path, got {value_text(file)}.")
    return os.fsdecode(file)


def _check_function(name: str, function: Callable[..., Any]) -> None:
    if not callable(function):
        raise TypeError(f"[{name}] expected a function, got {value_text(function)}.")
