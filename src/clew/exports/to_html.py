"""A conversation as one HTML page, without scripts and without content from elsewhere."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files

from clew.base.messages import Media
from clew.base.visible import many
from clew.engine.node import Node
from clew.errors import ClewError
from clew.exports.images import read_image
from clew.exports.render.message import Links, Renderer
from clew.exports.render.text import SHORT, WHOLE, inline, limited, one_line
from clew.providers.prices import Prices
from clew.sources.registry import rules_for, tool_title
from clew.store.origin import origin_of
from clew.store.session import Session
from clew.store.usage import conversation_usage
from clew.turns.derive import stream
from clew.turns.model import PLAIN, UserPrompt, entry
from clew.turns.words import money, short_model

OUTLINED = 200
"""Characters of a prompt in the outline."""
_FILTERS = (
    ("prompts", "Prompts"),
    ("answers", "Answers"),
    ("tools", "Tools"),
    ("think", "Thinking"),
    ("notes", "Notes"),
)


def html(
    session: Session | None,
    nodes: Iterable[Node],
    *,
    fold: bool = False,
    of: Session | None = None,
    prices: Prices | None = None,
) -> Iterator[str]:
    """The conversation as an HTML page. No text of a message becomes a tag, an image from elsewhere or a script.

    With `fold`, thinking and tools are collapsed, and long texts are cut, each with a notice. `of` is the session that
    messages without a heading belong to; `prices` are a user's own and the list, without them the list alone. The
    outline stands at the end: the page is written while it is read.
    """
    of = session or of
    title = inline(one_line(session.title or "Untitled")) if session is not None else "Conversation"
    css = style()
    digest = b64encode(sha256(css.encode()).digest()).decode()
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="referrer" content="no-referrer">'
    yield (
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:;'
        f" style-src 'sha256-{digest}'\">"
    )
    yield f"<title>{escape(one_line(session.title or 'Untitled')) if session is not None else title}</title>"
    yield f'<style>{css}</style></head><body class="saved"><main class="talk" id="main">'
    facts = "".join(_facts(session, prices)) if session is not None else ""
    yield f'<header class="head"><h1>{title}</h1>{facts}</header>'
    yield _filters()
    rules, project = (rules_for(of), of.cwd or "") if of is not None else (PLAIN, "")
    renderer = Renderer(Links(media=lambda one, block: inline_image(of, block)), fold=fold)
    prompts: list[tuple[str, str]] = []
    for number, item in enumerate(stream(map(entry, nodes), rules, project=project)):
        with limited(SHORT if fold else WHOLE):
            shown = renderer.article(item, first=number == 0)
        if isinstance(item, UserPrompt):
            prompts.append((item.entry.anchor, item.text[: 4 * OUTLINED] or "(no text)"))
        yield shown
    yield f"</main>{_outline(prompts)}</body></html>"


def inline_image(session: Session | None, block: Media) -> str | None:
    """An image as a data: URL that a browser shows; None if it is none, is too large or cannot be read."""
    found = read_image(session, block)
    return None if found is None else f"data:{found.mime_type};base64,{b64encode(found.data).decode()}"


@cache
def style() -> str:
    """The stylesheet of the page and of exports."""
    return files("clew.exports.render").joinpath("style.css").read_text(encoding="utf-8")


def _facts(session: Session, prices: Prices | None) -> Iterator[str]:
    """The tool, the project, the day, the model and the tokens of a conversation."""
    counters, origin = session.counters, origin_of(session)
    days = f"{session.created_at.astimezone():%Y-%m-%d}", f"{session.updated_at.astimezone():%Y-%m-%d}"
    used = conversation_usage(session, prices).total
    tokens = f"{used.lanes.all_input:,} tokens in, {used.lanes.output:,} out" if used.lanes.total else ""
    cost = money(used.cost) + ("+" if used.unpriced else "") if used.cost else ""
    facts = [
        ("Tool", tool_title(origin.tool) if origin.tool else ""),
        ("Project", session.cwd or ""),
        ("Branch", origin.branch),
        ("Date", days[0] if days[0] == days[1] else " – ".join(days)),
        ("Model", short_model(session.model)),
        ("Size", many(counters.messages, "message")),
        ("Tokens", tokens),
        ("Cost", cost),
    ]
    with suppress(ClewError):
        facts.append(("Id", session.handle))
    rows = "".join(f"<dt>{name}</dt><dd>{inline(one_line(value))}</dd>" for name, value in facts if value)
    yield f'<dl class="facts">{rows}</dl>'


def _filters() -> str:
    """Check boxes that show and hide parts; the stylesheet does the work."""
    boxes = "".join(f'<label><input type="checkbox" id="f-{id}" checked>{name}</label>' for id, name in _FILTERS)
    errors = '<label><input type="checkbox" id="f-errors">Errors only</label>'
    return f'<div class="toggles" role="group" aria-label="Show">{boxes}{errors}</div>'


def _outline(prompts: list[tuple[str, str]]) -> str:
    if len(prompts) < 2:
        return ""
    lines = "".join(
        f'<li><a href="#{anchor}"><span>{inline(one_line(" ".join(text.split())[:OUTLINED]))}</span></a></li>'
        for anchor, text in prompts
    )
    return f'<nav class="saved-outline" aria-label="Prompts"><h2>Prompts</h2><ol>{lines}</ol></nav>'
