"""A conversation as one HTML page, without scripts and without content from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.base.visible import paragraphs, plain
from clew.engine.node import Node
from clew.exports.to_markdown import HIDDEN, is_interrupted, json_fence, placeholder, read
from clew.exports.tool_lines import tool_line
from clew.store.session import Session

_LINK = re.compile("(https?|mailto):", re.IGNORECASE)
"""Schemes that become links. Others could start programs, or hide where they lead."""
_STYLE = """
:root { color-scheme: light dark } body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5
system-ui, sans-serif } section { margin: 1.5rem 0 } h2 { font-size: .9rem; margin: 0 0 .3rem } h2 small { font-weight:
normal; opacity: .6 } .user h2 { color: #0a7ea4 } .assistant h2 { color: #2e7d32 } .tool h2 { color: #a66a00 }
.system h2 { color: #8e24aa } pre { padding: .8rem; overflow-x: auto; background: #8882; border-radius: .4rem }
blockquote, details { opacity: .75 } .error { color: #c62828 } .marked { color: #a66a00 }
"""


def html(session: Session | None, nodes: Iterable[Node], *, fold: bool = False) -> Iterator[str]:
    """The conversation as an HTML page. No text of a message becomes a tag, an image or a script."""
    title = escape(plain(session.title or "Untitled") if session is not None else "Conversation")
    yield '<!doctype html><html><head><meta charset="utf-8">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>"
    for node in nodes:
        message, why = read(node)
        at = escape(f"{node.handle} · {node.created_at.astimezone():%Y-%m-%d %H:%M}")
        mark = ' · <span class="marked">interrupted</span>' if is_interrupted(message) else ""
        yield f'<section class="{node.role}" id="{node.handle}"><h2>{node.role} <small>{at}{mark}</small></h2>'
        if message is None:
            yield f'<p class="error">damaged: {escape(plain(why))}</p>'
        for block in message.blocks if message is not None else ():
            yield _html(block, fold)
        yield "</section>"
    yield "</body></html>"


def _html(block: Block, fold: bool) -> str:
    match block:
        case Text():
            return _render_markdown(block.text)
        case Thinking():
            words = escape("\n".join(paragraphs(block.text or HIDDEN))).replace("\n", "<br>")
            return _details("thinking", f"<blockquote>{words}</blockquote>", fold)
        case ToolCall():
            return _details(escape(tool_line(block)), _pre(block.arguments), fold)
        case ToolResult():
            inner = "".join(_html(one, fold) for one in block.content)
            kind = ' <b class="error">error</b>' if block.is_error else ""
            return _details(f"tool result{kind}", inner, fold)
        case Media():
            return f"<p>{escape(placeholder(block))}</p>"
        case Opaque():
            return _details(escape(plain(block.kind)), _pre(block.data), fold)


def _details(summary: str, inner: str, fold: bool) -> str:
    return f"<details{'' if fold else ' open'}><summary>{summary}</summary>{inner}</details>"


def _pre(value: Any) -> str:
    return f"<pre>{escape(chr(10).join(list(json_fence(value))[1:-1]))}</pre>"


def _render_markdown(text: str) -> str:
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table").disable("image")
    reader.validateLink = lambda url: _LINK.match(url) is not None  # type: ignore[method-assign]
    return str(reader.render("\n".join(paragraphs(text))))
