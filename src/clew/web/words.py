"""Names for the words in URLs of a sealed store. A browser keeps URLs on disk, where the words must not be."""

from __future__ import annotations

import threading
from collections import OrderedDict
from secrets import token_urlsafe

KEPT = 1_000
"""Names that a server keeps. A page has up to 200: one for each filter beside the list."""
LONGEST = 1_000
"""Characters of a text that has a name; more cannot be typed."""
MARK = "~"
"""Begins a name. Other text in a URL is words: programs may send them."""


class WordNames:
    """Random names of texts, new at each start. The least recently used one is forgotten first."""

    def __init__(self) -> None:
        self._names: OrderedDict[str, str] = OrderedDict()
        """The name of each text, the most recently used last."""
        self._texts: dict[str, str] = {}
        self._lock = threading.Lock()

    def name(self, text: str) -> str:
        """The name of a text; the empty text has none."""
        text = text[:LONGEST]
        if not text:
            return ""
        with self._lock:
            name = self._names.setdefault(text, MARK + token_urlsafe(12))
            self._names.move_to_end(text)
            self._texts[name] = text
            if len(self._names) > KEPT:
                del self._texts[self._names.popitem(last=False)[1]]
        return name

    def text(self, given: str) -> str:
        """The text of a name; empty if the name is unknown. Words are returned as they are."""
        if not given.startswith(MARK):
            return given
        with self._lock:
            text = self._texts.get(given, "")
            if text:
                self._names.move_to_end(text)
        return text

    def clear(self) -> None:
        """Forgets all names."""
        with self._lock:
            self._names.clear()
            self._texts.clear()
