"""Words and numbers as the page shows them, and conversations as plain values for templates and JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from shlex import quote
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
from markupsafe import Markup

from clew.base.messages import ToolResult, texts
from clew.engine.node import Node
from clew.errors import Corrupted
from clew.exports.render.text import LINE, attribute, inline
from clew.sources.contract import Source
from clew.sources.registry import resume_elsewhere, sources
from clew.store.origin import origin_of
from clew.store.session import Session
from clew.turns.derive import items
from clew.turns.faces import result_text
from clew.turns.model import PLAIN, Entry, Item, ProgramNote, Said, ShowRules, Step, UserPrompt, entry
from clew.web.secrets import SecretFinder

RAW = 1_000_000
"""Characters of a message that are shown as it is stored."""
PINNED = "pinned"
"""The label of pinned conversations."""
OWN = "clew"
"""The tool of conversations that were not imported."""
_BADGES = {"claude-code": ("CC", "cc"), "codex": ("Cx", "cx"), "chatgpt": ("GP", "gp"), "claude-ai": ("Ai", "cc"),
           "gemini-cli": ("Ge", "ge"), "llm": ("ll", "ll"), "copilot-cli": ("Co", "cx"), "vscode": ("VS", "ge"),
           "qwen-code": ("Qw", "ll"), "opencode": ("oc", "gp"), "pi": ("pi", "cc"), "goose": ("Go", "gp"),
           "cline": ("Cl", "ge"), "continue": ("Ct", "ll"), "aider": ("ai", "gp"), "cursor": ("Cu", "cc"),
           "open-webui": ("OW", "cx"), "librechat": ("LC", "ge"), "lm-studio": ("LM", "ll"), "hf-traces": ("HF", "cc"),
           "otel": ("OT", "ge"), OWN: ("cl", "ow")}  # fmt: skip

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_BOLD = re.compile(r"\*\*(?=\S)(.{1,200}?)(?<=\S)\*\*")
_NUMBERED = re.compile("[0-9a-f-]{6,}").fullmatch
_SPACE = re.compile(r"\s+")


class ToolBadge(NamedTuple):
    """The program a conversation came from, as the page shows it."""

    name: str
    title: str
    badge: str
    hue: str


def tool_of(session: Session) -> ToolBadge:
    """The program that a conversation was imported from, or clew itself."""
    return tool(origin_of(session).tool or OWN)


@lru_cache(256)  # the names come from stored data
def tool(name: str) -> ToolBadge:
    """A program by its name."""
    known = None if name == OWN else _sources().get(name)
    title = known.title if known is not None else name
    badge, hue = _BADGES.get(name, (title[:2], "ow"))
    return ToolBadge(name, title, badge, hue)


def resume_command(session: Session) -> str:
    """The command that continues a conversation in the tool it came from, in its directory; else in clew."""
    origin = origin_of(session)
    command = resume_elsewhere(origin.tool, origin.id)
    if command is None:
        return f"clew chat -c {session.handle}"
    return f"cd {quote(session.cwd)} && {command}" if session.cwd else command


def agent_name(session: Session) -> str:
    """The name of a subagent: its kind, else its task; not the number that some programs give it."""
    agent = session.agent or ""
    return session.title or "Subagent" if not agent or _NUMBERED(agent) else agent


def project_of(session: Session) -> str:
    """The last part of the conversation's directory."""
    return (session.cwd or "").rstrip("/").rpartition("/")[2]


def ago(when: datetime, now: datetime) -> str:
    """A time in few characters: ``4 min``, ``14:05``, ``Tue``, ``2 May``, ``2024-05-02``."""
    seconds = (now - when).total_seconds()
    here, today = when.astimezone(), now.astimezone()
    if seconds < 60:
        return "now"
    if seconds < 3600:
        return f"{int(seconds // 60)} min"
    if here.date() == today.date():
        return f"{here:%H:%M}"
    if today.date() - here.date() < timedelta(days=7):
        return f"{here:%a}"
    return f"{here.day} {here:%b}" if here.year == today.year else f"{here:%Y-%m-%d}"


def day(when: datetime, now: datetime) -> str:
    """The heading under which a list shows a time."""
    days = (now.astimezone().date() - when.astimezone().date()).days
    if days <= 0:
        return "Today"
    if days == 1:
        return "Yesterday"
    return "Last 7 days" if days < 7 else f"{when.astimezone():%B %Y}"


