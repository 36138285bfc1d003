"""The preview of a session: what it is, and its messages around a match or at its end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from rich.text import Text

import clew
from clew.base.visible import many, plain
from clew.cli.output.json import home_short
from clew.cli.picker.catalog import CatalogRow, content_query
from clew.sources.registry import rules_for
from clew.store.origin import origin_of
from clew.turns.derive import items
from clew.turns.faces import summary
from clew.turns.model import Item, ProgramNote, Said, Step, UserPrompt, entry
from clew.turns.words import note_line, seam_text, short_model

LAST = 12
"""Number of messages in the preview."""
NEAR = 200
"""Messages at the end of a session among which a match is shown with what follows it."""
LONG = 600
"""Characters shown of a message."""
LINE = 100
"""Characters shown of what a tool call is about."""
_COLOURS = {"user": "bold cyan", "assistant": "bold green", "tool": "bold yellow", "system": "bold magenta"}


class Preview(NamedTuple):
    """A session as text: a head that stays, and messages that scroll."""

    head: Text
    messages: Text
    match: int | None
    """Where the first match is in the messages; None if nothing is searched for or it is not there."""


def preview(store: clew.Store, row: CatalogRow, typed: str = "") -> Preview:
    """The preview of a session; with `typed`, of the messages around the first match."""
    try:
        session = store.sessions.get(row.id)
        head, words = _head(store, session), typed.split()
        nodes, hit = _around(store, session, typed)
        text = Text()
        for item in items(map(entry, nodes), rules_for(session), project=session.cwd or ""):
            role, shown = _words_of(item)
            mine = any(one.node.id == hit for one in item.entries)
            text.append(f"{role}\n" if role else "", style=_COLOURS.get(role, "bold"))
            lines = _excerpt(shown, words if mine else ()).split("\n")
            text.append("\n".join(map(plain, lines)) + "\n\n", style="" if role else "dim")
    except clew.ClewError as error:
        return Preview(Text(plain(error.message), style="red"), Text(), None)
    spots = [spot for word in words for spot in re.finditer(re.escape(plain(word)), text.plain, re.IGNORECASE)]
    for spot in spots:
        text.stylize("reverse", *spot.span())
    return Preview(head, text, min((spot.start() for spot in spots), default=None))


def _head(store: clew.Store, session: clew.Session) -> Text:
    from clew.sources.registry import tool_title  # loads every source

    origin = origin_of(session)
    head = Text(plain(session.title or "untitled"), style="bold")
    about = [session.handle, many(session.counters.messages, "message"), home_short(session.cwd or "")]
    about += [short_model(session.model), *(f"#{label}" for label in session.labels)]
    head.append("\n" + " · ".join(plain(part) for part in about if part), style="not bold dim")
    more = [plain(tool_title(origin.tool)) if origin.tool else "", f"branch {origin.branch}" if origin.branch else ""]
    more += [f"fork of {_name(store, session.forked_from)}" if session.forked_from is not None else ""]
    if any(more):
        head.append("\n" + " · ".join(plain(part) for part in more if part), style="not bold blue")
    return head


def _name(store: clew.Store, id: str) -> str:
    """The handle and title of a session; its id if it is not there any more."""
    try:
        found = store.sessions.get(id)
        return f"{found.handle} {found.title or ''}".rstrip()
    except clew.ClewError:
        return id


def _around(store: clew.Store, session: clew.Session, typed: str) -> tuple[Sequence[clew.Node], str | None]:
    """The messages to show, and the id of the one that matches; the last messages if none does."""
    hit = _match(store, session, typed)
    if hit is None:
        return session.path(last=LAST), None
    nodes = session.path(last=NEAR)
    at = next((at for at, node in enumerate(nodes) if node.id == hit), None)
    if at is None:
        return store.nodes.path(hit, last=LAST), hit
    return nodes[max(0, at - LAST // 3) : at + LAST], hit


def _match(store: clew.Store, session: clew.Session, typed: str) -> str | None:
    """The id of the message that matches best; None if none does, or the index cannot be read now."""
    query = content_query(typed)
    if query is None:
        return None
    with suppress(clew.Unavailable, clew.Invalid):
        for hit in store.search(query, session=session.id, limit=1):
            return hit.node.id
    return None


def _words_of(item: Item) -> tuple[str, str]:
    """Who wrote it, and its words: tool calls on one line each, notes without a name on one line."""
    if isinstance(item, ProgramNote):
        return "", seam_text(item.entry.number - 1) if item.kind == "compaction" else note_line(item)
    if isinstance(item, UserPrompt):
        return "user", item.text or "(no text)"
    return "assistant", "\n".join(filter(None, map(_part, item.parts)))


def _part(part: object) -> str:
    if isinstance(part, Said):
        return "\n".join(block.text for block in part.blocks if isinstance(block, clew.Text))
    return f"{part.label}: {part.line[:LINE]} · {summary(part)}" if isinstance(part, Step) else ""


def _excerpt(text: str, words: Sequence[str]) -> str:
    """The beginning of a text; for a match, the part around it."""
    text = text.strip()
    folded = text.lower()
    first = min((at for word in words if (at := folded.find(word.lower())) >= 0), default=0)
    start = 0 if first < LONG // 2 else first - LONG // 3
    return ("… " if start else "") + text[start : start + LONG]
