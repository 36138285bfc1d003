"""`clew tree`: messages and their branches."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import click

import clew
from clew.cli.exits import DAMAGED
from clew.cli.forest import END, INDENT, Leaf, Placed, arrange, snippet
from clew.cli.forms import Form, iso, json_options, out_lines
from clew.cli.moments import local
from clew.cli.place import find, reading, store_option
from clew.cli.text import (
    clip,
    columns,
    dim,
    is_terminal,
    note,
    out,
    out_json,
    out_jsonl,
    plain,
    role_style,
    style,
    warn,
)
from clew.paging import every

PAGE = 500

here_option = click.option("--here", is_flag=True, help="Those of the sessions of the current directory.")
compact_option = click.option("--compact", is_flag=True, help="Indent only where the talk forks.")
limit_option = click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the N trees last active.")


@click.command(
    short_help="Show messages as a tree.",
    epilog="\b\nExamples:\n  clew tree\n  clew tree k3m9qa\n  clew tree --here --compact --limit 3",
)
@click.argument("id", required=False)
@compact_option
@limit_option
@here_option
@json_options
@store_option
@click.pass_context
def tree(ctx: click.Context, id: str | None, compact: bool, limit: int | None, here: bool, form: Form) -> None:
    """Shows messages as a tree: all of them, those of a session with its branches, or a message and what follows it.

    What was last active comes last. A branch ends with ------. A subagent's trace stands under the message that
    called it.
    """
    if id is not None and here:
        raise click.UsageError("--here chooses sessions: leave it out, or ID")
    with reading() as store:
        nodes = of_here(store) if here else everything(store) if id is None else _below(store, find(store, id))
        ctx.exit(draw(store, nodes, compact=compact, limit=limit, form=form))


def draw(
    store: clew.Store,
    nodes: Iterable[clew.Node],
    *,
    compact: bool,
    limit: int | None,
    form: Form,
    names: Mapping[str, str] | None = None,
) -> int:
    """Writes nodes as a tree; `names` has other words for roles. Returns the exit code: it is told what is damaged."""
    damaged: list[str] = []
    traces = _traces(store)
    leaves = [_leaf(node, damaged, traces, names or {}) for node in nodes]
    placed: Iterable[Placed] = arrange(leaves, compact=compact, limit=limit)
    if form == "json":
        out_json([_json(one) for one in placed])
    elif form == "jsonl":
        out_jsonl(_json(one) for one in placed)
    elif not leaves:
        (warn if names is None else out)("No messages found.")
    else:
        room = columns() if is_terminal(sys.stdout) else None
        if room is not None and not compact:
            placed = list(placed)
            if max(one.level for one in placed) > _deepest(room):
                placed = arrange(leaves, compact=True, limit=limit)
                note("Too deep for this width: indented only at forks.")
        out_lines(_lines(placed, room))
    for one in damaged:
        warn(f"clew: message {one} is damaged")
    return DAMAGED if damaged else 0


class Trace(NamedTuple):
    """A subagent's session: who, and which message called it."""

    agent: str
    called_at: str | None


def _traces(store: clew.Store) -> dict[str, Trace]:
    """The traces of subagents, by the first message of each."""
    found: dict[str, Trace] = {}
    for session in every(partial(store.sessions.list, limit=PAGE, subagents=True, include_expired=True)):
        with suppress(clew.Tampered):
            first = next(session.history(), None)
            if first is not None and first.parent_id is None:
                found[first.id] = Trace(session.agent or "", _called_at(store, session))
    return found


def _called_at(store: clew.Store, session: clew.Session) -> str | None:
    """The message of its owner that called a subagent; if none is noted, the owner's last."""
    noted = session.extra.get("called_at")
    if isinstance(noted, str):
        return noted
    owner = session.owner_id
    return None if owner is None else store.sessions.get(owner).head_id


def of_here(store: clew.Store) -> Iterator[clew.Node]:
    """The trees of the sessions of the current directory, and of their subagents."""
    seen: dict[str, None] = {}
    for session in every(partial(store.sessions.list, limit=PAGE, cwd=os.getcwd(), include_expired=True)):
        for one in (session, *session.subagents()):
            seen |= dict.fromkeys(_roots(store, one))
    for root in seen:
        yield from store.nodes.subtree(root)


def everything(store: clew.Store) -> Iterator[clew.Node]:
    """All messages, in the order they were stored."""
    return every(partial(store.nodes.list, limit=PAGE, ascending=True, trashed=False))


def _below(store: clew.Store, found: clew.Session | clew.Node) -> Iterable[clew.Node]:
    """A message and what follows it; of a session, every tree that its talk and its branches stand in."""
    if isinstance(found, clew.Node):
        return store.nodes.subtree(found.id)
    roots = [root for one in (found, *found.subagents()) for root in _roots(store, one)]
    return (node for root in dict.fromkeys(roots) for node in store.nodes.subtree(root))


def _roots(store: clew.Store, session: clew.Session) -> Iterator[str]:
    yield from (node.id for node in session.history() if node.parent_id is None)
    for branch in session.branches():
        yield store.nodes.path(branch.head_id)[0].id


def _leaf(node: clew.Node, damaged: list[str], traces: Mapping[str, Trace], names: Mapping[str, str]) -> Leaf:
    try:
        words = snippet(node.message)
    except clew.Tampered:
        damaged.append(node.id)
        words = "(damaged)"
    trace = traces.get(node.id, Trace("", None))
    role = names.get(node.role, node.role)
    at = node.created_at
    return Leaf(node.id, node.parent_id, at, role, node.handle, words, trace.agent or None, trace.called_at)


def _deepest(room: int) -> int:
    """The deepest level whose lines fit a terminal, with a few words."""
    return max(1, (room - 50) // len(INDENT))


def _lines(placed: Iterable[Placed], room: int | None) -> Iterator[str]:
    for leaf, level, last in placed:
        indent = INDENT * (level if room is None else min(level, _deepest(room)))
        role = role_style(leaf.role.partition("_")[0], leaf.role.upper())
        start = f"{indent}{style(leaf.handle, '33')} {dim(f'({local(leaf.at)})')} [{role}]"
        words = plain(leaf.snippet if leaf.agent is None else f"↳ {leaf.agent}: {leaf.snippet}")
        if room is not None:  # a line that a terminal would break spoils the picture
            words = clip(words, max(4, room - len(indent) - len(leaf.handle) - len(leaf.role) - 23))
        yield f"{start} {words}".rstrip()
        if last:
            yield indent + dim(END)


def _json(placed: Placed) -> dict[str, Any]:
    leaf = placed.leaf
    return {
        "id": leaf.id,
        "handle": leaf.handle,
        "parent_id": leaf.parent,
        "created_at": iso(leaf.at),
        "role": leaf.role,
        "snippet": leaf.snippet,
        "agent": leaf.agent,
        "under": leaf.under,
        "level": placed.level,
        "last": placed.last,
    }
