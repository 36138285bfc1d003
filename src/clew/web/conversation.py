"""One conversation: a window of its messages as HTML, its prompts, its branches, its facts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from html import escape
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from markupsafe import Markup

from clew.base.messages import Media
from clew.engine.node import Node
from clew.errors import ClewError, Corrupted, NotFound
from clew.exports.images import image_type, inline_bytes, is_inline
from clew.exports.render.message import Links, Renderer, last_number
from clew.exports.render.text import inline, one_line, plain
from clew.sources.registry import rules_for
from clew.store.session import Session
from clew.store.windows import Leaving, leaving, seams, window
from clew.turns.derive import items, late_results
from clew.turns.model import Entry, Item, ModelAnswer, ProgramNote, entry
from clew.web.downloads import media_in
from clew.web.files import ChangedFile, changed_files
from clew.web.outline import BATCH, WINDOW, Outline, outline, url, window_start
from clew.web.site import Site
from clew.web.views import agent_name, snippet

AFTER = 20
"""Messages read after a window, for the results of its last tool calls."""
SCANNED, STEP = 20_000, 1_000
"""Messages that are searched for a tool call, and how many are read at a time."""
NOTES = "notes"
"""Where a session's free data has notes: a list of texts for the id of a message."""


_REMOVE_NOTE = (
    '<button class="btn bare sm icon needs-script" type="button" data-write="unnote" aria-label="Remove this note"'
    ' title="Remove this note"><span class="i i-x" aria-hidden="true"></span></button>'
)


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
    outline: Outline
    branches: list[SideBranch]
    files: list[ChangedFile]
    """Files that tool calls changed: of the whole conversation if it is short, else of the window."""
    failed: int
    seams: list[int]
    """The numbers of the first messages after compactions, on the whole path."""


def view(
    site: Site, session: Session, first: int, *, last: int | None = None, head: str | None = None, whole: bool = True
) -> View:
    """The messages from number `first` on, one window of them, or up to `last`. NotFound.

    Without `whole`, only the articles: neither the outline nor the files.
    """
    first = max(1, first)
    upto = first + WINDOW - 1 if last is None else max(first, min(last, first + BATCH - 1))
    found = window(session, first, upto + AFTER, head=head)
    every = [hide_secrets(site, entry(node)) for node in found.nodes]
    entries, more = every[: upto - first + 1], every[upto - first + 1 :]
    links = _links(site, session, head)
    turns = seams(session, head=head)
    compacted = turns[-1] if turns else 0
    shown = [*entries, *late_results(entries, more)]
    renderer = Renderer(links, compacted=compacted, names=_names(session))
    branches = _branches(site, session, leaving(session, head=head))
    forks: dict[int, list[SideBranch]] = {}
    for side in branches:
        forks.setdefault(side.after, []).append(side)
    last_shown = first + len(entries) - 1
    waiting = sorted(after for after in forks if first <= after <= last_shown)
    articles: list[Markup] = []
    day: date | None = None
    for item in items(shown, rules_for(session), project=session.cwd or ""):
        if item.entry.number > last_shown:
            break
        while waiting and waiting[0] < item.entry.number:
            articles.append(_fork_bar(session, forks, waiting.pop(0), head))
        html = _article(site, session, renderer, item, (head, item.entry.number < compacted))
        today = item.entry.node.created_at.astimezone().date()
        if day != today and not (isinstance(item, ProgramNote) and item.kind == "compaction"):
            articles.append(Markup(f'<p class="date-line"><span>{today:%A}, {today.day} {today:%B %Y}</span></p>'))
            day = today
        articles.append(Markup(html))
    articles += [_fork_bar(session, forks, after, head) for after in waiting]
    ways = [(after, f"{_place(sides)} of {sides[0].of}") for after, sides in forks.items()]
    prompts = outline(session, site.secrets, first, head=head, forks=ways) if whole else Outline([], None, None)
    failed = sum(result.is_error for one in entries for result in one.results)
    return View(
        session, head, first, first + len(entries) - 1, found.total, articles, entries, prompts, branches,
        _changes(session, entries, found.total, head) if whole else [], failed, turns,
    )  # fmt: skip


