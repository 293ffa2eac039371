"""The page: an explanation as one HTML file that needs nothing besides itself.

`data.py` says what is shown, `layout.py` where the boxes of the graphs stand, and the files next to
them are the page's frame, its looks and its behaviour. Values are packed, which makes the page of a
large graph ten times smaller; the long texts are only unpacked when somebody looks at them.
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
    """A value as the page unpacks it: JSON, compressed, in letters that mean nothing in HTML."""
    text = json.dumps(value, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def filled(frame: str, **values: str) -> str:
    """A page with its looks, its behaviour and values: a name between two @ is replaced."""
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
