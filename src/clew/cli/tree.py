"""`clew tree`: messages and their branches."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import click

import clew
from clew.cli.exits import DAMAGED
from clew.cli.forest import END, INDENT, Leaf, Placed, arrange, snippet
from clew.cli.forms import Form, iso, json_options, out_lines
from clew.cli.moments import local
from clew.cli.place import find, reading, store_option
from clew.cli.text import clip, columns, dim, is_terminal, out_json, out_jsonl, plain, role_style, style, warn


@click.command(
    short_help="Show messages as a tree.",
    epilog="\b\nExamples:\n  clew tree\n  clew tree k3m9qa\n  clew tree --compact --limit 3",
)
@click.argument("id", required=False)
@click.option("--compact", is_flag=True, help="Indent only where the talk forks.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the N trees last active.")
@json_options
@store_option
@click.pass_context
def tree(ctx: click.Context, id: str | None, compact: bool, limit: int | None, form: Form) -> None:
    """Shows messages as a tree: all of them, those of a session with its branches, or a message and what follows it.

    What was last active comes last. A branch ends with ------.
    """
    damaged: list[str] = []
    with reading() as store:
        nodes = _everything(store) if id is None else _below(store, find(store, id))
        leaves = [_leaf(node, damaged) for node in nodes]
        placed = arrange(leaves, compact=compact, limit=limit)
        if form == "json":
            out_json([_json(one) for one in placed])
        elif form == "jsonl":
            out_jsonl(_json(one) for one in placed)
        elif not leaves:
            warn("No messages found.")
        else:
            deepest = [0]
            out_lines(_lines(placed, deepest))
            room = columns()
            if room is not None and not compact and deepest[0] * len(INDENT) > room // 2:
                warn(dim("--compact indents only where the talk forks."))
    for one in damaged:
        warn(f"clew: message {one} is damaged")
    ctx.exit(DAMAGED if damaged else 0)


def _everything(store: clew.Store) -> Iterator[clew.Node]:
    cursor = None
    while True:
        page = store.nodes.list(limit=500, cursor=cursor, ascending=True, trashed=False)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def _below(store: clew.Store, found: clew.Session | clew.Node) -> Iterable[clew.Node]:
    """A message and what follows it; of a session, every tree that its talk and its branches stand in."""
    if isinstance(found, clew.Node):
        return store.nodes.subtree(found.id)
    roots = {node.id: None for node in found.history() if node.parent_id is None}
    for branch in found.branches():
        roots[store.nodes.path(branch.head_id)[0].id] = None
    return (node for root in roots for node in store.nodes.subtree(root))


def _leaf(node: clew.Node, damaged: list[str]) -> Leaf:
    try:
        words = snippet(node.message)
    except clew.Tampered:
        damaged.append(node.id)
        words = "(damaged)"
    return Leaf(node.id, node.parent_id, node.created_at, node.role, node.handle, words)


def _lines(placed: Iterable[Placed], deepest: list[int]) -> Iterator[str]:
    room = columns() if is_terminal(sys.stdout) else None
    for leaf, level, last in placed:
        indent = INDENT * level
        deepest[0] = max(deepest[0], level)
        role = role_style(leaf.role, leaf.role.upper())
        start = f"{indent}{style(leaf.handle, '33')} {dim(f'({local(leaf.at)})')} [{role}]"
        words = plain(leaf.snippet)
        if room is not None:  # a line that a terminal would break spoils the picture
            words = clip(words, max(12, room - len(indent) - len(leaf.handle) - len(leaf.role) - 23))
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
        "level": placed.level,
        "last": placed.last,
    }