def to_line(text: str | None) -> Markup:
    """Stored text on one line, escaped, with hidden characters as chips. Colours of a terminal are left out."""
    return Markup(inline(_one_line((text or "")[:LINE])))


def to_tip(text: str | None) -> Markup:
    """Stored text as the value of an attribute: a tooltip, or a label for screen readers."""
    return Markup(attribute(text or ""))


def snippet(node: Node, finder: SecretFinder, width: int = 160, rules: ShowRules = PLAIN) -> str:
    """The first words of a message as it is shown, with secrets named instead of shown; empty if it has none."""
    one = entry(node)
    if one.message is None:
        return "Damaged message"
    words = " ".join(word for item in items([one], rules) for word in _shown_words(item))
    return shorten(words, finder, width)


def _shown_words(item: Item) -> Iterator[str]:
    """The words of a prompt, an answer or a note, without what marks them as bold."""
    if isinstance(item, UserPrompt):
        yield item.text
    elif isinstance(item, ProgramNote):
        yield from filter(None, (item.title, item.text))
    else:
        for part in item.parts:
            if isinstance(part, Said):
                yield _BOLD.sub(r"\1", " ".join(texts(part.blocks)))
            elif isinstance(part, Step):
                yield result_text(part.result)


def shorten(text: str, finder: SecretFinder, width: int) -> str:
    """The first words of a text on one line, with secrets named instead of shown."""
    words = _one_line(finder.in_line(text, 20 * width)).strip()
    return words if len(words) <= width else f"{words[: width - 1]}…"


def mark_matches(text: str, marks: Iterable[tuple[int, int]], secrets: Iterable[tuple[int, int, str]] = ()) -> Markup:
    """A snippet with its matches marked, and its secrets named instead of shown."""
    hidden = list(secrets)
    shown = [(start, end, "") for start, end in marks if not any(a < end and start < b for a, b, _ in hidden)]
    parts, at = [], 0
    for start, end, rule in sorted([*hidden, *shown]):
        piece = f"[hidden {rule.replace('-', ' ')}]" if rule else f"<mark>{inline(_one_line(text[start:end]))}</mark>"
        parts += [inline(_one_line(text[at:start])), piece]
        at = end
    return Markup("".join([*parts, inline(_one_line(text[at:]))]))


def dot(label: str) -> str:
    """The class of the colour of a label: always the same for the same label."""
    return f"d{crc32(label.encode(errors='replace')) % 6}"


def is_failure(node: Node) -> bool:
    """True for a message with the result of a tool call that failed."""
    try:
        return any(isinstance(block, ToolResult) and block.is_error for block in node.message.blocks)
    except Corrupted:
        return False


def session_value(session: Session) -> dict[str, Any]:
    """A conversation as JSON."""
    counters = session.counters
    return {
        "id": session.id,
        "title": session.title,
        "tool": tool_of(session).name,
        "source": {name: value for name, value in origin_of(session)._asdict().items() if value},
        "cwd": session.cwd,
        "model": session.model,
        "labels": list(session.labels),
        "created_at": session.created_at.isoformat(),
        "updated_at": session.updated_at.isoformat(),
        "forked_from": session.forked_from,
        "head": session.head_id,
        "messages": counters.messages,
        "tokens_in": counters.tokens_in if counters.tokens_known else None,
        "tokens_out": counters.tokens_out if counters.tokens_known else None,
        "cost": counters.cost if counters.cost_known else None,
    }


def entry_value(one: Entry) -> dict[str, Any]:
    """A message as JSON."""
    value: dict[str, Any] = {"id": one.node.id, "number": one.number, "parent": one.node.parent_id}
    if one.message is None:
        return {**value, "damaged": one.why}
    return {
        **value,
        "created_at": one.node.created_at.isoformat(),
        "message": msgspec.to_builtins(one.message),
    }


def node_value(node: Node) -> dict[str, Any]:
    """A node as JSON."""
    return entry_value(entry(node))


def _one_line(text: str) -> str:
    return _SPACE.sub(" ", _COLOURS.sub("", text))


def utc_now() -> datetime:
    """The present time."""
    return datetime.now(UTC)


@cache
def _sources() -> dict[str, Source]:
    return {source.name: source for source in sources()}


def shown_text(body: bytes, secrets: SecretFinder) -> Markup:
    """Stored bytes as text for `pre`."""
    text = body.decode("utf-8", "backslashreplace")
    rest = f"\n… {len(text) - RAW:,} more characters in the file" if len(text) > RAW else ""
    return Markup(inline(secrets.hide(text, RAW)) + rest)
