"""`clew tree`: shows messages and their branches."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import click

import clew
from clew.base.visible import plain
from clew.cli.exits import DAMAGED
from clew.cli.options import examples
from clew.cli.output.json import Form, iso, json_options, out_lines
from clew.cli.output.text import (
    clip,
    columns,
    dim,
    is_terminal,
    note,
    out,
    out_json,
    out_jsonl,
    role_style,
    style,
    warn,
)
from clew.cli.output.times import local
from clew.cli.output.tree_layout import END, INDENT, TreeItem, TreeRow, arrange, snippet
from clew.cli.setup.find import find
from clew.cli.setup.open_store import open_for_reading, store_option
from clew.store.origin import name_of

PAGE = 500

here_option = click.option("--here", is_flag=True, help="Only conversations of the current directory.")
limit_option = click.option(
    "-n", "--limit", type=click.IntRange(1), metavar="N", help="Only the N most recently active trees."
)


@click.command(epilog=examples("clew tree", "clew tree k3m9qa", "clew tree --here --limit 3"))
@click.argument("id", required=False)
@limit_option
@here_option
@json_options
@store_option
@click.pass_context
def tree(ctx: click.Context, id: str | None, limit: int | None, here: bool, form: Form) -> None:
    """Show messages as a tree: all messages, those of a conversation, or a message and its descendants.

    The most recently active conversation comes last. Lines are indented at forks, and ------ ends a branch.
    Messages of a subagent are below the message that called it.
    """
    if id is not None and here:
        raise click.UsageError("--here cannot be used with an ID")
    with open_for_reading() as store:
        nodes = of_here(store) if here else everything(store) if id is None else _below(store, find(store, id))
        ctx.exit(draw(store, nodes, compact=True, limit=limit, form=form))


def draw(
    store: clew.Store,
    nodes: Iterable[clew.Node],
    *,
    compact: bool,
    limit: int | None,
    form: Form,
    names: Mapping[str, str] | None = None,
) -> int:
    """Prints nodes as a tree, and reports damaged ones; `names` renames roles. Returns the exit code."""
    damaged: list[str] = []
    traces = _traces(store)
    items = [_tree_item(node, damaged, traces, names or {}) for node in nodes]
    rows: Iterable[TreeRow] = arrange(items, compact=compact, limit=limit)
    if form == "json":
        out_json([_json(one) for one in rows])
    elif form == "jsonl":
        out_jsonl(_json(one) for one in rows)
    elif not items:
        (warn if names is None else out)("No messages found.")
    else:
        room = columns() if is_terminal(sys.stdout) else None
        if room is not None and not compact:
            rows = list(rows)
            if max(one.level for one in rows) > _deepest(room):
                rows = arrange(items, compact=True, limit=limit)
                note("Terminal too narrow: indented only at forks.")
        out_lines(_lines(rows, room))
    for one in damaged:
        warn(f"clew: message {one} is damaged")
    return DAMAGED if damaged else 0


class Trace(NamedTuple):
    """A subagent's session: the agent, and the message that called it."""

    agent: str
    called_at: str | None


def _traces(store: clew.Store) -> dict[str, Trace]:
    """The sessions of subagents, by their first message."""
    found: dict[str, Trace] = {}
    for session in store.sessions.list(limit=PAGE, subagents=True, include_expired=True).all():
        with suppress(clew.Corrupted):
            first = next(session.history(), None)
            if first is not None and first.parent_id is None:
                found[first.id] = Trace(session.agent or "", _called_at(store, session))
    return found


def _called_at(store: clew.Store, session: clew.Session) -> str | None:
    """The owner's message that called a subagent; if unknown, the owner's last message."""
    noted = session.extra.get("called_at")
    if isinstance(noted, str):
        return noted
    owner = session.owner_id
    return None if owner is None else store.sessions.get(owner).head_id


def of_here(store: clew.Store) -> Iterator[clew.Node]:
    """The trees of the sessions of the current directory and of their subagents."""
    seen: dict[str, None] = {}
    for session in store.sessions.list(limit=PAGE, cwd=os.getcwd(), include_expired=True).all():
        for one in (session, *session.subagents()):
            seen |= dict.fromkeys(_roots(store, one))
    for root in seen:
        yield from store.nodes.subtree(root)


def everything(store: clew.Store) -> Iterator[clew.Node]:
    """All messages, in the order they were stored."""
    return store.nodes.list(limit=PAGE, ascending=True, trashed=False).all()


def _below(store: clew.Store, found: clew.Session | clew.Node) -> Iterable[clew.Node]:
    """The subtree of a message; for a session, all trees with its messages and branches."""
    if isinstance(found, clew.Node):
        return store.nodes.subtree(found.id)
    roots = [root for one in (found, *found.subagents()) for root in _roots(store, one)]
    return (node for root in dict.fromkeys(roots) for node in store.nodes.subtree(root))


def _roots(store: clew.Store, session: clew.Session) -> Iterator[str]:
    yield from (node.id for node in session.history() if node.parent_id is None)
    for branch in session.branches():
        yield store.nodes.path(branch.head_id)[0].id


def _tree_item(node: clew.Node, damaged: list[str], traces: Mapping[str, Trace], names: Mapping[str, str]) -> TreeItem:
    try:
        words = snippet(node.message)
    except clew.Corrupted:
        damaged.append(node.id)
        words = "(damaged)"
    trace = traces.get(node.id, Trace("", None))
    role = names.get(node.role, node.role)
    at, name = node.created_at, name_of(node)
    given = None if name == node.handle else name
    return TreeItem(node.id, node.parent_id, at, role, node.handle, words, trace.agent or None, trace.called_at, given)


def _deepest(room: int) -> int:
    """The deepest level that leaves room for some words."""
    return max(1, (room - 50) // len(INDENT))


def _lines(rows: Iterable[TreeRow], room: int | None) -> Iterator[str]:
    for item, level, last in rows:
        indent = INDENT * (level if room is None else min(level, _deepest(room)))
        role = role_style(item.role.partition("_")[0], item.role.upper())
        name = item.cpe_id or item.handle
        start = f"{indent}{style(name, '33')} {dim(f'({local(item.at)})')} [{role}]"
        words = plain(item.snippet if item.agent is None else f"↳ {item.agent}: {item.snippet}")
        if room is not None:  # a wrapped line would break the tree
            words = clip(words, max(4, room - len(indent) - len(name) - len(item.role) - 23))
        yield f"{start} {words}".rstrip()
        if last:
            yield indent + dim(END)


def _json(rows: TreeRow) -> dict[str, Any]:
    item = rows.item
    return {
        "id": item.id,
        "handle": item.handle,
        "parent_id": item.parent,
        "created_at": iso(item.at),
        "role": item.role,
        "snippet": item.snippet,
        "agent": item.agent,
        "under": item.under,
        "level": rows.level,
        "last": rows.last,
        **({} if item.cpe_id is None else {"cpe_id": item.cpe_id}),
    }
