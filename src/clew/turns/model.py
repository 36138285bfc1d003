"""What is shown of a conversation, as values. `clew.turns.derive` makes them; each renderer writes them in one form.

* a **turn** is a prompt and what followed it;
* an **answer** is one response of the model, whatever number of messages it is stored in;
* a **step** is a tool call with its result;
* a **note** is what neither the user nor the model wrote: commands, reminders, interruptions, compactions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from clew.base.messages import Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from clew.engine.node import Node
from clew.errors import Corrupted
from clew.providers.usage import AnswerUsage

NoteKind = Literal[
    "command", "shell", "output", "caveat", "reminder", "instructions", "interruption", "compaction", "summary",
    "model", "error", "damaged",
]  # fmt: skip
"""``output`` is what a command or a shell printed, and ``caveat`` what a program tells the model before it; both become
a part of their note."""
FaceKind = Literal[
    "shell", "edit", "read", "todos", "plan", "question", "agent", "web", "mcp", "other"
]  # fmt: skip
State = Literal["done", "failed", "missing"]


class NoteRule(NamedTuple):
    """How a program marks text that it writes in the user's name."""

    kind: NoteKind
    pattern: re.Pattern[str]
    """Matched at the beginning of a text, and again after each match. Its group ``text`` is what to show, without the
    space around it; its groups ``title`` and ``args`` are the line above. It must take linear time on any text: nothing
    that may repeat follows something else that may repeat over the same characters."""
    title: str = ""


class MessageMark(NamedTuple):
    """How a program marks a whole message that it writes itself, in the record around the message or in the message."""

    text: str
    kind: NoteKind
    title: str = ""


class ShowRules(NamedTuple):
    """What a source knows of how its program shows a conversation."""

    notes: tuple[NoteRule, ...] = ()
    results: tuple[NoteRule, ...] = ()
    """How it marks text that it writes in place of the result of a tool. Reminders in `notes` hold for results, too."""
    marks: tuple[MessageMark, ...] = ()
    faces: Mapping[str, FaceKind] = MappingProxyType({})
    """Faces of tools by name, in lower case; those of `clew.turns.faces` are known."""
    response: str = ""
    """The field of a message that names the response it is a part of; without one, a message is a response."""
    opaque: Mapping[str, str] = MappingProxyType({})
    """Kinds of blocks that the program adds to a prompt, with a title for each."""
    joins: bool = False
    """True if each item of a response is a message: those without a result between them are one response."""
    loose_calls: bool = False
    """True if each call of a response is a message of its own, which names no model."""


PLAIN = ShowRules()
"""The rules of a program of which nothing is known."""


def tag(kind: NoteKind, names: str, title: str = "") -> NoteRule:
    """The rule for text between tags: ``names`` is a pattern of the tag's name."""
    return NoteRule(kind, re.compile(rf"<(?P<tag>{names})\b[^>]*>(?P<text>.*?)</(?P=tag)>", re.DOTALL), title)


class Entry(NamedTuple):
    """A stored message with its number in the conversation; `message` is None if it is damaged."""

    node: Node
    number: int
    message: Message | None
    why: str = ""

    @property
    def anchor(self) -> str:
        """The id of its element on a page."""
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

    @property
    def is_interrupted(self) -> bool:
        """True for an answer that was interrupted."""
        return self.message is not None and bool((self.message.extra or {}).get("interrupted"))


def entry(node: Node) -> Entry:
    """A node as an entry. Never raises for damage."""
    why, message = "", None
    try:
        message = node.message
    except Corrupted as error:
        why = error.why
    try:
        return Entry(node, node.counters.messages, message, why)
    except Corrupted as error:
        return Entry(node, node.depth + 1, None, why or error.why)


class ProgramNote(NamedTuple):
    """What neither the user nor the model wrote."""

    kind: NoteKind
    entries: tuple[Entry, ...]
    title: str = ""
    """A line: a command, the kind of a reminder."""
    text: str = ""
    """What is folded below the line: a system prompt, the output of a command."""
    media: tuple[Media, ...] = ()

    @property
    def entry(self) -> Entry:
        """Its first message."""
        return self.entries[0]


class UserPrompt(NamedTuple):
    """What the user typed and attached."""

    entry: Entry
    blocks: tuple[Text | Media | Opaque, ...]
    notes: tuple[ProgramNote, ...] = ()
    """What the program added to it."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Its message."""
        return (self.entry,)

    @property
    def text(self) -> str:
        """What was typed."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, Text))


class Step(NamedTuple):
    """A tool call with its result. One of the two may be missing."""

    call: ToolCall | None
    result: ToolResult | None
    entry: Entry
    """The message with the call; with the result if the call is not among the messages."""
    answered: Entry | None
    """The message with the result."""
    kind: FaceKind
    label: str
    """The tool as people know it: ``Bash``, ``server: tool``, the name of a subagent."""
    line: str
    """The argument that says the most, on one line."""
    project: str = ""
    """The directory that paths are relative to."""
    notes: tuple[ProgramNote, ...] = ()
    """What the program added to the result."""

    @property
    def state(self) -> State:
        """How it ended."""
        return "missing" if self.result is None else "failed" if self.result.is_error else "done"

    @property
    def seconds(self) -> float | None:
        """How long it took, if the times of both messages are known."""
        if self.answered is None or self.answered.node is self.entry.node:
            return None
        try:
            return max(0.0, (self.answered.node.created_at - self.entry.node.created_at).total_seconds())
        except Corrupted:
            return None


class Said(NamedTuple):
    """Text of an answer, with attachments."""

    entry: Entry
    blocks: tuple[Text | Media, ...]


class Thought(NamedTuple):
    """Reasoning."""

    entry: Entry
    block: Thinking


class Unknown(NamedTuple):
    """A block of a kind that clew does not know."""

    entry: Entry
    block: Opaque


Part = Said | Thought | Step | Unknown


class ModelAnswer(NamedTuple):
    """One response of the model."""

    id: str
    """The provider's id of the response; else that of its first message. Stable."""
    entries: tuple[Entry, ...]
    """Its messages, without those of results."""
    parts: tuple[Part, ...]
    model: str | None = None
    usage: AnswerUsage | None = None
    """The sum over its messages; None if nothing is known."""
    interrupted: bool = False

    @property
    def entry(self) -> Entry:
        """Its first message."""
        return self.entries[0]

    @property
    def steps(self) -> list[Step]:
        """Its tool calls."""
        return [part for part in self.parts if isinstance(part, Step)]


Item = UserPrompt | ModelAnswer | ProgramNote


class ShownTurn(NamedTuple):
    """A prompt and what followed it. What comes before the first prompt is a turn without one."""

    prompt: UserPrompt | None
    items: tuple[ModelAnswer | ProgramNote, ...]

    def __iter__(self) -> Iterator[Item]:  # type: ignore[override]
        """All items in order."""
        if self.prompt is not None:
            yield self.prompt
        yield from self.items
