"""A prompt, an answer or a note as one article."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape
from itertools import groupby
from typing import NamedTuple

from clew.base.messages import Media, Opaque, Text
from clew.base.visible import many
from clew.engine.node import Node
from clew.errors import Corrupted
from clew.exports.render.terminal import terminal
from clew.exports.render.text import attribute, inline, markdown, name_secrets, one_line, plain, prompt
from clew.exports.render.tools import StepLinks, json_block, render_step
from clew.providers.usage import AnswerUsage
from clew.turns.model import Entry, Item, ModelAnswer, Part, ProgramNote, Said, Step, Thought, UserPrompt
from clew.turns.words import money, note_line, short_model, token_words

VERSION = 7
"""Grows with every change of the HTML of a message: caches must not keep the older form."""
NAMES = {
    "user": "You", "assistant": "Assistant", "tool": "Tool result", "system": "System",
    "damaged": "Damaged message",
}  # fmt: skip


SHOWN_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types that a page shows. An SVG can run scripts, and is served as text."""


class Links(NamedTuple):
    """Where the parts of a message lead. An export has none of them but images."""

    raw: Callable[[Node], str] | None = None
    permalink: Callable[[Node], str] | None = None
    media: Callable[[Entry, Media], str | None] | None = None
    """The URL of an attachment; None if it cannot be shown."""
    trace: Callable[[str], str | None] | None = None
    """The URL of the trace of the subagent that the call with this id started."""
    extra: Callable[[Entry], str] | None = None
    """More HTML in the line of actions."""
    below: Callable[[Entry], str] | None = None
    """More HTML below the message, such as notes."""


