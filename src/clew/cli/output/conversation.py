"""What is shown of a conversation, as lines for a terminal or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from clew.base.messages import Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.base.visible import paragraphs, plain
from clew.cli.output.text import bold, clip, colourful, columns, dim, is_terminal, role_style, style, wrap
from clew.cli.output.times import local
from clew.exports.to_markdown import json_fence, placeholder
from clew.store.origin import name_of
from clew.turns import faces
from clew.turns.model import Entry, Item, ModelAnswer, Part, ProgramNote, Said, Step, Thought, UserPrompt
from clew.turns.words import note_line, seam_text, short_model, thinking_line, token_words, without_colours

_MARKS = {"done": "✓", "now": "▸", "open": "○", "dropped": "–"}
_STATES = {"done": ("✓", "32"), "failed": ("✗", "31"), "missing": ("…", "33")}


class Look(NamedTuple):
    """How a conversation is written."""

    fold: bool = False
    """Thinking and tool calls on one line each."""
    unfold: bool = False
    """System prompts, instructions and reminders in full."""
    markdown: Callable[[str], list[str]] | None = None
    """Writes Markdown with colours; None writes it as it is."""


def look(*, fold: bool = False, unfold: bool = False) -> Look:
    """The look for stdout: with colours on a terminal that shows them."""
    is_pretty = is_terminal(sys.stdout) and colourful(sys.stdout)
    return Look(fold, unfold, _pretty() if is_pretty else None)


def lines(items: Iterable[Item], how: Look) -> Iterator[str]:
    """Prompts, answers and notes, each after an empty line."""
    for item in items:
        yield ""
        yield from item_lines(item, how)


def item_lines(item: Item, how: Look) -> Iterator[str]:
    """The lines of one of them."""
    if isinstance(item, ProgramNote):
        yield from _note(item, how)
    elif isinstance(item, UserPrompt):
        yield header(item.entry, "user")
        for block in item.blocks:
            yield ""
            yield from _text(block.text) if isinstance(block, Text) else _beside(block)
        for note in item.notes:
            yield ""
            yield from _note(note, how)
    else:
        yield from _answer(item, how)


def message_lines(message: Message) -> Iterator[str]:
    """The blocks of a message that is not stored, each after an empty line."""
    for number, block in enumerate(message.blocks):
        if number:
            yield ""
        match block:
            case Text():
                yield from _text(block.text)
            case Thinking():
                yield from (dim(f"> {line}".rstrip()) for line in paragraphs(block.text or thinking_line("")))
            case ToolCall():
                yield f"{bold('tool call')} {plain(block.name)} {dim(plain(block.id))}"
                yield from _json(block.arguments)
            case ToolResult():
                failed = style(" error", "1;31") if block.is_error else ""
                yield f"{bold('tool result')}{failed} {dim(plain(block.call_id))}"
                yield from message_lines(Message("tool", block.content))
            case _:
                yield from _beside(block)


def header(one: Entry, role: str, *more: str) -> str:
    """Who wrote a message, its short name, and when."""
    beside = [style(name_of(one.node), "33"), dim(local(one.node.created_at)), *(part for part in more if part)]
    return f"{role_style(role, f'## {role}')} {dim('·')} {dim(' · ').join(beside)}"


def step_line(step: Step, room: int | None = None) -> str:
    """A call on one line: its state, its name, what it is about, how it ended."""
    mark, colour = _STATES[step.state]
    ended = plain(faces.summary(step))
    label, words = plain(step.label), plain(step.line)
    left = (room or columns() or faces.WIDE) - len(label) - len(ended) - 7
    shown = clip(words, max(20, left))
    return f"{style(mark, colour)} {bold(label)}{' ' + shown if shown else ''} {dim(f'· {ended}')}"


def _answer(item: ModelAnswer, how: Look) -> Iterator[str]:
    model = dim(plain(short_model(item.model))) if item.model else ""
    yield header(item.entry, "assistant", model, style("interrupted", "33") if item.interrupted else "")
    for number, part in enumerate(item.parts):
        if not number or not (how.fold and isinstance(part, Step) and isinstance(item.parts[number - 1], Step)):
            yield ""
        yield from _part(part, how)
    if (used := token_words(item.usage)) and not how.fold:
        yield dim(f"  {' · '.join(used)}")


def _part(part: Part, how: Look) -> Iterator[str]:
    if isinstance(part, Said):
        for block in part.blocks:
            yield from _markdown_lines(block.text, how) if isinstance(block, Text) else _beside(block)
    elif isinstance(part, Thought):
        shown = [thinking_line(part.block.text)] if how.fold or not part.block.text else paragraphs(part.block.text)
        yield from (dim(f"> {line}".rstrip()) for line in shown)
    elif isinstance(part, Step):
        yield step_line(part)
        for panel in faces.panels(part) if not how.fold else ():
            yield from (f"  {line}" for line in _panel(panel, how))
        for note in part.notes if not how.fold else ():
            yield from (f"  {line}" for line in _note(note, how))
    else:
        yield dim(f"[{plain(part.block.kind)}]")
        yield from () if how.fold else _json(part.block.data)


def _panel(panel: faces.Panel, how: Look) -> Iterator[str]:
    match panel:
        case faces.Terminal():
            yield from (style(line, "36") for line in paragraphs(f"$ {panel.command}"))
            yield from paragraphs(without_colours(panel.output).rstrip("\n")) if panel.output.strip() else ()
        case faces.Diff():
            yield dim(plain(panel.path))
            for line in panel.lines:
                text = plain(line.text) if line.kind == "@" else f"{line.kind} {plain(line.text)}"
                yield style(text, {"+": "32", "-": "31", "@": "36"}.get(line.kind, "")) if line.kind != " " else text
        case faces.Code():
            yield from paragraphs(panel.text.rstrip("\n"))
        case faces.Prose():
            yield dim(f"{plain(panel.label)}:")
            yield from _markdown_lines(panel.text, how)
        case faces.Checks():
            for state, text in panel.items:
                yield f"{_MARKS[state]} {bold(plain(text)) if state == 'now' else plain(text)}"
        case faces.Question():
            yield bold(plain(panel.text))
            for option in panel.options:
                yield f"{'●' if option == panel.answer else '○'} {plain(option)}"
            if panel.answer and panel.answer not in panel.options:
                yield f"→ {plain(panel.answer)}"
        case faces.PageLink():
            yield style(plain(panel.url), "4")
        case faces.ArgumentTable():
            for name, value in panel.rows:
                first, *rest = paragraphs(value)
                yield f"{dim(plain(name) + ':')} {first}"
                yield from (f"  {line}" for line in rest)
        case faces.Output():
            if isinstance(panel.block, Text):
                yield from paragraphs(without_colours(panel.block.text).rstrip("\n"))
            else:
                yield from _beside(panel.block)


def _note(note: ProgramNote, how: Look) -> Iterator[str]:
    """A note on a line; with `unfold`, and for what the user ran, with its text."""
    if note.kind == "compaction":
        yield from (style(line, "33") for line in wrap(seam_text(note.entry.number - 1)))
        return
    if note.kind == "interruption":
        yield style(f"── {plain(note.title)} ──", "33")
        return
    if note.kind in ("shell", "command"):
        yield style(plain(f"! {note.title}" if note.kind == "shell" else note.title), "1;36")
        shown = paragraphs(without_colours(note.text)) if note.text and not how.fold else []
        yield from (f"  {dim(line)}" for line in shown)
    elif note.kind == "summary" and how.unfold:
        yield header(note.entry, "summary")
        yield ""
        yield from _markdown_lines(note.text, how)
    elif note.kind == "error":
        yield from (style(line, "31") for line in paragraphs(f"{note.title}: {note.text}"))
    elif note.kind == "damaged":
        yield style(f"(damaged: {plain(note.text)})", "31")
    else:
        yield dim(f"▸ {plain(note_line(note))}")
        if how.unfold and note_line(note) != f"{note.title}: {' '.join(note.text.split())}":
            yield from (dim(f"  {line}".rstrip()) for line in paragraphs(note.text))
    for block in note.media:
        yield from _beside(block)


def _text(text: str) -> Iterator[str]:
    for line in paragraphs(text):
        yield from wrap(line)


def _markdown_lines(text: str, how: Look) -> Iterable[str]:
    return how.markdown(text) if how.markdown is not None else _text(text)


def _beside(block: Media | Opaque) -> Iterator[str]:
    if isinstance(block, Media):
        yield placeholder(block)
    else:
        yield dim(f"[{plain(block.kind)}]")
        yield from _json(block.data)


def _json(value: object) -> Iterator[str]:
    first, *rest, last = json_fence(value)
    yield dim(first)
    yield from rest
    yield dim(last)


def _pretty() -> Callable[[str], list[str]] | None:
    try:
        from clew.cli.chat.answer import console as make
        from clew.cli.chat.answer import markdown, render_lines
    except ModuleNotFoundError:  # without the packages for colours
        return None
    console = make()
    return lambda text: render_lines(console, markdown(text, breaks=True))
