"""LLVM on this machine, for emulated processes: what compiles kernels need not be emulated.

In: the code of a module, over a socket (`remote_llvm.py` sends it), and the processor for which
emulated LLVM would compile it. Out: the object file or assembly that it would have made, from the
same version of LLVM, in a twentieth of the time.
"""

from __future__ import annotations

import contextlib
import shutil
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from remote_llvm import receive, send

from ingot.compiler.machine import jit
from ingot.compiler.machine.llvm_library import llvm
from ingot.graph.libraries import llvm_binding

__all__ = ["Processor", "serving", "version"]

# Run in an emulated process, it prints what LLVM says about the emulated processor.
DESCRIBE = """
from ingot.compiler.machine.jit import _host, llvm
triple = llvm().text(llvm().GetDefaultTargetTriple)
print("\\t".join([".".join(map(str, llvm().version)), triple, *_host()]))
"""


class Processor(NamedTuple):
    """What code is compiled for, in LLVM's terms."""

    version: str  # of the LLVM that says so
    triple: str
    name: str
    features: str

    @classmethod
    def of(cls, described: str) -> Processor:
        """What a process that ran `DESCRIBE` printed."""
        return cls(*described.rstrip("\n").splitlines()[-1].split("\t"))


def version() -> str:
    """The version of this machine's LLVM."""
    return ".".join(map(str, llvm().version))


class _CrossMachine(jit._Machine):
    """The target machine and optimiser of another processor."""

    processor: Processor

    def _new_target(self) -> int:
        library, processor = llvm(), self.processor
        triple = processor.triple.encode()
        target, error = library.result_and_text(library.GetTargetFromTriple, triple)
        if error:
            raise RuntimeError(f"LLVM has no target for {processor.triple}: {error}.")
        name, features = processor.name.encode(), processor.features.encode()
        made: int = library.CreateTargetMachine(
            target, triple, name, features, 3, b"pic", b"default", 0, 0, b""
        )
        return made


class _Request(socketserver.BaseRequestHandler):
    """One module: what to make of it and its code; the answer begins with whether it worked."""

    def handle(self) -> None:
        kind, code = receive(self.request)
        machines = self.server.machines  # type: ignore[attr-defined]
        try:
            machine = machines.pop()
        except IndexError:
            machine = self.server.machine_type()  # type: ignore[attr-defined]
        try:
            made = machine._emitted(code.decode(), kind == b"object")
        except RuntimeError as error:
            send(self.request, b"error", str(error).encode())
        else:
            send(self.request, b"made", made)
        finally:
            machines.append(machine)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


@contextmanager
def serving(processor: Processor) -> Iterator[str]:
    """Compiles what is sent to a socket, whose path this gives."""
    binding = llvm_binding()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    folder = Path(tempfile.mkdtemp(prefix="ingot-llvm-"))
    path = str(folder / "socket")
    server = _Server(path, _Request)
    server.machines = []  # type: ignore[attr-defined]
    server.machine_type = type("_", (_CrossMachine,), {"processor": processor})  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        yield path
