"""A message as one article, with the results of its tool calls inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

from clew.base.messages import Block, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.engine.node import Node
from clew.errors import Corrupted
from clew.exports.render.text import attribute, inline, markdown, name_secrets, one_line, plain
from clew.exports.render.tools import ShownCall, json_block, render_call, render_result
from clew.exports.to_markdown import HIDDEN, is_interrupted, read

VERSION = 3
"""Grows with every change of the HTML of a message: caches must not keep the older form."""
NAMES = {
    "user": "You", "assistant": "Assistant", "tool": "Tool result", "system": "System", "summary": "Summary",
    "damaged": "Damaged message",
}  # fmt: skip


SHOWN_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types that a page shows. An SVG can run scripts, and is served as text."""


class Entry(NamedTuple):
    """A stored message with its number in the conversation; `message` is None if it is damaged."""

    node: Node
    number: int
    message: Message | None
    why: str = ""

    @property
    def anchor(self) -> str:
        """The id of its element."""
        return f"m{self.number}"

    @property
    def calls(self) -> list[ToolCall]:
        """The tool calls in it."""
        return [block for block in self.message.blocks if isinstance(block, ToolCall)] if self.message else []

    @property
    def results(self) -> list[ToolResult]:
        """The results of tool calls in it."""
        return [block for block in self.message.blocks if isinstance(block, ToolResult)] if self.message else []

    @property
    def is_result(self) -> bool:
        """True if it has nothing but results."""
        return self.message is not None and bool(self.message.blocks) and len(self.results) == len(self.message.blocks)

    @property
    def is_summary(self) -> bool:
        """True for the first message after a compaction."""
        return self.node.parent_id is None and self.number > 1


class Links(NamedTuple):
    """Where the parts of a message lead. An export has none of them."""

    raw: Callable[[Node], str] | None = None
    permalink: Callable[[Node], str] | None = None
    media: Callable[[Media], str | None] | None = None
    """The URL of an attachment; None if it is not stored."""
    trace: Callable[[str], str | None] | None = None
    """The URL of the trace of the subagent that the call with this id started."""
    extra: Callable[[Entry], str] | None = None
    """More HTML in the line of actions."""
    below: Callable[[Entry], str] | None = None
    """More HTML below the message, such as notes."""


def entry(node: Node) -> Entry:
    """A node as an entry. Never raises for damage."""
    message, why = read(node)
    try:
        number = node.counters.messages
    except Corrupted as error:
        return Entry(node, node.depth + 1, None, error.why)
    return Entry(node, number, message, why)


