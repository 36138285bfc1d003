"""`clew show`: prints a conversation as text, Markdown, HTML or JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Literal

import click
import msgspec

import clew
from clew.base.visible import many, plain
from clew.cli.exits import DAMAGED
from clew.cli.options import examples
from clew.cli.output.conversation import Look, lines, look
from clew.cli.output.json import Form, json_options, node_json, out_lines, session_json
from clew.cli.output.text import bold, dim, is_terminal, out_json, out_jsonl, style, warn
from clew.cli.output.times import ago
from clew.cli.setup.find import find, find_point, find_session
from clew.cli.setup.open_store import open_for_reading, store_option
from clew.cli.setup.settings import prices
from clew.exports.to_html import html
from clew.exports.to_markdown import markdown
from clew.sources.registry import rules_for
from clew.store.windows import between
from clew.turns.derive import stream
from clew.turns.model import PLAIN, entry
from clew.turns.words import short_model


@click.command(
    epilog=examples(
        "clew show k3m9qa",
        "clew show k3m9qa --last 4 --fold",
        "clew show k3m9qa --jsonl | jq -r .text",
        "clew show k3m9qa --as html > conversation.html",
        "clew show k3m9qa --last 10 --follow",
    ),
)
@click.argument("id", required=False, metavar="[ID]")
@click.option("--last", type=click.IntRange(1), metavar="N", help="Show only the last N messages.")
@click.option("--current", is_flag=True, help="Leave out messages that a compaction replaced: what the model sees now.")
@click.option("--follow", "-f", is_flag=True, help="Keep printing new messages until Ctrl+C.")
@click.option("--fold", is_flag=True, help="Show thinking and tool calls on one line each; in HTML, collapsed.")
@click.option("--unfold", is_flag=True, help="Show system prompts, instructions, reminders and summaries in full.")
@click.option(
    "--as", "kind", type=click.Choice(["text", "markdown", "md", "html", "json", "raw"]), default="text",
    help="Output format; raw prints each message in the JSON of its provider.  [default: text]",
)  # fmt: skip
@json_options
@store_option
@click.pass_context
def show(
    ctx: click.Context,
    id: str | None,
    last: int | None,
    current: bool,
    follow: bool,
    fold: bool,
    unfold: bool,
    kind: Kind,
    form: Form,
) -> None:
    """Show a conversation. If ID is a message, show the messages up to it.

    Without ID, show the latest conversation of the current directory. ID can be an ID or a handle, the beginning of
    an ID or of a title, or a position: @last is the most recently active conversation, @-2 the one before it. On a
    terminal, uses PAGER, or less.

    Shows the whole history, also messages that a summary replaced: a line marks where. In JSON, the summary has the
    field "compacted": the number of messages before it.
    """
    if kind != "text" and form != "text":
        raise click.UsageError("--as cannot be used with --json or --jsonl")
    form = "json" if kind == "json" else form
    if follow and (form == "json" or kind == "html"):
        raise click.UsageError("--follow cannot be used with JSON or HTML output; use --jsonl or text")
    damaged: list[str] = []
    with open_for_reading() as store:
        found = find_session(store, None) if id is None else find(store, id)
        session = found if isinstance(found, clew.Session) else None
        if session is None and follow:
            raise click.UsageError("--follow needs a conversation, not a message")
        nodes = _collect_damaged(_current(store, found, last) if current else _history(store, found, last), damaged)
        following = _Following(session if follow else None, nodes)
        if form == "text" and kind == "text":
            how = look(fold=fold, unfold=unfold)
            out_lines(_text(session, _session_of(store, found), following, how), paged=not follow, pager="less -R")
        elif form == "text":
            out_lines(_lines(session, following, kind, fold), paged=not follow, pager="less -R")
        else:
            messages = map(_message_json, following)
            if form == "jsonl":
                out_jsonl(messages)
            else:
                out_json({"session": None if session is None else session_json(session), "messages": list(messages)})
    for one in damaged:
        warn(f"clew: message {one} is damaged")
    ctx.exit(DAMAGED if damaged else 0)


Kind = Literal["text", "markdown", "md", "html", "json", "raw"]


def _current(store: clew.Store, found: clew.Session | clew.Node, last: int | None) -> Iterable[clew.Node]:
    """The messages that the model sees."""
    if isinstance(found, clew.Session):
        return found.iter() if last is None else found.path(last=last)
    return store.nodes.path(found.id, last=last)


def _history(store: clew.Store, found: clew.Session | clew.Node, last: int | None) -> Iterable[clew.Node]:
    """All messages, also those that compactions replaced."""
    if isinstance(found, clew.Session):
        return found.history() if last is None else between(found, -last)
    try:
        session, head = find_point(store, found.id)
    except clew.NotFound:  # a message of no conversation: nothing can have compacted it
        return _current(store, found, last)
    return between(session, 1 if last is None else -last, head=head)


def _session_of(store: clew.Store, found: clew.Session | clew.Node) -> clew.Session | None:
    """The session whose rules say how to show what was found."""
    if isinstance(found, clew.Session):
        return found
    with suppress(clew.NotFound):
        return find_point(store, found.id)[0]
    return None


def _message_json(node: clew.Node) -> dict[str, Any]:
    one = entry(node)
    return {**node_json(node), **({"compacted": one.number - 1} if one.is_summary else {})}


class _Following:
    """The nodes; with a session, then new ones as they arrive."""

    def __init__(self, session: clew.Session | None, nodes: Iterable[clew.Node]) -> None:
        self._session, self._nodes = session, nodes
        self._last: str | None = None

    def __iter__(self) -> Iterator[clew.Node]:
        return chain(self.old(), self.new())

    def old(self) -> Iterator[clew.Node]:
        """The nodes that are there."""
        for node in self._nodes:
            self._last = node.id
            yield node

    def new(self) -> Iterator[clew.Node]:
        """The nodes that come; flushes the output before each wait."""
        if self._session is None:
            return
        sys.stdout.flush()
        for node in self._session.watch(after=self._last):
            yield node
            sys.stdout.flush()


def _collect_damaged(nodes: Iterable[clew.Node], damaged: list[str]) -> Iterator[clew.Node]:
    """The nodes; adds the IDs of damaged ones to `damaged`."""
    for node in nodes:
        if entry(node).message is None:
            damaged.append(node.id)
        yield node


def _lines(session: clew.Session | None, nodes: Iterable[clew.Node], kind: Kind, fold: bool) -> Iterator[str]:
    match kind:
        case "markdown" | "md":
            return markdown(session, nodes, detail="folded" if fold else "full")
        case "html":
            return html(session, nodes, fold=fold, prices=prices())
        case _:
            return _raw(nodes)


def _raw(nodes: Iterable[clew.Node]) -> Iterator[str]:
    """Each message on a line in the JSON of its provider, or of clew."""
    for node in nodes:
        message = entry(node).message
        if message is not None:
            native = node.native
            raw = msgspec.json.encode(message) if native is None else native.raw
            text = raw.decode(errors="replace")
            yield plain(text) if is_terminal(sys.stdout) else text


def _text(session: clew.Session | None, of: clew.Session | None, nodes: _Following, how: Look) -> Iterator[str]:
    if session is not None:
        yield from _head(session)
    rules, project = (PLAIN, "") if of is None else (rules_for(of), of.cwd or "")
    old = stream(map(entry, nodes.old()), rules, project=project)
    new = stream(map(entry, nodes.new()), rules, project=project, ahead=0)
    shown = lines(chain(old, new), how)
    if session is None:
        next(shown, None)
    yield from shown


def _head(session: clew.Session) -> Iterator[str]:
    count, when = many(session.counters.messages, "message"), ago(session.updated_at, datetime.now(UTC))
    parts = [style(session.handle, "33"), count, when]
    model = short_model(session.model)
    parts += [plain(part) for part in (session.cwd, model, *(f"#{label}" for label in session.labels)) if part]
    yield bold(f"# {plain(session.title or 'Untitled')}")
    yield dim(" · ").join(parts)
