"""Writes the Python examples of the documentation into files, for type checkers.

The examples of a page are one program; those of the README are independent, and so are those of
names, which become functions of one file.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.append(str(PROJECT / "tools"))
import api_examples  # noqa: E402

UNTYPED = ("mlx_users.md", "array_api.md")
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def programs(document: Path) -> list[str]:
    """The programs of a page."""
    examples = EXAMPLE.findall(document.read_text())
    if document.name == "README.md" or not examples:
        return examples
    return ["\n".join(examples)]


def documents() -> list[Path]:
    """The pages for users. Not those about the inside, whose ops take anything, nor that for users
    of MLX, whose programs import MLX, nor that on the array API, whose names are made at run time.
    """
    pages = [PROJECT / "docs" / "index.md", *sorted((PROJECT / "docs").glob("*/*.md"))]
    return [PROJECT / "README.md", *(page for page in pages if page.name not in UNTYPED)]


def of_names(path: Path) -> str:
    """The examples of names in a file, each as a function, for they share no variables."""
    shared, found = api_examples.cells(path.read_text())
    functions = [
        f"def example_of_{cell.name}() -> None:\n{textwrap.indent(cell.code, '    ')}"
        for cell in found
    ]
    return "\n\n".join([shared, *functions])


def main(folder: Path) -> None:
    """Writes a file for each program, named after its page; others in the folder are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    found = [
        (document, number, program)
        for document in documents()
        for number, program in enumerate(programs(document))
    ]
    found += [(path, 0, of_names(path)) for path in sorted(api_examples.FOLDER.rglob("*.py"))]
    written = set()
    for source, number, program in found:
        parts = source.relative_to(PROJECT).with_suffix("").parts
        path = folder / f"{'_'.join(parts).lower()}_{number}.py"
        if not path.exists() or path.read_text() != program:
            path.write_text(program)
        written.add(path)
    for path in set(folder.glob("*.py")) - written:
        path.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
