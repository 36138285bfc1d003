"""`clew show`: a conversation as text that reads like Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

import clew
from clew.cli.exits import DAMAGED
from clew.cli.forms import Form, json_options, node_json, out_lines, session_json
from clew.cli.moments import ago, local
from clew.cli.place import find, reading, store_option
from clew.cli.text import bold, dim, fitted, out_json, out_jsonl, paragraphs, plain, role_style, style, warn
from clew.model import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult


@click.command(
    short_help="Show a session, or the talk up to a message.",
    epilog="\b\nExamples:\n  clew show k3m9qa\n  clew show k3m9qa --last 4\n  clew show k3m9qa --jsonl | jq -r .text",
)
@click.argument("id")
@click.option("--last", type=click.IntRange(1), metavar="N", help="Only the last N messages.")
@json_options
@store_option
@click.pass_context
def show(ctx: click.Context, id: str, last: int | None, form: Form) -> None:
    """Shows a session, or with the id of a message the talk that led to it. ID is an id or a handle."""
    damaged: list[str] = []
    with reading() as store:
        found = find(store, id)
        session = found if isinstance(found, clew.Session) else None
        nodes: Iterable[clew.Node]
        if session is None:
            nodes = store.nodes.path(found.id, last=last)
        else:
            nodes = session.iter() if last is None else session.path(last=last)
        if form == "text":
            out_lines(_text(session, nodes, damaged))
        else:
            messages = (_json(node, damaged) for node in nodes)
            if form == "jsonl":
                out_jsonl(messages)
            else:
                out_json({"session": None if session is None else session_json(session), "messages": list(messages)})
    for one in damaged:
        warn(f"clew: message {one} is damaged")
    ctx.exit(DAMAGED if damaged else 0)


def _json(node: clew.Node, damaged: list[str]) -> dict[str, Any]:
    shown = node_json(node)
    if "damaged" in shown:
        damaged.append(node.id)
    return shown


def _text(session: clew.Session | None, nodes: Iterable[clew.Node], damaged: list[str]) -> Iterator[str]:
    if session is not None:
        yield from _head(session)
    for number, node in enumerate(nodes):
        if number or session is not None:
            yield ""
        try:
            message = node.message
        except clew.Tampered as error:
            damaged.append(node.id)
            yield _header(node, "")
            yield ""
            yield style(f"(damaged: {plain(error.why)})", "31")
            continue
        yield _header(node, message.model or "")
        if message.blocks:
            yield ""
            yield from said_lines(message)


def said_lines(message: clew.Message) -> Iterator[str]:
    """What a message says, its blocks parted by empty lines."""
    for number, block in enumerate(message.blocks):
        if number:
            yield ""
        yield from _block(block)


def _head(session: clew.Session) -> Iterator[str]:
    counters = session.counters
    count = f"{counters.messages} message{'s' if counters.messages != 1 else ''}"
    parts = [style(session.handle, "33"), count, ago(session.updated_at, datetime.now(UTC))]
    parts += [plain(part) for part in (session.cwd, session.model, *(f"#{label}" for label in session.labels)) if part]
    yield bold(f"# {plain(session.title or 'Untitled')}")
    yield dim(" · ").join(parts)


def _header(node: clew.Node, model: str) -> str:
    beside = [style(node.handle, "33"), dim(local(node.created_at)), *([dim(plain(model))] if model else [])]
    return f"{role_style(node.role, f'## {node.role}')} {dim('·')} {dim(' · ').join(beside)}"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Text():
            for line in paragraphs(block.text):
                yield from fitted(line)
        case Thinking():
            words = block.text or "(reasoning that its provider keeps to itself)"
            yield from (dim(f"> {line}".rstrip()) for line in paragraphs(words))
        case ToolCall():
            yield f"{bold('tool call')} {plain(block.name)} {dim(plain(block.id))}"
            yield from _fenced(block.arguments)
        case ToolResult():
            mark = style(" error", "1;31") if block.is_error else ""
            yield f"{bold('tool result')}{mark} {dim(plain(block.call_id))}"
            for inner in block.content:
                yield from _block(inner)
        case Media():
            where = block.name or (block.url if block.url and not block.url.startswith("data:") else None)
            yield f"[{block.modality}: {plain(block.mime_type)}{f', {plain(where)}' if where else ''}]"
        case Opaque():
            yield dim(plain(f"[{block.kind}]"))
            yield from _fenced(block.data)


def _fenced(value: Any) -> Iterator[str]:
    yield dim("```json")
    yield from paragraphs(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
    yield dim("```")
