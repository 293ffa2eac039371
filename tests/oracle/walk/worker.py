"""A process that evaluates expressions with one library, and the client that survives its death.

MLX ends the process for some invalid arguments, and waits for ever at others. The outcome of such a
call is `Crashed`, and the next one runs in a new process.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

from tests.oracle.walk.environment import environment, settings
from tests.oracle.walk.outcome import Crashed, call

PATIENCE = 10.0  # seconds for one call


class Worker:
    """A process of one library, begun when it is first asked and after it died."""

    def __init__(self, library: str) -> None:
        self.library = library
        self.process: subprocess.Popen[bytes] | None = None

    def outcomes(self, texts: list[str]) -> Iterator[Any]:
        """The outcome of each expression, in order."""
        done = 0
        while done < len(texts):
            process = self._running()
            assert process.stdin is not None
            process.stdin.write(pickle.dumps(texts[done:]))
            process.stdin.flush()
            while done < len(texts):
                outcome = self._answer(process)
                yield outcome
                done += 1
                if isinstance(outcome, Crashed):
                    self.close()
                    break

    def _answer(self, process: subprocess.Popen[bytes]) -> Any:
        assert process.stdout is not None
        pipe = process.stdout.fileno()
        length = _received(pipe, 8)
        data = length and _received(pipe, int.from_bytes(length, "little"))
        if data is None:
            return Crashed("no answer in time")
        return pickle.loads(data) if data else Crashed(f"the process ended with {process.wait()}")

    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.oracle.walk.worker", self.library],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self.process

    def close(self) -> None:
        """End the process."""
        if self.process is None:
            return
        self.process.kill()
        self.process.communicate()
        self.process = None


def _received(pipe: int, size: int) -> bytes | None:
    """So many bytes; none at the end of the pipe, None if they do not come in time."""
    data = b""
    while len(data) < size:
        if not select.select([pipe], [], [], PATIENCE)[0]:
            return None
        chunk = os.read(pipe, size - len(data))
        if not chunk:
            return b""
        data += chunk
    return data


def serve(library: str) -> None:
    """Answer lists of expressions from standard input until it ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a call prints is no answer
    warnings.simplefilter("ignore")
    known = environment(library)
    restore = settings(known["mx"])
    with contextlib.suppress(EOFError), tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        while True:
            for text in pickle.load(sys.stdin.buffer):
                data = pickle.dumps(call(text, known))
                answers.write(len(data).to_bytes(8, "little") + data)
                answers.flush()
                if "set_" in text:
                    restore()


if __name__ == "__main__":
    serve(sys.argv[1])
