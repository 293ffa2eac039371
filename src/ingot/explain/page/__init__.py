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

__all__ = ["page_html"]


@cache
def _file(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def _packed(value: Any) -> str:
    """A value as the page unpacks it: JSON, compressed, in letters that mean nothing in HTML."""
    text = json.dumps(value, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def page_html(explanation: Explanation) -> str:
    """The page of an explanation."""
    parts = {
        "STYLE": _file("page.css"),
        "DATA": _packed(page_data(explanation)),
        "TEXTS": _packed(kernel_texts(explanation)),
        "GRAPH": _file("graph.js"),
        "PANELS": _file("panels.js"),
        "PAGE": _file("page.js"),
    }
    return re.sub(r"@([A-Z]+)@", lambda found: parts[found[1]], _file("page.html"))
