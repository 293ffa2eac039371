"""API pages, made from docstrings while the documentation is built: a hook of mkdocs.

Each page lists the public names of one module, by kind, with their signatures and docstrings, which
are written in Google's style: sections such as `Args:` become lists.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.append(str(Path(__file__).parent))
import api_examples

# Page -> the module or class it describes, and the sentence it begins with.
PAGES = {
    "ingot": ("ingot", "What the package itself offers."),
    "core": ("ingot.core", "Arrays and what is done with them: `import ingot.core as mx`."),
    "array": ("ingot.core:array", "The array itself, with its methods."),
    "distributed": ("ingot.core.distributed", "Several processes and machines."),
    "fast": ("ingot.core.fast", "Common parts of models as single calls."),
    "fft": ("ingot.core.fft", "Fourier transforms."),
    "linalg": ("ingot.core.linalg", "Decompositions, norms and linear systems."),
    "random": ("ingot.core.random", "Random numbers, equal to MLX's bit for bit."),
    "nn": ("ingot.nn", "Layers and modules."),
    "init": ("ingot.nn.init", "Initial values of parameters."),
    "losses": ("ingot.nn.losses", "Loss functions."),
    "optimizers": ("ingot.optimizers", "Optimizers and schedules."),
    "search": ("ingot.search", "Vector search and the largest singular vectors."),
    "utils": ("ingot.utils", "Trees of arrays."),
}

_SECTION = re.compile(
    r"^(Args|Arguments|Returns|Raises|Yields|Attributes|Example|Examples|Note|Notes):$"
)
_ITEM = re.compile(r"^(\*{0,2}[\w.]+(?: \([^)]*\))?): (.*)$")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages to what mkdocs found in docs/."""
    for page in PAGES:
        files.append(File.generated(config, f"api/{page}.md", content=page_text(page)))
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """Puts names before mentions of them in the search, and of names that begin alike the shortest
    first, which is the one that was typed. The plugin `offline` copies the index afterwards.
    """
    path = Path(config.site_dir) / "search" / "search_index.json"
    index = json.loads(path.read_text())
    for entry in index["docs"]:
        if entry["location"].startswith("api/") and "#" in entry["location"]:
            entry["boost"] = 1000 / len(entry["title"]) ** 2
    path.write_text(json.dumps(index, separators=(",", ":")))


def page_text(page: str) -> str:
    """One page in Markdown."""
    place, sentence = PAGES[page]
    name, _, attribute = place.partition(":")
    module = importlib.import_module(name)
    owner: Any = getattr(module, attribute) if attribute else module
    title = place.replace(":", ".")
    lines = [f"# {title}", "", sentence, ""]
    examples = api_examples.examples(page)
    for name in public_names(owner):
        value = getattr(owner, name)
        if inspect.ismodule(value):
            continue
        lines += [f"## {name}", ""]
        lines += described(name, value)
        if name in examples:
            lines += ["```python", examples[name].rstrip(), "```", ""]
    return "\n".join(lines) + "\n"


def public_names(owner: Any) -> list[str]:
    """What a module says it offers, or what a module or class has."""
    names = getattr(owner, "__all__", None)
    if names is None:
        # What only hints at a name raises AttributeError.
        names = [name for name in dir(owner) if name[0] != "_" and hasattr(owner, name)]
        if isinstance(owner, ModuleType):
            names = [name for name in names if _belongs(owner, getattr(owner, name))]
    return sorted((name for name in names if not name.startswith("_")), key=str.lower)


def _belongs(owner: ModuleType, value: object) -> bool:
    """Whether a name is ingot's, and not something that the module imported for itself."""
    module = getattr(value, "__module__", None) or type(value).__module__
    return module.startswith("ingot") or not hasattr(value, "__module__")


def described(name: str, value: Any) -> list[str]:
    """The signature and docstring of a name."""
    lines = []
    if callable(value):
        lines += ["```python", _ADDRESS.sub("", f"{name}{_signature(value)}"), "```", ""]
    elif not isinstance(value, property) and not inspect.isdatadescriptor(value):
        return [f"`{value!r}`" if not hasattr(value, "shape") else f"`{name}`", ""]
    text = inspect.getdoc(value) or ""
    if type(value).__module__ == "builtins" or callable(value) or inspect.isdatadescriptor(value):
        lines += markdown(text)
    return lines


def _signature(value: Any) -> str:
    try:
        return re.sub(r"'([\w.\[\], |]+)'", r"\1", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return "(...)"


def markdown(docstring: str) -> list[str]:
    """A docstring of Google's style in Markdown."""
    lines: list[str] = []
    in_section = False
    for line in docstring.splitlines():
        section = _SECTION.match(line)
        if section:
            in_section = section[1] not in ("Example", "Examples")
            lines += ["", f"**{section[1]}**", ""]
            continue
        if in_section and line.startswith("    "):
            item = _ITEM.match(line.strip())
            indent = len(line) - len(line.lstrip())
            if item and indent == 4:
                lines.append(f"- `{item[1]}`: {item[2]}")
            else:
                lines.append("  " * (indent > 4) + line.strip())
            continue
        in_section = in_section and not line.strip()
        lines.append(line)
    return [*lines, ""]
