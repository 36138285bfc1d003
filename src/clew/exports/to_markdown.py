"""A conversation as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec

from clew.base.messages import Media, Opaque, Text
from clew.base.visible import paragraphs, plain
from clew.engine.node import Node
from clew.providers.prices import Prices
from clew.sources.registry import rules_for
from clew.store.origin import name_of, origin_of
from clew.store.session import Session
from clew.store.usage import conversation_usage
from clew.turns import faces
from clew.turns.derive import stream
from clew.turns.diff import DiffLine
from clew.turns.model import PLAIN, Entry, Item, ModelAnswer, Part, ProgramNote, Said, Step, Thought, UserPrompt, entry
from clew.turns.words import SHORT, note_line, seam_text, short_model, thinking_line, without_colours

Detail = Literal["prompts", "conversation", "folded", "full"]
"""What is written: only what the user asked; questions and answers, with tool calls on one line; everything, with
thinking, tools and notes on one line each; everything."""
Save = Callable[[Entry, Media], str | None]
"""Keeps an attachment beside the Markdown and returns where; None if it cannot be kept."""
_FENCE = re.compile(r"^ {0,3}(`{3,}+|~{3,}+)[^`\n]*\n.*?(?:^ {0,3}\1[`~]* *$|\Z)", re.DOTALL | re.MULTILINE)
"""A fence in a prompt, with what is in it."""
_STYLED = re.compile(
    r"\\(?=[!-/:-@\[-`{-~])|[*`<\[|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|&(?=#?\w{1,31};)|(?<=!)\[|(?<=\])\("
)
_MARKER = re.compile(r"(\s*)(?:([#>+=-])|(\d{1,9})([.)]))")
_PAGE = re.compile(r"https?://[!-;=?-~]+")
"""An address that is a link between angle brackets."""
_BOX = {"done": "x", "now": " ", "open": " ", "dropped": "x"}


def markdown(
    session: Session | None,
    nodes: Iterable[Node],
    *,
    detail: Detail = "full",
    front_matter: bool = False,
    save: Save | None = None,
    of: Session | None = None,
    prices: Prices | None = None,
) -> Iterator[str]:
    """The lines of a conversation; hidden characters in it are escaped. With `front_matter`, facts come first.

    `of` is the session that messages without a heading belong to; `prices` are a user's own and the list, without them
    the list alone.
    """
    if session is not None and front_matter:
        yield from _front_matter(session, prices)
    if session is not None:
        yield f"# {_words(session.title or 'Untitled')}"
    of = session or of
    rules, project = (rules_for(of), of.cwd or "") if of is not None else (PLAIN, "")
    writer = _Writer(detail, save)
    first = session is None
    for item in stream(map(entry, nodes), rules, project=project):
        lines = list(writer.item(item))
        if lines:
            yield from ([] if first else [""])
            yield from lines
            first = False


def as_typed(text: str) -> Iterator[str]:
    """Lines of Markdown that show a text as it was typed: line breaks and indentation stay, only fences are styled."""
    at = 0
    for found in _FENCE.finditer(text):
        yield from _typed_lines(text[at : found.start()].removesuffix("\n"), at > 0)
        yield from paragraphs(found[0])
        at = found.end() + 1
    if at < len(text) or not at:
        yield from _typed_lines(text[at:], at > 0)


def fenced(text: str, language: str = "") -> Iterator[str]:
    """A text as a code block, whatever fences it has itself."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    yield fence + language
    yield from paragraphs(text.rstrip("\n"))
    yield fence


def json_fence(value: object) -> Iterator[str]:
    """A value as a fenced JSON block."""
    return fenced(msgspec.json.format(msgspec.json.encode(value), indent=2).decode(), "json")


def placeholder(block: Media) -> str:
    """A placeholder for an image or a document."""
    where = block.name or (block.url if block.url and not block.url.startswith("data:") else None)
    return f"[{block.modality}: {plain(block.mime_type)}{f', {plain(where)}' if where else ''}]"


def diff_text(lines: Iterable[DiffLine]) -> str:
    """The lines of a diff with their signs."""
    return "\n".join(line.text if line.kind == "@" else f"{line.kind}{line.text}" for line in lines)


