"""A conversation as one HTML page, without scripts and without content from elsewhere."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files

from clew.base.visible import plain
from clew.engine.node import Node
from clew.exports.render.message import Entry, Renderer, entry, seam
from clew.exports.render.text import SHORT, WHOLE, limited
from clew.store.session import Session

AHEAD = 50
"""Messages that are read before one is rendered: the results of its tool calls come after it."""


def html(session: Session | None, nodes: Iterable[Node], *, fold: bool = False) -> Iterator[str]:
    """The conversation as an HTML page. No text of a message becomes a tag, an image or a script.

    With `fold`, thinking and tools are collapsed, and long texts are cut, each with a notice.
    """
    title = escape(plain(session.title or "Untitled") if session is not None else "Conversation")
    css = style()
    digest = b64encode(sha256(css.encode()).digest()).decode()
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="referrer" content="no-referrer">'
    yield (
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:;'
        f" style-src 'sha256-{digest}'\">"
    )
    yield f"<title>{title}</title><style>{css}</style></head>"
    yield f'<body><main class="talk" id="main"><header class="head"><h1>{title}</h1></header>'
    for batch in _batches(nodes):
        renderer = Renderer(batch, fold=fold)
        for one in batch:
            if one.is_summary:
                yield seam(one.number)
            with limited(SHORT if fold else WHOLE):
                article = renderer.article(one, first=one.number == 1)
            yield article
    yield "</main></body></html>"


@cache
def style() -> str:
    """The stylesheet of the page and of exports."""
    return files("clew.exports.render").joinpath("style.css").read_text(encoding="utf-8")


def _batches(nodes: Iterable[Node]) -> Iterator[list[Entry]]:
    """The messages in groups: a group ends before a message that is neither a result nor far from its beginning."""
    batch: list[Entry] = []
    for node in nodes:
        one = entry(node)
        if len(batch) >= AHEAD and not one.is_result:
            yield batch
            batch = []
        batch.append(one)
    yield batch
