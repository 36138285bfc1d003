"""`clew show`: a conversation as text that reads like Markdown, or as a document."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Literal

import click
import msgspec

import clew
from clew.cli import document
from clew.cli.document import HIDDEN, fenced, folded, interrupted, placeholder, read
from clew.cli.exits import DAMAGED
from clew.cli.forms import Form, json_options, node_json, out_lines, session_json
from clew.cli.moments import ago, local
from clew.cli.place import find, reading, store_option
from clew.cli.text import (
    bold,
    dim,
    fitted,
    is_terminal,
    many,
    out_json,
    out_jsonl,
    paragraphs,
    plain,
    role_style,
    style,
    warn,
)
from clew.model import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult


@click.command(
    short_help="Show a session, or the talk up to a message.",
    epilog="\b\nExamples:\n  clew show k3m9qa\n  clew show k3m9qa --last 4 --fold\n"
    "  clew show k3m9qa --jsonl | jq -r .text\n  clew show k3m9qa --as html > talk.html\n"
    "  clew show k3m9qa --last 10 --follow",
)
@click.argument("id")
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the last N messages.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what is said from now on, until Ctrl+C.")
@click.option("--fold", is_flag=True, help="Thinking and tools on one line each; in HTML, closed.")
@click.option(
    "--as", "kind", type=click.Choice(["text", "markdown", "md", "html", "json", "raw"]), default="text",
    help="A document: markdown (or md), html, json; or raw, each provider's own JSON.  [default: text]",
)  # fmt: skip
@json_options
@store_option
@click.pass_context
def show(ctx: click.Context, id: str, last: int | None, follow: bool, fold: bool, kind: Kind, form: Form) -> None:
    """Shows a session, or with the id of a message the talk that led to it. ID is an id or a handle.

    On a terminal it goes through PAGER, if that is set.
    """
    if kind != "text" and form != "text":
        raise click.UsageError("--as and --json are two forms of the same: give one")
    form = "json" if kind == "json" else form
    if follow and (form == "json" or kind == "html"):
        raise click.UsageError("what is followed has no end, as a document must have: use --jsonl, or text")
    damaged: list[str] = []
    with reading() as store:
        found = find(store, id)
        session = found if isinstance(found, clew.Session) else None
        nodes: Iterable[clew.Node]
        if session is None:
            if follow:
                raise click.UsageError("nothing follows on a message: --follow takes a session")
            nodes = store.nodes.path(found.id, last=last)
        else:
            nodes = session.iter() if last is None else session.path(last=last)
            nodes = _followed(session, nodes) if follow else nodes
        nodes = _noting(nodes, damaged)
        if form == "text":
            out_lines(_lines(session, nodes, kind, fold), paged=not follow)
        else:
            messages = (node_json(node) for node in nodes)
            if form == "jsonl":
                out_jsonl(messages)
            else:
                out_json({"session": None if session is None else session_json(session), "messages": list(messages)})
    for one in damaged:
        warn(f"clew: message {one} is damaged")
    ctx.exit(DAMAGED if damaged else 0)


Kind = Literal["text", "markdown", "md", "html", "json", "raw"]


def _followed(session: clew.Session, nodes: Iterable[clew.Node]) -> Iterator[clew.Node]:
    """The nodes, and after them what comes; whoever reads has it all while nothing does."""
    last = None
    for node in nodes:
        last = node.id
        yield node
    sys.stdout.flush()
    for node in session.watch(after=last):
        yield node
        sys.stdout.flush()


def _noting(nodes: Iterable[clew.Node], damaged: list[str]) -> Iterator[clew.Node]:
    """The nodes; `damaged` gets the ids of those that cannot be read."""
    for node in nodes:
        if read(node)[0] is None:
            damaged.append(node.id)
        yield node


def _lines(session: clew.Session | None, nodes: Iterable[clew.Node], kind: Kind, fold: bool) -> Iterator[str]:
    match kind:
        case "markdown" | "md":
            return document.markdown_lines(session, nodes, fold=fold)
        case "html":
            return document.html_lines(session, nodes, fold=fold)
        case "raw":
            return _raw(nodes)
        case _:
            return _text(session, nodes, fold)


def _raw(nodes: Iterable[clew.Node]) -> Iterator[str]:
    """Each message as its provider wrote it, on a line; one without a provider as clew writes it."""
    for node in nodes:
        message, _ = read(node)
        if message is not None:
            native = node.native
            raw = msgspec.json.encode(message) if native is None else native.raw
            text = raw.decode(errors="replace")
            yield plain(text) if is_terminal(sys.stdout) else text


def _text(session: clew.Session | None, nodes: Iterable[clew.Node], fold: bool) -> Iterator[str]:
    if session is not None:
        yield from _head(session)
    for number, node in enumerate(nodes):
        if number or session is not None:
            yield ""
        message, why = read(node)
        yield _header(node, message)
        if message is None:
            yield ""
            yield style(f"(damaged: {plain(why)})", "31")
        elif message.blocks:
            yield ""
            yield from said_lines(message, fold=fold)


def said_lines(message: clew.Message, *, fold: bool = False) -> Iterator[str]:
    """What a message says, its blocks parted by empty lines; with `fold`, what is no words on one line."""
    for number, block in enumerate(message.blocks):
        if number:
            yield ""
        yield from _block(block) if not fold or isinstance(block, Text) else map(dim, folded(block))


def _head(session: clew.Session) -> Iterator[str]:
    count, when = many(session.counters.messages, "message"), ago(session.updated_at, datetime.now(UTC))
    parts = [style(session.handle, "33"), count, when]
    parts += [plain(part) for part in (session.cwd, session.model, *(f"#{label}" for label in session.labels)) if part]
    yield bold(f"# {plain(session.title or 'Untitled')}")
    yield dim(" · ").join(parts)


def _header(node: clew.Node, message: clew.Message | None) -> str:
    model = (message and message.model) or ""
    beside = [style(node.handle, "33"), dim(local(node.created_at)), *([dim(plain(model))] if model else [])]
    beside += [style("interrupted", "33")] if interrupted(message) else []
    return f"{role_style(node.role, f'## {node.role}')} {dim('·')} {dim(' · ').join(beside)}"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Text():
            for line in paragraphs(block.text):
                yield from fitted(line)
        case Thinking():
            yield from (dim(f"> {line}".rstrip()) for line in paragraphs(block.text or HIDDEN))
        case ToolCall():
            yield f"{bold('tool call')} {plain(block.name)} {dim(plain(block.id))}"
            yield from _fenced(block.arguments)
        case ToolResult():
            mark = style(" error", "1;31") if block.is_error else ""
            yield f"{bold('tool result')}{mark} {dim(plain(block.call_id))}"
            for inner in block.content:
                yield from _block(inner)
        case Media():
            yield placeholder(block)
        case Opaque():
            yield dim(plain(f"[{block.kind}]"))
            yield from _fenced(block.data)


def _fenced(value: Any) -> Iterator[str]:
    first, *lines, last = fenced(value)
    yield dim(first)
    yield from lines
    yield dim(last)
