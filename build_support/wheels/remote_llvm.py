"""Has kernels of this process compiled by another one: `cross_compiler.py`, which is not emulated.

    INGOT_TEST_COMPILER=/tmp/.../socket

`install` is called when an emulated interpreter starts. It imports nothing of ingot; the module
that calls LLVM gets another class for it when it is imported.
"""

from __future__ import annotations

import importlib.machinery
import os
import struct
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import socket

VARIABLE = "INGOT_TEST_COMPILER"
_MODULE = "ingot.compiler.machine.jit"
_SIZES = struct.Struct("<QQ")


def send(connection: socket.socket, kind: bytes, data: bytes) -> None:
    """A message: a word and bytes."""
    connection.sendall(_SIZES.pack(len(kind), len(data)) + kind + data)


def receive(connection: socket.socket) -> tuple[bytes, bytes]:
    """The message that another process sent."""
    kind, data = _SIZES.unpack(_read(connection, _SIZES.size))
    return _read(connection, kind), _read(connection, data)


def _read(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise EOFError("the compiling process has ended")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class RemoteMachine:
    """Takes the place of the class of the same methods that calls LLVM."""

    def object_file(self, code: str) -> bytes:
        """The object file of a module."""
        return self._made(b"object", code)

    def assembly(self, code: str) -> str:
        """The machine code of a module, as text."""
        return self._made(b"assembly", code).decode()

    def _made(self, kind: bytes, code: str) -> bytes:
        import socket  # not when the interpreter starts: tests look at what ingot imports

        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(os.environ[VARIABLE])
            send(connection, kind, code.encode())
            answer, data = receive(connection)
        if answer == b"error":
            raise RuntimeError(data.decode())
        return data


class _Loader:  # without the base class, whose module imports many that tests look for
    """Loads the module as always, then exchanges the class."""

    def __init__(self, usual: Any) -> None:
        self._usual = usual

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        found: ModuleType | None = self._usual.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        self._usual.exec_module(module)
        module._Machine = RemoteMachine  # type: ignore[attr-defined]


class _Finder:
    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != _MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            spec.loader = cast(Any, _Loader(spec.loader))
        return spec


def install() -> None:
    """Compiles remotely from now on, if a socket is named."""
    if os.environ.get(VARIABLE):
        sys.meta_path.insert(0, _Finder())
