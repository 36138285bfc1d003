"""A conversation as a document: Markdown, or an HTML page without scripts and external content."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

import msgspec

import clew
from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.cli.output.text import many, paragraphs, plain
from clew.cli.output.times import local

HIDDEN = "(reasoning hidden by the provider)"
_LINK = re.compile("(https?|mailto):", re.IGNORECASE)
"""Schemes that become links. Others could start programs, or hide where they lead."""
_STYLE = """
:root { color-scheme: light dark } body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5
system-ui, sans-serif } section { margin: 1.5rem 0 } h2 { font-size: .9rem; margin: 0 0 .3rem } h2 small { font-weight:
normal; opacity: .6 } .user h2 { color: #0a7ea4 } .assistant h2 { color: #2e7d32 } .tool h2 { color: #a66a00 }
.system h2 { color: #8e24aa } pre { padding: .8rem; overflow-x: auto; background: #8882; border-radius: .4rem }
blockquote, details { opacity: .75 } .error { color: #c62828 } .marked { color: #a66a00 }
"""


def markdown_lines(session: clew.Session | None, nodes: Iterable[clew.Node], *, fold: bool = False) -> Iterator[str]:
    """The conversation as Markdown for a file: no colours, no added line breaks."""
    if session is not None:
        yield f"# {plain(session.title or 'Untitled')}"
    for number, node in enumerate(nodes):
        if number or session is not None:
            yield ""
        message, why = read(node)
        yield f"## {node.role} · {node.handle} · {local(node.created_at)}{_mark(message)}"
        if message is None:
            yield from ("", f"(damaged: {plain(why)})")
        for block in message.blocks if message is not None else ():
            yield ""
            yield from (fold_block(block) if fold else _markdown(block))


def read(node: clew.Node) -> tuple[clew.Message | None, str]:
    """A node's message; or None, and why it is damaged."""
    try:
        return node.message, ""
    except clew.Corrupted as error:
        return None, error.why


def is_interrupted(message: clew.Message | None) -> bool:
    """True for an answer that was interrupted."""
    return message is not None and bool((message.extra or {}).get("interrupted"))


def _mark(message: clew.Message | None) -> str:
    return " · interrupted" if is_interrupted(message) else ""


def _markdown(block: Block) -> Iterator[str]:
    match block:
        case Text():
            yield from paragraphs(block.text)
        case Thinking():
            yield from (f"> {line}".rstrip() for line in paragraphs(block.text or HIDDEN))
        case ToolCall():
            yield f"**tool call** {plain(block.name)} {plain(block.id)}"
            yield from json_fence(block.arguments)
        case ToolResult():
            yield f"**tool result**{' **error**' if block.is_error else ''} {plain(block.call_id)}"
            for inner in block.content:
                yield from ("", *_markdown(inner))
        case Media():
            yield placeholder(block)
        case Opaque():
            yield f"[{plain(block.kind)}]"
            yield from json_fence(block.data)


def fold_block(block: Block) -> Iterator[str]:
    """Thinking and tool blocks on one line each; text in full."""
    match block:
        case Thinking():
            yield f"> thinking, {many(len(block.text.split()), 'word')}" if block.text else f"> {HIDDEN}"
        case ToolCall():
            yield f"⚙ {plain(block.name)}({', '.join(map(plain, block.arguments))})"
        case ToolResult():
            size = sum(len(inner.text) for inner in block.content if isinstance(inner, Text))
            yield f"⚙ {'error' if block.is_error else 'result'}, {many(size, 'character')}"
        case Opaque():
            yield f"[{plain(block.kind)}]"
        case _:
            yield from _markdown(block)


def json_fence(value: Any) -> Iterator[str]:
    """A value as a fenced JSON block."""
    yield "```json"
    yield from paragraphs(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
    yield "```"


def placeholder(block: Media) -> str:
    """A placeholder for an image or a document."""
    where = block.name or (block.url if block.url and not block.url.startswith("data:") else None)
    return f"[{block.modality}: {plain(block.mime_type)}{f', {plain(where)}' if where else ''}]"


def html_lines(session: clew.Session | None, nodes: Iterable[clew.Node], *, fold: bool = False) -> Iterator[str]:
    """The conversation as an HTML page. No text of a message becomes a tag, an image or a script."""
    title = escape(plain(session.title or "Untitled") if session is not None else "Conversation")
    yield '<!doctype html><html><head><meta charset="utf-8">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>"
    for node in nodes:
        message, why = read(node)
        at = escape(f"{node.handle} · {local(node.created_at)}")
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
            return _details(
                f"tool call {escape(plain(block.name))}", _pre("\n".join(list(json_fence(block.arguments))[1:-1])), fold
            )
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
