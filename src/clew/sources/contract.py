"""What a source is: the history that another program keeps, recognised and read.

A source reads; it never writes, executes or connects. It yields what is in a file in the order of the file, so that
memory does not grow with the file:

* `About`: facts about a conversation (title, directory, model …), whenever they become known; a later one wins.
* `Entry`: one record. A record that is a message has `message` and the id of the message it follows; every other record
  is kept as it is in the conversation's log.
* `Skip`: a record that cannot be read, and why.

Joined in order, the bytes of the entries of a JSONL file are the file, without skipped and unfinished lines.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import IO, Any, NamedTuple, Protocol

import msgspec

from clew.base.messages import AnyMessage, Message
from clew.sources.items import Item
from clew.turns.model import ShowRules

_SPACE = uuid.UUID("6f8a4c1e-93b7-5d2a-8e10-c1e30f4b7a65")
"""Namespace of ids that are derived from a source's own names."""
ENVELOPE = "line"
"""Where a message's free data has the line around it: the text before the message, and the text after it."""

_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").fullmatch


class Home(NamedTuple):
    """A user's machine, as far as sources need it to find histories."""

    path: str
    """The user's folder."""
    env: Mapping[str, str]
    system: str
    """``linux``, ``darwin`` or ``win32``, as `sys.platform` has it."""


class Attachment(NamedTuple):
    """A file that a message refers to."""

    reference: str
    """How the message names it: the `url` of the media block in the message's view."""
    name: str | None
    mime_type: str | None
    open: Callable[[], IO[bytes]]


class FileCopies(NamedTuple):
    """Copies of working files that a program made before a message changed them."""

    message: str
    """The id of the message."""
    created_at: datetime
    files: Mapping[str, Callable[[], IO[bytes]] | None]
    """By path, absolute or below the directory of the conversation; None for a file that did not exist."""