def _changes(session: Session, entries: list[Entry], total: int, head: str | None) -> list[ChangedFile]:
    if len(entries) < total <= BATCH:
        return changed_files(map(entry, window(session, 1, total, head=head).nodes), session.cwd)
    return changed_files(entries, session.cwd)


def _names(session: Session) -> dict[str, str]:
    """Names for roles: in the trace of a subagent, the main agent asks and the subagent answers."""
    return {"user": "Main agent", "assistant": agent_name(session)} if session.is_subagent else {}


def newest(view: View) -> str:
    """The id of the last message on the page; new messages come after it. Empty if there are no messages."""
    if view.entries and view.last == view.total:
        return view.entries[-1].node.id
    return next((node.id for node in window(view.session, view.total, view.total, head=view.head).nodes), "")


def hide_secrets(site: Site, one: Entry) -> Entry:
    """The entry with its secrets concealed."""
    return one if one.message is None else one._replace(message=site.secrets.in_message(one.message))


def _fork_bar(session: Session, forks: dict[int, list[SideBranch]], after: int, head: str | None) -> Markup:
    return Markup(fork_bar(session, forks[after], after, head))


def fork_bar(session: Session, others: Sequence[SideBranch], after: int, head: str | None) -> str:
    """The line at a fork: which branch this is, the way to the others, and the comparison."""
    count, here = others[0].of, _place(others)
    taken = {other.place: other for other in others}
    around = [(here - 1, "Previous branch", "i-left", "["), (here + 1, "Next branch", "i-right", "]")]
    arrows = [
        f'<a class="btn bare sm icon" href="{escape(taken[place].url)}" aria-label="{label}" title="{label} ({key})"'
        f' data-branch="{key}"><span class="i {icon}" aria-hidden="true"></span></a>'
        if place in taken
        else '<span class="btn bare sm icon" aria-hidden="true"></span>'
        for place, label, icon, key in around
    ]
    words = " · ".join(
        f'<a href="{escape(other.url)}">{inline(one_line(other.title))}</a> ({other.messages:,})'
        for other in others[:4]
    )
    comparison = escape(compare_url(session, head, others[0].head_id))
    return (
        f'<nav class="fork" aria-label="Branches after message {after}">'
        '<svg viewBox="0 0 24 32" aria-hidden="true">'
        f'<path d="M1 0c0 12 4 16 22 16"/></svg><div class="fork-in"><span class="switch">{arrows[0]}{here} of {count}'
        f'{arrows[1]}</span><span class="names cut">other branches: {words}</span>'
        f'<a class="btn bare sm" href="{comparison}" data-compare><span class="i i-compare" aria-hidden="true"></span>'
        f"Compare</a></div></nav>"
    )


def _place(others: Sequence[SideBranch]) -> int:
    """The number of the path itself among the branches after a message."""
    taken = {other.place for other in others}
    return next((place for place in range(1, others[0].of + 1) if place not in taken), others[0].of)


def compare_url(session: Session, a: str | None, b: str) -> str:
    """The URL of the comparison of two paths."""
    return f"/c/{session.id}/compare?{urlencode({**({'a': a} if a else {}), 'b': b})}"


def subagents(session: Session) -> list[Session]:
    """The traces of its subagents; damaged ones are left out."""
    try:
        return session.subagents()
    except Corrupted:
        return []


def number_of_call(session: Session, call_id: str) -> int | None:
    """The number of the message with this tool call, among the newest `SCANNED` ones."""
    total = window(session, 1, 0).total
    for upto in range(total, max(0, total - SCANNED), -STEP):
        for node in reversed(window(session, max(1, upto - STEP + 1), upto).nodes):
            if any(call.id == call_id for call in entry(node).calls):
                return node.counters.messages
    return None


