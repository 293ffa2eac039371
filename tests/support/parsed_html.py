"""HTML as Python's own parser reads it: tags, closed as they were opened, and the text in them."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any


class ParsedHTML(HTMLParser):
    """Tags, the text in each, and the cells of tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.texts: list[tuple[str, str]] = []  # the innermost tag, and what it says
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1], data))
        if self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data

    def texts_in(self, tag: str) -> list[str]:
        """What the tags of a kind say."""
        return [text for inside, text in self.texts if inside == tag]