class About(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Facts about a conversation. None means: not known here."""

    conversation: str
    title: str | None = None
    prompt: str | None = None
    """The whole first prompt: it names a conversation without a title. Empty if there is none so far. If it is never
    given, the first message of the user is the first prompt."""
    cwd: str | None = None
    branch: str | None = None
    """The git branch."""
    model: str | None = None
    version: str | None = None
    """The version of the program that wrote it."""
    agent: str | None = None
    """The name of the subagent whose trace it is."""
    owner: str | None = None
    """The conversation that a subagent's trace belongs to."""
    forked_from: str | None = None
    """The conversation that this one is a fork of. If it is never given, a conversation that begins with messages of
    another one is a fork of that."""
    head: str | None = None
    """The id of the message where the program itself would continue; without it, the last message read."""
    labels: tuple[str, ...] | None = None
    own: dict[str, Any] | None = None
    """Free data of the session, by name: the adapter of the program needs it to continue the conversation."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One record of a history."""

    conversation: str
    raw: bytes
    """The record's own bytes."""
    key: str
    """What tells the record from others of its conversation; the same in every copy of the file."""
    id: str | None = None
    """The id of the message, if it is one."""
    message: AnyMessage | None = None
    parent: str | None = None
    """The id of the message it follows; None for a root."""
    derived: str | None = None
    """For a root after a compaction: the id of the last message that it stands for."""
    created_at: datetime | None = None
    note: str | None = None
    """What is wrong with it, though it was kept: a missing parent, a cycle."""
    inherited: bool = False
    """True for a record of another file that this conversation continues. It is stored once, under the id that it has
    there, and is not part of this file when the conversation is written out."""
    attachments: tuple[Attachment, ...] = ()
    copies: FileCopies | None = None
    """For a record that names copies of working files: these become checkpoints."""
    seen: Message | None = None
    """Role and usage of a native message, as its view has them, if the source has read its JSON: saves reading it again
    to store it. The source has made sure that it is a JSON object."""


class Skip(NamedTuple):
    """A record that was not read: its number in the file, from 1 on, and why."""

    line: int | None
    why: str


class Pause(Skip):
    """Asks the importer to store what was read so far, because the next part takes long. Skips nothing."""


PAUSE = Pause(None, "")
Part = About | Entry | Skip


class ReadMark(msgspec.Struct, frozen=True, kw_only=True):
    """How far a source has read a file that grows at its end."""

    offset: int
    """Bytes of the lines that were read."""
    line: int
    """How many lines these are."""
    state: dict[str, Any]
    """The state of the source after these lines, as JSON."""


class StaleMark(Exception):
    """New lines refer to earlier lines that the mark does not have: the whole file must be read."""


class Source(Protocol):
    """One program's history."""

    @property
    def name(self) -> str:
        """What people type: ``claude-code``."""

    @property
    def title(self) -> str:
        """What people read: ``Claude Code``."""

    @property
    def deletes_after(self) -> int | None:
        """Days after which the program deletes its history by default; None if it keeps it."""

    def discover(self, home: Home) -> Iterable[str]:
        """Where the program keeps its history on this machine: files or folders, as patterns for `glob`.

        Only the environment is looked at, not the disk. Empty for exports, which can be anywhere.
        """

    def resume(self, conversation: str) -> str | None:
        """The command that continues a conversation in the program itself; None if there is none."""

    def recognise(self, path: str, head: bytes) -> bool:
        """Whether a file is of this kind, by its first bytes; the name may help and may lie."""

    def read(self, item: Item) -> Iterator[Part]:
        """What is in a file, in its order. Unavailable if it cannot be read."""


class SourceWithRules(Source, Protocol):
    """A source of a program that writes text in the user's name, or shows conversations in a way of its own."""

    @property
    def rules(self) -> ShowRules:
        """How the program marks its own text: that text is shown as a note, and is no part of a title."""


class GrowingSource(Source, Protocol):
    """A source of files to which programs append: it can continue where it stopped."""

    def read_on(self, item: Item, mark: ReadMark | None) -> Generator[Part, None, ReadMark | None]:
        """As `read`, from a mark on; returns the next mark, or None for a file that is read whole each time. StaleMark.

        The caller has made sure that the file is unchanged up to the mark. Parts that came before StaleMark are valid.
        """


def moment(value: object) -> datetime | None:
    """A time in ISO 8601 with its zone, or in seconds since 1970; None for everything else."""
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            return None
        return found if found.tzinfo is not None else None
    if isinstance(value, int | float) and 0 < value < 1 << 33:
        return datetime.fromtimestamp(value, UTC)
    return None


def derived_id(source: str, conversation: str, key: str = "") -> str:
    """The id of something whose own name is unique in its conversation only; of the conversation without `key`."""
    name = f"{source}\0{conversation}\0{key}".encode(errors="backslashreplace")  # a file's name may not be UTF-8
    return str(uuid.uuid5(_SPACE, name.decode()))


def join_names(*names: str) -> str:
    """The name of a conversation that has several names, such as an app, a user and a session: no two have the same.

    Names without a slash are joined by slashes; one name stays as it is.
    """
    return names[0] if len(names) == 1 else join_any_names(*names)


def join_any_names(*names: str) -> str:
    """As `join_names`, for a source that has conversations of one name and of several: no two have the same."""
    if any("/" in name for name in names) or names[0].startswith("["):
        return msgspec.json.encode(names).decode()
    return "/".join(names)


def split_names(text: str) -> tuple[str, ...]:
    """The names that `join_any_names` was given."""
    return tuple(msgspec.json.decode(text, type=list[str])) if text.startswith("[") else tuple(text.split("/"))


def uuid_or_none(value: object) -> str | None:
    """`value` as the canonical text of a UUID; None if it is none."""
    if not isinstance(value, str):
        return None
    if _UUID(value):
        return value
    return value.lower() if _UUID(value.lower()) else None
