"""The explain page: a report as one self-contained HTML file.

`data.py` collects the contents, `layout.py` places the boxes of the graphs, and the files next to
them are the page's HTML, CSS and JavaScript. The data is compressed, which makes the page of a
large graph ten times smaller; long texts are decompressed only when they are opened.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ingot.explain.page.data import kernel_texts, page_data

if TYPE_CHECKING:
    from ingot.explain.report import Explanation

__all__ = ["filled", "packed", "page_html"]


@cache
def _file(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def packed(value: Any) -> str:
    """A value as compressed JSON, encoded in characters that need no escaping in HTML."""
    text = json.dumps(value, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def filled(frame: str, **values: str) -> str:
    """A page with its CSS, JavaScript and data filled in for the names between two @."""
    parts = {
        "STYLE": lambda: _file("page.css"),
        "GRAPH": lambda: _file("graph.js"),
        "PANELS": lambda: _file("panels.js"),
        "PAGE": lambda: _file("page.js"),
        "PROFILE": lambda: _file("profile.js"),
    }
    return re.sub(
        r"@([A-Z]+)@",
        lambda found: values[found[1]] if found[1] in values else parts[found[1]](),
        _file(frame),
    )


def page_html(explanation: Explanation) -> str:
    """The page of an explanation."""
    return filled(
        "page.html",
        DATA=packed(page_data(explanation)),
        TEXTS=packed(kernel_texts(explanation)),
    )
