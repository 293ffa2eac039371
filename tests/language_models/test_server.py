"""`mlx_lm server` on ingot: several clients at the same time get what one alone gets."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.language_models.tiny import make_tiny_folder

LIMIT = 120  # seconds until the server answers
PROMPTS = ["the cat", "a hat in the thin inn", "the cat", "and then a thing"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _ask(address: str, prompt: str) -> str:
    body = {"prompt": prompt, "max_tokens": 12, "temperature": 0}
    request = urllib.request.Request(
        f"{address}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=LIMIT) as response:
        answer: Any = json.load(response)
    return str(answer["choices"][0]["text"])


def _wait(address: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        assert process.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise AssertionError("the server did not answer in time")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    model = make_tiny_folder(tmp_path / "tiny")
    port = _free_port()
    options = ["--model", str(model), "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "ingot", "run", "-m", "mlx_lm", "server", *options],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path), "INGOT_VERIFY": "0"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(f"http://127.0.0.1:{port}", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def test_clients_at_the_same_time(address: str) -> None:
    alone = [_ask(address, prompt) for prompt in PROMPTS]
    with ThreadPoolExecutor(len(PROMPTS)) as clients:
        together = list(clients.map(lambda prompt: _ask(address, prompt), PROMPTS))
    assert together == alone
    assert alone[0] == alone[2] != alone[1]