def _typed_lines(text: str, follows: bool) -> Iterator[str]:
    lines = paragraphs(text)
    if follows and lines and lines[0]:
        yield ""
    for number, line in enumerate(lines):
        shown = _STYLED.sub(_escape, line)
        if found := _MARKER.match(shown):
            at = found.end(1) if found[2] else found.end(3)
            shown = f"{shown[:at]}\\{shown[at:]}"
        indent = len(shown) - len(shown.lstrip(" \t"))
        blank = "".join("&nbsp;" * (4 if char == "\t" else 1) for char in shown[:indent]) if shown.strip() else ""
        follow = number + 1 < len(lines) and shown.strip() and lines[number + 1].strip()
        yield blank + shown[indent:].rstrip() + ("  " if follow else "")


def _words(text: str) -> str:
    """A text on one line, in which nothing is Markdown."""
    return _STYLED.sub(_escape, plain(text))


def _escape(found: re.Match[str]) -> str:
    return "&amp;" if found[0] == "&" else f"\\{found[0]}"


class _Writer:
    def __init__(self, detail: Detail, save: Save | None) -> None:
        self._detail, self._save = detail, save
        self._brief = detail in ("prompts", "conversation")

    def item(self, item: Item) -> Iterator[str]:
        """The lines of a prompt, an answer or a note; none if they are left out."""
        if isinstance(item, ProgramNote):
            yield from self._note(item) if not self._brief or item.kind == "compaction" else ()
        elif isinstance(item, UserPrompt):
            yield from self._prompt(item)
        elif self._detail != "prompts":
            yield from self._answer(item)

    def _prompt(self, item: UserPrompt) -> Iterator[str]:
        yield self._heading(item.entry, "user")
        for block in item.blocks:
            yield ""
            yield from as_typed(block.text) if isinstance(block, Text) else self._beside(item.entry, block)
        for note in item.notes if not self._brief else ():
            yield ""
            yield from self._note(note)

    def _answer(self, item: ModelAnswer) -> Iterator[str]:
        parts = [part for part in item.parts if not self._brief or isinstance(part, Said | Step)]
        if not parts and self._brief:
            return
        yield self._heading(item.entry, "assistant", short_model(item.model), "interrupted" if item.interrupted else "")
        for part in parts:
            yield ""
            yield from self._part(part)

    def _heading(self, one: Entry, role: str, *more: str) -> str:
        when = one.node.created_at.astimezone().strftime("%Y-%m-%d %H:%M")
        return " · ".join([f"## {role}", name_of(one.node), when, *map(_words, filter(None, more))])

    def _part(self, part: Part) -> Iterator[str]:
        if isinstance(part, Said):
            for number, block in enumerate(part.blocks):
                yield from [""] if number else []
                yield from paragraphs(block.text) if isinstance(block, Text) else self._beside(part.entry, block)
        elif isinstance(part, Step):
            yield from self._step(part)
        elif self._detail == "full":
            if isinstance(part, Thought):
                yield from (f"> {line}".rstrip() for line in paragraphs(part.block.text or thinking_line("")))
            else:
                yield _words(f"[{part.block.kind}]")
                yield from json_fence(part.block.data)
        else:
            yield f"> {thinking_line(part.block.text)}" if isinstance(part, Thought) else _words(f"[{part.block.kind}]")

    def _note(self, note: ProgramNote) -> Iterator[str]:
        """A note on a line; what is folded below it in full, if everything is asked for."""
        if note.kind == "compaction":
            yield f"> {seam_text(note.entry.number - 1)}"
            return
        shown = without_colours(note.text) if self._detail == "full" else ""
        if note.kind in ("shell", "command"):
            yield f"`{plain(f'! {note.title}' if note.kind == 'shell' else note.title).replace('`', chr(39))}`"
            yield from ("", *fenced(shown, "text")) if shown else ()
        elif note.kind in ("interruption", "model", "damaged") or not shown or len(shown) <= SHORT:
            yield f"> {_words(note_line(note))}"
        else:
            yield f"<details><summary>{_words(note_line(note))}</summary>"
            yield from ("", *fenced(shown, "text"), "", "</details>")
        for block in note.media:
            yield from ("", *self._beside(note.entry, block))

    def _step(self, step: Step) -> Iterator[str]:
        shown = faces.panels(step) if self._detail == "full" else []
        words, ended = plain(step.line), plain(faces.summary(step, shown))
        words = words if len(words) <= faces.WIDE else f"{words[: faces.WIDE - 1]}…"
        if self._detail != "full":
            yield f"⚙ {_words(': '.join(filter(None, (step.label, words))))} · {ended}"
            return
        line = words.replace("`", "'")
        answer = step.answered if step.answered is not None and step.answered.node is not step.entry.node else None
        id = f" · {name_of(answer.node)}" if answer is not None else ""
        yield f"**{_words(step.label)}**{f' `{line}`' if line else ''} · {ended}{id}"
        for panel in shown:
            yield ""
            yield from self._panel(step, panel)
        for note in step.notes:
            yield ""
            yield from self._note(note)

    def _panel(self, step: Step, panel: faces.Panel) -> Iterator[str]:
        match panel:
            case faces.Terminal():
                yield from fenced(f"$ {panel.command}\n{without_colours(panel.output)}", "console")
            case faces.Diff():
                yield from ([f"`{plain(panel.path).replace('`', chr(39))}`", ""] if panel.path else [])
                yield from fenced(diff_text(panel.lines), "diff")
            case faces.Code():
                yield from fenced(panel.text)
            case faces.Prose():
                yield from (f"> **{_words(panel.label)}**", ">")
                yield from (f"> {line}".rstrip() for line in paragraphs(panel.text))
            case faces.Checks():
                yield from (f"- [{_BOX[state]}] {_words(text)}" for state, text in panel.items)
            case faces.Question():
                yield f"> {_words(panel.text)}"
                yield from (f"> - {_words(option)}" for option in panel.options)
                yield from ([">", f"> **{_words(panel.answer)}**"] if panel.answer else [])
            case faces.PageLink():
                yield f"<{panel.url}>" if _PAGE.fullmatch(panel.url) else _words(panel.url)
            case faces.ArgumentTable():
                yield from json_fence(panel.arguments)
            case faces.Output():
                if isinstance(panel.block, Text):
                    shown = without_colours(panel.block.text)
                    yield from fenced(shown, "text") if shown.strip() else ["(no output)"]
                else:
                    yield from self._beside(step.answered or step.entry, panel.block)

    def _beside(self, one: Entry, block: Media | Opaque) -> Iterator[str]:
        """An attachment as an image or a link, if it can be kept beside the file."""
        if isinstance(block, Opaque):
            yield _words(f"[{block.kind}]")
            yield from json_fence(block.data) if self._detail == "full" else ()
            return
        where = self._save(one, block) if self._save is not None else None
        label = _words(block.name or block.modality).replace("]", ")")
        yield _words(placeholder(block)) if where is None else f"{'!' * (block.modality == 'image')}[{label}]({where})"


def _front_matter(session: Session, prices: Prices | None) -> Iterator[str]:
    origin = origin_of(session)
    used = conversation_usage(session, prices).total
    facts = {
        "title": session.title,
        "id": session.id,
        "created": session.created_at.isoformat(),
        "updated": session.updated_at.isoformat(),
        "tool": origin.tool or None,
        "tool_id": origin.id or None,
        "project": session.cwd,
        "git_branch": origin.branch or None,
        "model": session.model,
        "labels": list(session.labels) or None,
        "messages": session.counters.messages,
        "tokens_in": used.lanes.all_input,
        "tokens_out": used.lanes.output,
        "cost": round(used.cost / 1_000_000, 6) if used.cost or not used.unpriced else None,
        "cost_unknown": used.unpriced or None,
    }
    yield "---"
    # JSON is YAML, and leaves nothing to be read as a tag, a number or a comment.
    yield from (f"{name}: {msgspec.json.encode(value).decode()}" for name, value in facts.items() if value is not None)
    yield "---"