class Renderer:
    """Renders messages of one conversation; results are shown with their calls if both are among `entries`."""

    def __init__(
        self,
        entries: Iterable[Entry],
        links: Links | None = None,
        *,
        fold: bool = True,
        compacted: int = 0,
        names: Mapping[str, str] | None = None,
    ) -> None:
        """Messages before number `compacted` were replaced by a summary. `names` are other names for roles."""
        self._names = {**NAMES, **(names or {})}
        self._links = links or Links()
        self._fold = fold
        self._compacted = compacted
        self._results: dict[str, tuple[ToolResult, Entry]] = {}
        called: set[str] = set()
        self._shown: set[str] = set()
        """Ids of messages whose results are all shown with their calls."""
        for one in entries:
            called.update(call.id for call in one.calls)
            inside = [result for result in one.results if result.call_id in called]
            for result in inside:
                self._results.setdefault(result.call_id, (result, one))
            if one.is_result and len(inside) == len(one.results):
                self._shown.add(one.node.id)

    def is_inside(self, one: Entry) -> bool:
        """True if the message is shown as a part of an earlier one."""
        return one.node.id in self._shown

    def uses(self, one: Entry) -> list[Node]:
        """The messages whose content is shown with this one."""
        found = (self._results.get(call.id) for call in one.calls)
        return [result[1].node for result in found if result is not None]

    def traces(self, one: Entry) -> list[str | None]:
        """Where the traces of the subagents are that its calls started; they may come later than the calls."""
        return [self._links.trace(call.id) for call in one.calls] if self._links.trace is not None else []

    def article(self, one: Entry, *, first: bool = False) -> str:
        """The message; empty if it is shown as a part of an earlier one."""
        if self.is_inside(one):
            return ""
        role = _role(one)
        names = ["msg", "you" if role == "user" else "ai", *(["first"] if first else [])]
        names += ["old"] if one.number < self._compacted else []
        names += ["damaged"] if one.message is None else ["broken"] if is_interrupted(one.message) else []
        body = _damage(one) if one.message is None else "".join(self._parts(one, one.message))
        below = self._links.below(one) if self._links.below is not None else ""
        return (
            f'<article class="{" ".join(names)}" id="{one.anchor}" aria-labelledby="{one.anchor}h" tabindex="-1"'
            f' data-id="{one.node.id}">{self._header(one, role)}{body}{below}</article>'
        )

    def _header(self, one: Entry, role: str) -> str:
        message = one.message
        model = (
            f'<span class="model mono">{inline(one_line(message.model))}</span>' if message and message.model else ""
        )
        when = one.node.created_at.astimezone()
        link = self._links.permalink(one.node) if self._links.permalink is not None else f"#{one.anchor}"
        return (
            f'<header class="msg-h"><h2 id="{one.anchor}h">{inline(self._names.get(role, role))}</h2>{model}'
            f'<time datetime="{when.isoformat(timespec="seconds")}" title="{when:%Y-%m-%d %H:%M:%S}">'
            f"{when:%H:%M}</time>"
            f'<a class="no" href="{escape(link)}">#{one.number:,}</a>{self._actions(one)}</header>'
        )

    def _actions(self, one: Entry) -> str:
        raw, number = self._links.raw, one.number
        extra = self._links.extra(one) if self._links.extra is not None else ""
        if raw is None:
            return ""
        return (
            f'<span class="acts">{_button("copy", "Copy as Markdown", "c", "i-copy", number)}'
            f"{_button('select', 'Select from here, or up to here', 'x', 'i-list', number)}"
            f'<a class="btn bare sm icon" href="{escape(raw(one.node))}"'
            f' aria-label="Raw form of message {number}" title="Raw (r)" data-act="raw">'
            f'<span class="i i-raw" aria-hidden="true"></span></a>{extra}</span>'
        )

    def _parts(self, one: Entry, message: Message) -> Iterator[str]:
        for kind, blocks in _groups(message.blocks):
            if kind is ToolCall:
                calls = (self._call(one, block) for block in blocks if isinstance(block, ToolCall))
                yield f'<div class="calls">{"".join(calls)}</div>'
            elif kind is Text:
                texts = "".join(self._texts(blocks))
                yield f'<div class="body">{texts}</div>' if texts else ""
            else:
                yield from map(self._other, blocks)
        if is_interrupted(message):
            yield '<p class="stopped"><span class="i i-stop" aria-hidden="true"></span><span>Interrupted</span></p>'
        if message.role == "assistant":
            yield usage_line(message)

    def _texts(self, blocks: Iterable[Block]) -> Iterator[str]:
        """Texts as Markdown; neighbouring attachments beside each other."""
        for kind, group in groupby(blocks, type):
            if kind is Media:
                yield f'<div class="files">{"".join(self.media(one) for one in group if isinstance(one, Media))}</div>'
            else:
                yield from (markdown(one.text) for one in group if isinstance(one, Text) and one.text.strip())

    def _other(self, block: Block) -> str:
        opened = "" if self._fold else " open"
        match block:
            case Thinking():
                words = len(block.text.split())
                label = f"Thinking, {words:,} word{'s' * (words != 1)}" if block.text else "Thinking"
                shown = markdown(block.text) if block.text else inline(HIDDEN)
                return (
                    f'<details class="think"{opened}><summary><span class="i i-right" aria-hidden="true"></span>{label}'
                    f"</summary><div>{shown}</div></details>"
                )
            case ToolResult():
                return render_result(block, self.media)
            case Opaque():
                return (
                    f'<div class="calls"><details class="call"{opened}><summary>'
                    '<span class="i i-right chev" aria-hidden="true"></span>'
                    f"<b>{inline(one_line(block.kind))}</b><code></code></summary>"
                    f'<div class="out">{json_block(block.data)}</div></details></div>'
                )
            case _:
                return ""

    def _call(self, one: Entry, call: ToolCall) -> str:
        links, found = self._links, self._results.get(call.id)
        result, holder = found if found is not None else (None, None)
        inside = holder is not None and self.is_inside(holder)
        first = inside and holder is not None and holder.results[0].call_id == call.id
        return render_call(
            ShownCall(
                call,
                result,
                anchor=holder.anchor if first and holder is not None else "",
                number=holder.number if inside and holder is not None else None,
                raw=links.raw(one.node) if links.raw is not None else None,
                raw_result=links.raw(holder.node) if links.raw is not None and holder is not None else None,
                trace=links.trace(call.id) if links.trace is not None else None,
            ),
            self.media,
            open=not self._fold,
        )

    def media(self, block: Media) -> str:
        """An attachment: an image or a recording if the page has it, otherwise its name and kind."""
        url = self._links.media(block) if self._links.media is not None else None
        name = inline(one_line(name_secrets(block.name or block.modality)))
        where = block.url if block.url and not block.url.startswith("data:") else None
        about = f"{name}<small>{inline(one_line(block.mime_type))}</small>"
        about += f"<small>{plain(one_line(name_secrets(where)))}</small>" if where else ""
        icon = '<span class="ic"><span class="i i-file" aria-hidden="true"></span></span>'
        if url is None:
            return f'<span class="attach">{icon}<span>{about}</span></span>'
        label = attribute(block.name or block.modality)
        if block.mime_type.startswith("audio/"):
            player = f'<audio controls preload="none" src="{escape(url)}" aria-label="{label}"></audio>'
            return f'<span class="attach"><a href="{escape(url)}">{icon}<span>{about}</span></a>{player}</span>'
        if block.modality == "image" and block.mime_type in SHOWN_IMAGES:
            icon = f'<img src="{escape(url)}" alt="{label}" loading="lazy" width="176" height="104">'
        return f'<a class="attach" href="{escape(url)}">{icon}<span>{about}</span></a>'


