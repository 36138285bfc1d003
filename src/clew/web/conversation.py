"""One conversation: a window of its messages as HTML, its prompts, its branches, its facts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from html import escape
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from markupsafe import Markup

from clew.base.messages import Media, ToolCall
from clew.engine.node import Node
from clew.errors import ClewError, Corrupted, NotFound
from clew.exports.render import diff
from clew.exports.render.message import Entry, Links, Renderer, entry, money, seam
from clew.exports.render.text import inline
from clew.exports.render.tools import changes
from clew.store.session import Session
from clew.store.windows import Leaving, leaving, window
from clew.web.site import Site
from clew.web.views import ago, snippet

WINDOW = 200
"""Messages on one page."""
OUTLINED = 600
"""Messages of a conversation up to which all of its prompts are listed; beyond, those of the window."""
AFTER = 20
"""Messages read after a window, for the results of its last tool calls."""
NOTES = "notes"
"""Where a session's free data has notes: a list of texts for the id of a message."""


class Prompt(NamedTuple):
    """A line of the outline."""

    number: int
    words: str
    url: str


class SideBranch(NamedTuple):
    """A branch or fork beside the path."""

    title: str
    url: str
    messages: int
    after: int
    place: int
    """Which of the children of message `after` it is, from 1."""
    of: int
    head_id: str
    fork: bool


class View(NamedTuple):
    """A page of a conversation."""

    session: Session
    head: str | None
    """The end of the path, if it is not the session's own."""
    first: int
    last: int
    total: int
    articles: list[Markup]
    entries: list[Entry]
    prompts: list[Prompt]
    whole_outline: bool
    branches: list[SideBranch]
    files: list[tuple[str, int, int]]
    """Files changed by tool calls of the window, with lines added and removed."""
    failed: int


def view(site: Site, session: Session, first: int, *, head: str | None = None) -> View:
    """The messages from number `first` on, one window of them. NotFound."""
    first = max(1, first)
    found = window(session, first, first + WINDOW + AFTER - 1, head=head)
    every = [entry(node) for node in found.nodes]
    entries, more = every[:WINDOW], every[WINDOW:]
    links = _links(site, session, head)
    results = [*entries, *(one for one in more if one.is_result)]
    renderer = Renderer(results, links)
    sides = leaving(session, head=head)
    branches = _branches(session, sides)
    forks: dict[int, list[SideBranch]] = {}
    for side in branches:
        forks.setdefault(side.after, []).append(side)
    notes = session.extra.get(NOTES)
    articles = []
    for one in entries:
        if one.node.parent_id is None and one.number > 1:
            articles.append(Markup(seam(one.number)))
        articles.append(Markup(_article(site, session, renderer, one, notes, head)))
        if one.number in forks:
            articles.append(Markup(fork_bar(session, forks[one.number], one, head)))
    prompts, whole = _outline(session, entries, found.total, head)
    return View(
        session, head, first, first + len(entries) - 1, found.total, articles, entries, prompts, whole, branches,
        _files(entries), sum(result.is_error for one in entries for result in one.results),
    )  # fmt: skip


def url(session: Session, *, head: str | None = None, start: int = 1, anchor: str = "", **more: str) -> str:
    """The URL of a window of a conversation."""
    query = {**({"head": head} if head else {}), **({"from": str(start)} if start > 1 else {}), **more}
    return f"/c/{session.id}{'?' + urlencode(query) if query else ''}{'#' + anchor if anchor else ''}"


def window_start(number: int) -> int:
    """The first message of the window that a message is in."""
    return (number - 1) // WINDOW * WINDOW + 1


def fork_bar(session: Session, others: Sequence[SideBranch], one: Entry, head: str | None) -> str:
    """The line at a fork: which branch this is, the way to the others, and the comparison."""
    count = others[0].of
    taken = {other.place: other for other in others}
    here = next((place for place in range(1, count + 1) if place not in taken), count)
    around = [(here - 1, "Previous branch", "i-left", "["), (here + 1, "Next branch", "i-right", "]")]
    arrows = [
        f'<a class="btn bare sm icon" href="{escape(taken[place].url)}" aria-label="{label}" title="{label} ({key})"'
        f' data-branch="{key}"><span class="i {icon}" aria-hidden="true"></span></a>'
        if place in taken
        else '<span class="btn bare sm icon" aria-hidden="true"></span>'
        for place, label, icon, key in around
    ]
    words = " · ".join(
        f'<a href="{escape(other.url)}">{inline(other.title)}</a> ({other.messages:,})' for other in others[:4]
    )
    comparison = escape(compare_url(session, head, others[0].head_id))
    return (
        f'<nav class="fork" aria-label="Branches after message {one.number}">'
        '<svg viewBox="0 0 24 32" aria-hidden="true">'
        f'<path d="M1 0c0 12 4 16 22 16"/></svg><div class="fork-in"><span class="switch">{arrows[0]}{here} of {count}'
        f'{arrows[1]}</span><span class="names cut">other branches: {words}</span>'
        f'<a class="btn bare sm" href="{comparison}" data-compare><span class="i i-compare" aria-hidden="true"></span>'
        f"Compare</a></div></nav>"
    )


def compare_url(session: Session, a: str | None, b: str) -> str:
    """The URL of the comparison of two paths."""
    return f"/c/{session.id}/compare?{urlencode({**({'a': a} if a else {}), 'b': b})}"


