"""`clew show`: prints a conversation as text, Markdown, HTML or JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Literal

import click
import msgspec

import clew
from clew.base.messages import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.base.visible import paragraphs, plain
from clew.cli.exits import DAMAGED
from clew.cli.options import examples
from clew.cli.output.json import Form, json_options, node_json, out_lines, session_json
from clew.cli.output.text import bold, dim, is_terminal, many, out_json, out_jsonl, role_style, style, warn, wrap
from clew.cli.output.times import ago, local
from clew.cli.setup.find import find, find_point, find_session
from clew.cli.setup.open_store import open_for_reading, store_option
from clew.exports.to_html import html
from clew.exports.to_markdown import (
    HIDDEN,
    count_replaced,
    fold_block,
    is_interrupted,
    json_fence,
    markdown,
    placeholder,
    read,
    seam_text,
)
from clew.store.origin import name_of
from clew.store.windows import between


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
    kind: Kind,
    form: Form,
) -> None:
    """Show the conversation ID; or, if ID is a message, the messages up to it.

    Without ID, shows the latest conversation of the current directory. ID can be an ID or a handle, the beginning of an
    ID or of a title, or a position: @last is the conversation that was active last, @-2 the one before it. On a
    terminal, uses PAGER if it is set.

    Shows the whole history: where a compaction replaced messages by a summary, a line says so, and in JSON the first
    message after it has the field "compacted", the number of messages before.
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
        nodes = _current(store, found, last) if current else _history(store, found, last)
        nodes = _follow(session, nodes) if session is not None and follow else nodes
        nodes = _collect_damaged(nodes, damaged)
        if form == "text":
            out_lines(_lines(session, nodes, kind, fold), paged=not follow)
        else:
            messages = map(_message_json, nodes)
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


def _message_json(node: clew.Node) -> dict[str, Any]:
    before = count_replaced(node)
    return {**node_json(node), **({"compacted": before} if before else {})}


def _follow(session: clew.Session, nodes: Iterable[clew.Node]) -> Iterator[clew.Node]:
    """The nodes, then new ones as they arrive; flushes the output before each wait."""
    last = None
    for node in nodes:
        last = node.id
        yield node
    sys.stdout.flush()
    for node in session.watch(after=last):
        yield node
        sys.stdout.flush()


def _collect_damaged(nodes: Iterable[clew.Node], damaged: list[str]) -> Iterator[clew.Node]:
    """The nodes; adds the IDs of damaged ones to `damaged`."""
    for node in nodes:
        if read(node)[0] is None:
            damaged.append(node.id)
        yield node


def _lines(session: clew.Session | None, nodes: Iterable[clew.Node], kind: Kind, fold: bool) -> Iterator[str]:
    match kind:
        case "markdown" | "md":
            return markdown(session, nodes, detail="folded" if fold else "full")
        case "html":
            return html(session, nodes, fold=fold)
        case "raw":
            return _raw(nodes)
        case _:
            return _text(session, nodes, fold)


def _raw(nodes: Iterable[clew.Node]) -> Iterator[str]:
    """Each message on a line in the JSON of its provider, or of clew."""
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
        if before := count_replaced(node):
            yield from (*(style(line, "33") for line in wrap(seam_text(before))), "")
        message, why = read(node)
        yield _header(node, message)
        if message is None:
            yield ""
            yield style(f"(damaged: {plain(why)})", "31")
        elif message.blocks:
            yield ""
            yield from message_lines(message, fold=fold)


def message_lines(message: clew.Message, *, fold: bool = False) -> Iterator[str]:
    """The blocks of a message, separated by empty lines; with `fold`, thinking and tools on one line each."""
    for number, block in enumerate(message.blocks):
        if number:
            yield ""
        yield from _block(block) if not fold or isinstance(block, Text) else map(dim, fold_block(block))


def _head(session: clew.Session) -> Iterator[str]:
    count, when = many(session.counters.messages, "message"), ago(session.updated_at, datetime.now(UTC))
    parts = [style(session.handle, "33"), count, when]
    parts += [plain(part) for part in (session.cwd, session.model, *(f"#{label}" for label in session.labels)) if part]
    yield bold(f"# {plain(session.title or 'Untitled')}")
    yield dim(" · ").join(parts)


def _header(node: clew.Node, message: clew.Message | None) -> str:
    model = (message and message.model) or ""
    beside = [style(name_of(node), "33"), dim(local(node.created_at)), *([dim(plain(model))] if model else [])]
    beside += [style("interrupted", "33")] if is_interrupted(message) else []
    return f"{role_style(node.role, f'## {node.role}')} {dim('·')} {dim(' · ').join(beside)}"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Text():
            for line in paragraphs(block.text):
                yield from wrap(line)
        case Thinking():
            yield from (dim(f"> {line}".rstrip()) for line in paragraphs(block.text or HIDDEN))
        case ToolCall():
            yield f"{bold('tool call')} {plain(block.name)} {dim(plain(block.id))}"
            yield from _dim_fence(block.arguments)
        case ToolResult():
            mark = style(" error", "1;31") if block.is_error else ""
            yield f"{bold('tool result')}{mark} {dim(plain(block.call_id))}"
            for inner in block.content:
                yield from _block(inner)
        case Media():
            yield placeholder(block)
        case Opaque():
            yield dim(plain(f"[{block.kind}]"))
            yield from _dim_fence(block.data)


def _dim_fence(value: Any) -> Iterator[str]:
    first, *lines, last = json_fence(value)
    yield dim(first)
    yield from lines
    yield dim(last)