class Renderer:
    """Renders what is shown of one conversation."""

    def __init__(
        self,
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

    def traces(self, item: Item) -> list[str | None]:
        """Where the traces of the subagents are that its calls started; they may come later than the calls."""
        if self._links.trace is None or not isinstance(item, ModelAnswer):
            return []
        return [self._links.trace(step.call.id) for step in item.steps if step.call is not None]

    def article(self, item: Item, *, first: bool = False) -> str:
        """The HTML of a prompt, an answer or a note."""
        if isinstance(item, ProgramNote):
            return self._note_article(item, first)
        if isinstance(item, UserPrompt):
            return self._article(item, "user", "you", "".join(self._prompt(item)), first)
        kind = "ai broken" if item.interrupted else "ai"
        role = "tool" if all(isinstance(part, Step) and part.call is None for part in item.parts) else "assistant"
        return self._article(item, role if item.parts else "assistant", kind, "".join(self._answer(item)), first)

    def _article(self, item: Item, role: str, kind: str, body: str, first: bool, *, title: str = "") -> str:
        one, last = item.entry, item.entries[-1]
        kind, *more = kind.split()
        names = ["msg", kind, *(["first"] if first else []), *more]
        names += ["old"] if one.number < self._compacted else []
        below = "".join(map(self._links.below, item.entries)) if self._links.below is not None else ""
        header = self._header(item, title or self._names.get(role, role), model=isinstance(item, ModelAnswer))
        upto = last_number(item)
        return (
            f'<article class="{" ".join(names)}" id="{one.anchor}" aria-labelledby="{one.anchor}h" tabindex="-1"'
            f' data-id="{last.node.id}"{f" data-to={chr(34)}{upto}{chr(34)}" if upto > one.number else ""}>'
            f"{header}{body}{below}</article>"
        )

    def _header(self, item: Item, name: str, *, model: bool) -> str:
        one = item.entry
        full = item.model if isinstance(item, ModelAnswer) else None
        shown = inline(one_line(short_model(full)))
        label = f'<span class="model mono" title="{attribute(full)}">{shown}</span>' if full and model else ""
        when = one.node.created_at.astimezone()
        link = self._links.permalink(one.node) if self._links.permalink is not None else f"#{one.anchor}"
        return (
            f'<header class="msg-h"><h2 id="{one.anchor}h">{inline(name)}</h2>{label}'
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

    def _prompt(self, item: UserPrompt) -> Iterator[str]:
        body = ""
        for kind, group in groupby(item.blocks, type):
            if kind is Text:
                body += "".join(prompt(one.text) for one in group if isinstance(one, Text))
            elif kind is Media:
                body += self._files(item.entry, (one for one in group if isinstance(one, Media)))
            else:
                body += "".join(self._opaque(one) for one in group if isinstance(one, Opaque))
        yield f'<div class="body">{body}</div>' if body else ""
        yield from map(self._note, item.notes)

    def _answer(self, item: ModelAnswer) -> Iterator[str]:
        last = item.entry
        for kind, group in groupby(item.parts, type):
            parts = list(group)
            if kind is Step:
                steps = "".join(self._step(part, last) for part in parts if isinstance(part, Step))
                yield f'<div class="calls">{steps}</div>'
            else:
                for part in parts:
                    yield self._anchor(part, last) + self._part(part)
                    last = part.entry
            last = parts[-1].entry
        if item.interrupted:
            yield '<p class="stopped"><span class="i i-stop" aria-hidden="true"></span><span>Interrupted</span></p>'
        yield usage_line(item.usage)

    def _anchor(self, part: Part, last: Entry) -> str:
        """The place of a message that is not the first of its answer."""
        return "" if part.entry.number <= last.number else f'<span id="{part.entry.anchor}"></span>'

    def _part(self, part: Part) -> str:
        opened = "" if self._fold else " open"
        if isinstance(part, Said):
            shown = ""
            for kind, group in groupby(part.blocks, type):
                if kind is Media:
                    shown += self._files(part.entry, (one for one in group if isinstance(one, Media)))
                else:
                    shown += "".join(markdown(one.text) for one in group if isinstance(one, Text))
            return f'<div class="body">{shown}</div>'
        if isinstance(part, Thought):
            text = part.block.text
            label = f"Thinking, {many(len(text.split()), 'word')}" if text else "Thinking"
            shown = markdown(text) if text else "(reasoning hidden by the provider)"
            return (
                f'<details class="think"{opened}><summary><span class="i i-right" aria-hidden="true"></span>{label}'
                f"</summary><div>{shown}</div></details>"
            )
        return "" if isinstance(part, Step) else self._opaque(part.block)

    def _opaque(self, block: Opaque) -> str:
        return (
            f'<div class="calls"><details class="call"{"" if self._fold else " open"}><summary>'
            '<span class="i i-right chev" aria-hidden="true"></span>'
            f"<b>{inline(one_line(block.kind))}</b><code></code></summary>"
            f'<div class="out">{json_block(block.data)}</div></details></div>'
        )

    def _step(self, step: Step, last: Entry) -> str:
        links, answered = self._links, step.answered
        inside = answered is not None and answered.is_result and step.call is not None
        first = inside and answered is not None and answered.results[0].call_id == step.result.call_id  # type: ignore[union-attr]
        shown = render_step(
            step,
            StepLinks(
                anchor=answered.anchor if first and answered is not None else "",
                number=answered.number if inside and answered is not None else None,
                raw=links.raw(step.entry.node) if links.raw is not None and step.call is not None else None,
                raw_result=links.raw(answered.node) if links.raw is not None and answered is not None else None,
                trace=links.trace(step.call.id) if links.trace is not None and step.call is not None else None,
            ),
            lambda block: self.media(answered or step.entry, block),
            self._note,
            open=not self._fold or step.call is None,
        )
        return self._anchor(step, last) + shown

    def _note_article(self, note: ProgramNote, first: bool) -> str:
        if note.kind == "compaction":
            return seam(note.entry.number)
        if note.kind == "model":
            return f'<p class="date-line"><span>{inline(one_line(note.title))}</span></p>'
        if note.kind == "damaged":
            role = _role(note.entry)
            kind = "you damaged" if role == "user" else "ai damaged"
            return self._article(note, role, kind, _damage(note.entry), first)
        return self._article(note, "", "note-m", self._note(note), first, title=_TITLES.get(note.kind, "Note"))

    def _note(self, note: ProgramNote) -> str:
        """A note: a line, with what is folded below it."""
        files = self._files(note.entry, note.media)
        title = inline(one_line(name_secrets(note.title)))
        if note.kind == "interruption":
            icon = '<span class="i i-stop" aria-hidden="true"></span>'
            return f'<p class="stopped">{icon}<span>{title}</span></p>'
        if note.kind == "shell":
            output = f'<pre tabindex="0"><span class="a8">!</span> {plain(note.title)}\n{terminal(note.text)}</pre>'
            return f'<div class="ran">{output}</div>{files}'
        if note.kind == "command":
            output = f'<pre tabindex="0">{terminal(note.text)}</pre>' if note.text else ""
            return f'<div class="ran"><p class="mono cmd-l">{title}</p>{output}</div>{files}'
        if note.kind == "error":
            shown = f"<strong>{title}</strong> {plain(note.text)}"
            return f'<div class="box err" role="note"><p>{shown}</p></div>{files}'
        line = inline(one_line(name_secrets(note_line(note))))
        if line.startswith(f"{title}: ") or not note.text:
            return f'<p class="aside">{line}</p>{files}'
        summary = note.kind == "summary"
        body = f"<div>{markdown(note.text)}</div>" if summary else f'<div class="typed">{plain(note.text)}</div>'
        return (
            f'<details class="think aside"><summary><span class="i i-right" aria-hidden="true"></span>{line}</summary>'
            f"{body}</details>{files}"
        )

    def _files(self, one: Entry, blocks: Iterable[Media]) -> str:
        shown = "".join(self.media(one, block) for block in blocks)
        return f'<div class="files">{shown}</div>' if shown else ""

    def media(self, one: Entry, block: Media) -> str:
        """An attachment: an image or a recording if the page has it, otherwise its name and kind."""
        url = self._links.media(one, block) if self._links.media is not None else None
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
            image = f'<img src="{escape(url)}" alt="{label}" loading="lazy">'
            return image_link(url, image)
        return f'<a class="attach" href="{escape(url)}">{icon}<span>{about}</span></a>'


_TITLES = {
    "command": "Command", "shell": "Terminal", "instructions": "System", "interruption": "Interrupted",
    "error": "Error", "reminder": "Note", "summary": "Summary",
}  # fmt: skip


def image_link(url: str, image: str) -> str:
    """An image that leads to itself; one that is in the page leads nowhere."""
    return (
        f'<span class="picture">{image}</span>'
        if url.startswith("data:")
        else (f'<a class="picture" href="{escape(url)}">{image}</a>')
    )


def last_number(item: Item) -> int:
    """The number of the last message that is shown with an item."""
    numbers = [one.number for one in item.entries]
    if isinstance(item, ModelAnswer):
        numbers += [step.answered.number for step in item.steps if step.answered is not None]
    return max(numbers)


def _button(name: str, label: str, key: str, icon: str, number: int) -> str:
    return (
        f'<button class="btn bare sm icon needs-script" type="button" data-act="{name}" aria-label="{label}, message'
        f' {number}" title="{label} ({key})"><span class="i {icon}" aria-hidden="true"></span></button>'
    )


def usage_line(used: AnswerUsage | None) -> str:
    """Tokens and cost of an answer, as far as they are known."""
    tokens = " · ".join(token_words(used))
    cost = money(used.cost) if used is not None and used.cost else ""
    shown = "".join(f"<span>{part}</span>" for part in (tokens, cost) if part)
    return f'<p class="foot">{shown}</p>' if shown else ""


def seam(number: int) -> str:
    """Where a compaction replaced the messages before."""
    return (
        f'<section class="seam" id="seam{number}" aria-label="Compaction before message {number}"><div class="seam-in">'
        f"<p><strong>Compacted here.</strong> From message {number:,} on, the model saw a summary instead of the"
        f" {number - 1:,} messages above. They are still stored.</p></div></section>"
    )


def _role(one: Entry) -> str:
    try:
        return one.node.role
    except Corrupted:
        return "damaged"


def _damage(one: Entry) -> str:
    """Why a message cannot be shown, in its place."""
    why = one_line(one.why[:1].upper() + one.why[1:])
    command = "clew quarantine ls" if "quarantine" in one.why else "clew verify"
    return (
        '<div class="box err" role="note"><p><strong><span class="i i-warn" aria-hidden="true"></span> This message is'
        f" damaged.</strong> {inline(why)}. The messages around it are intact. Details: <code>{command}</code></p>"
        "</div>"
    )