def _article(site: Site, session: Session, renderer: Renderer, item: Item, how: tuple[Any, ...]) -> str:
    noted = session.extra.get(NOTES)
    nodes = [one.node for one in item.entries]
    if isinstance(item, ModelAnswer):
        nodes += [step.answered.node for step in item.steps if step.answered is not None]
    mine = [noted.get(node.id) for node in nodes] if isinstance(noted, dict) else []
    numbers = item.entry.number, last_number(item)
    state = ([node.stamp for node in nodes], numbers, renderer.traces(item), mine)
    key = (session.id, *how, item.entry.node.id, type(item).__name__, getattr(item, "kind", ""))
    return site.rendered.get(key, state, lambda: renderer.article(item, first=item.entry.number == 1))


def media_links(session: Session) -> Links:
    """Where the attachments are: stored, or in the message itself."""
    base = f"/c/{session.id}"

    def media(one: Entry, block: Media) -> str | None:
        if block.blob is not None:
            return f"{base}/blob/{block.blob}?name={quote(block.name or '')}"
        if not is_inline(block) or one.message is None:
            return None
        place = next((place for place, other in enumerate(media_in(one.message)) if other is block), None)
        data = inline_bytes(block) if block.modality == "image" else None
        shown = place is not None and data is not None and image_type(data) is not None
        return f"{base}/m/{one.node.id}/media/{place}" if shown else None

    return Links(media=media)


def _links(site: Site, session: Session, head: str | None) -> Links:
    base = f"/c/{session.id}"
    traces = {str(trace.extra.get("call_id")): f"/c/{trace.id}" for trace in subagents(session)}
    notes = session.extra.get(NOTES)

    def below(one: Entry) -> str:
        texts = notes.get(one.node.id, ()) if isinstance(notes, dict) else ()
        remove = _REMOVE_NOTE if site.allow_write else ""
        return "".join(
            '<div class="note"><span class="i i-note" aria-hidden="true"></span>'
            f"<p>{plain(site.secrets.hide(str(text)))} <small>Your note</small></p>{remove}</div>"
            for text in texts
        )

    return Links(
        raw=lambda node: f"{base}/m/{node.id}/raw",
        permalink=lambda node: f"{base}/m/{node.id}",
        media=media_links(session).media,
        trace=traces.get,
        extra=_actions if site.allow_write else None,
        below=below,
    )


def _actions(one: Entry) -> str:
    """The buttons of a page that may write. They need the script."""
    buttons = (
        ("fork", "Fork here", "b", "i-fork"),
        ("rewind", "Rewind here", "w", "i-undo"),
        ("note", "Add a note", "a", "i-note"),
    )
    return "".join(
        f'<button class="btn bare sm icon needs-script" type="button" data-write="{name}" aria-label="{label}, message'
        f' {one.number}" title="{label}{f" ({key})" if key else ""}"><span class="i {icon}" aria-hidden="true"></span>'
        "</button>"
        for name, label, key, icon in buttons
    )


def _branches(site: Site, session: Session, sides: Sequence[Leaving]) -> list[SideBranch]:
    found = []
    for one in sides:
        fork, number = one.session, one.after + 1
        start = window_start(number)
        if fork is not None:
            where = url(fork, start=start, anchor=f"m{number}")
        else:
            where = url(session, head=one.head_id, start=start, anchor=f"m{number}")
        title = site.secrets.in_line(fork.title or "") if fork is not None else ""
        title = title or snippet(one.first, site.secrets, 60) or "Branch"
        found.append(
            SideBranch(title, where, one.messages, one.after, one.place, one.ways, one.head_id, fork is not None)
        )
    return found


def find_node(session: Session, node_id: str) -> Node:
    """A message of a conversation's tree. NotFound."""
    from clew.store.windows import message_of

    try:
        return message_of(session, node_id)
    except ClewError:
        raise NotFound("message", node_id) from None