def _button(name: str, label: str, key: str, icon: str, number: int) -> str:
    return (
        f'<button class="btn bare sm icon needs-script" type="button" data-act="{name}" aria-label="{label}, message'
        f' {number}" title="{label} ({key})"><span class="i {icon}" aria-hidden="true"></span></button>'
    )


def usage_line(message: Message) -> str:
    """Tokens and cost of an answer; unknown is written as unknown."""
    used = message.usage
    unknown = '<span class="unknown">{} unknown</span>'
    if used is None:
        return f'<p class="foot">{unknown.format("tokens and cost")}</p>'
    parts = [
        f"{value:,} {name}" for name, value in (("in", used.input), ("out", used.output), ("cached", used.cached))
        if value is not None
    ]  # fmt: skip
    tokens = f"<span>{' · '.join(parts)}</span>" if parts else unknown.format("tokens")
    cost = unknown.format("cost") if used.cost is None else f"<span>{money(used.cost)}</span>"
    return f'<p class="foot">{tokens}{cost}</p>'


def money(millionths: int) -> str:
    """An amount, with as many digits as it needs."""
    value = millionths / 1_000_000
    return f"${value:,.2f}" if value >= 0.1 else f"${value:.4f}"


def seam(number: int) -> str:
    """Where a compaction replaced the messages before."""
    return (
        f'<section class="seam" id="seam{number}" aria-label="Compaction before message {number}"><div class="seam-in">'
        f"<p><strong>Compacted here.</strong> From message {number:,} on, the model saw a summary instead of the"
        f" {number - 1:,} messages above. They are still stored.</p></div></section>"
    )


def _role(one: Entry) -> str:
    if one.is_result:
        return "tool"
    if one.is_summary:
        return "summary"
    try:
        return one.node.role
    except Corrupted:
        return "damaged"


def _groups(blocks: Sequence[Block]) -> Iterator[tuple[type, list[Block]]]:
    """Neighbouring blocks of one kind together; text and attachments are one kind."""
    kind: type | None = None
    group: list[Block] = []
    for block in blocks:
        now = Text if isinstance(block, Text | Media) else type(block)
        if now is not kind and kind is not None:
            yield kind, group
            group = []
        kind = now
        group.append(block)
    if kind is not None:
        yield kind, group


def _damage(one: Entry) -> str:
    """Why a message cannot be shown, in its place."""
    why = one_line(one.why[:1].upper() + one.why[1:])
    command = "clew quarantine ls" if "quarantine" in one.why else "clew verify"
    return (
        '<div class="box err" role="note"><p><strong><span class="i i-warn" aria-hidden="true"></span> This message is'
        f" damaged.</strong> {inline(why)}. The messages around it are intact. Details: <code>{command}</code></p>"
        "</div>"
    )