def facts(session: Session) -> dict[str, Any]:
    """Tokens, cost and source, with unknown as unknown."""
    counters = session.counters
    return {
        "tokens_in": f"{counters.tokens_in:,}",
        "tokens_out": f"{counters.tokens_out:,}",
        "tokens_known": counters.tokens_known,
        "cost": money(counters.cost) if counters.cost else "",
        "cost_known": counters.cost_known,
        "messages": counters.messages,
        "turns": counters.turns,
    }


def checkpoints(session: Session, now: datetime) -> list[dict[str, Any]]:
    """The checkpoints of the working files, oldest first; none if the folder is not on this machine."""
    from clew.checkpoints import Checkpoints

    if not session.cwd or not os.path.isdir(session.cwd):
        return []
    try:
        found = Checkpoints(session, session.cwd).list()
    except ClewError:
        return []
    return [
        {"message": one.message, "files": sorted(one.states), "when": ago(one.created_at, now)}
        for one in found
        if one.rewound_to is None
    ]


def subagents(session: Session) -> list[Session]:
    """The traces of its subagents; damaged ones are left out."""
    try:
        return session.subagents()
    except Corrupted:
        return []


def _article(site: Site, session: Session, renderer: Renderer, one: Entry, notes: object, head: str | None) -> str:
    mine = tuple(str(text) for text in notes.get(one.node.id, ())) if isinstance(notes, dict) else ()
    key = (session.id, head, one.node.id, one.number, renderer.uses(one), renderer.is_inside(one), mine)
    return site.rendered.get(key, lambda: renderer.article(one, first=one.number == 1))


def _links(site: Site, session: Session, head: str | None) -> Links:
    base = f"/c/{session.id}"
    traces = {str(trace.extra.get("call_id")): f"/c/{trace.id}" for trace in subagents(session)}
    notes = session.extra.get(NOTES)

    def media(block: Media) -> str | None:
        return None if block.blob is None else f"{base}/blob/{block.blob}?name={quote(block.name or '')}"

    def below(one: Entry) -> str:
        texts = notes.get(one.node.id, ()) if isinstance(notes, dict) else ()
        return "".join(
            f'<div class="note"><span class="i i-note" aria-hidden="true"></span><p>{inline(str(text))}'
            " <small>Your note</small></p></div>"
            for text in texts
        )

    return Links(
        raw=lambda node: f"{base}/m/{node.id}/raw",
        permalink=lambda node: f"{base}/m/{node.id}",
        media=media,
        trace=traces.get,
        extra=_actions if site.allow_write else None,
        below=below,
    )


def _actions(one: Entry) -> str:
    """The buttons of a page that may write. The script shows them; without it they stay hidden."""
    buttons = (
        ("fork", "Fork here", "b", "i-fork"),
        ("rewind", "Rewind here", "", "i-undo"),
        ("note", "Note", "", "i-note"),
    )
    return "".join(
        f'<button class="btn bare sm icon" type="button" data-write="{name}" hidden aria-label="{label}, message'
        f' {one.number}" title="{label}{f" ({key})" if key else ""}"><span class="i {icon}" aria-hidden="true"></span>'
        "</button>"
        for name, label, key, icon in buttons
    )


def _branches(session: Session, sides: Sequence[Leaving]) -> list[SideBranch]:
    found = []
    for one in sides:
        fork, number = one.session, one.after + 1
        start = window_start(number)
        if fork is not None:
            where = url(fork, start=start, anchor=f"m{number}")
        else:
            where = url(session, head=one.head_id, start=start, anchor=f"m{number}")
        title = (fork.title if fork is not None else "") or snippet(one.first, 60) or "SideBranch"
        found.append(
            SideBranch(title, where, one.messages, one.after, one.place, one.ways, one.head_id, fork is not None)
        )
    return found


def _outline(session: Session, entries: Sequence[Entry], total: int, head: str | None) -> tuple[list[Prompt], bool]:
    whole = total <= OUTLINED
    if whole and len(entries) < total:
        entries = [entry(node) for node in window(session, 1, total, head=head).nodes]
    prompts = []
    for one in entries:
        if one.message is not None and one.message.role == "user" and not one.is_result:
            words = snippet(one.node, 90) or "(no text)"
            start = window_start(one.number)
            prompts.append(Prompt(one.number, words, url(session, head=head, start=start, anchor=one.anchor)))
    return prompts, whole


def _files(entries: Sequence[Entry]) -> list[tuple[str, int, int]]:
    """Files that the tool calls changed, with the lines added and removed."""
    found: dict[str, tuple[int, int]] = {}
    for one in entries:
        for call in one.calls:
            path = _path(call)
            lines = changes(call) if path else []
            if lines:
                added, removed = diff.counts(lines)
                before = found.get(path, (0, 0))
                found[path] = before[0] + added, before[1] + removed
    return [(path, *counts) for path, counts in found.items()]


def _path(call: ToolCall) -> str:
    for name in ("file_path", "path", "filepath", "filename", "notebook_path"):
        value = call.arguments.get(name)
        if isinstance(value, str):
            return value
    return ""


def find_node(session: Session, node_id: str) -> Node:
    """A message of a conversation's tree. NotFound."""
    from clew.store.windows import message_of

    try:
        return message_of(session, node_id)
    except ClewError:
        raise NotFound("message", node_id) from None
