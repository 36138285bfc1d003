"""What Claude Code writes: the lines of its logs, and the files around them.

There is no published schema: every field is optional here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, Any, NamedTuple

import msgspec

from clew.base.messages import Message, Text
from clew.errors import ClewError, Invalid
from clew.providers.json_values import as_list, as_word
from clew.providers.view import parse, reported_usage
from clew.sources.contract import ENVELOPE, Attachment, FileCopies, moment, uuid_or_none
from clew.sources.items import Item
from clew.sources.values import without_surrogates

_SUMMARY = b'{"type":"summary"'
_LONGEST = 1 << 14
"""Bytes of a summary's line at most; it is one sentence."""
_LARGEST_META = 1 << 20
_RESULT = re.compile(rb"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})[/\\]+tool-results[/\\]+([\w.-]+)")
_COPY = re.compile(r"[\w-]+@v\d+").fullmatch

_any = msgspec.json.Decoder(dict[str, Any]).decode


class Place(NamedTuple):
    """What the path of a log says."""

    session: str | None
    """The session; None for a subagent and for a file under another name."""
    agent: str | None
    owner: str | None
    """The session that a subagent belongs to, if the path says so."""
    folder: str
    """The folder of the project."""


def place(path: str) -> Place:
    """What a path says: ``PROJECT/SESSION.jsonl``, or ``PROJECT/SESSION/subagents/…/agent-ID.jsonl``."""
    name = os.path.basename(path).removesuffix(".jsonl")
    folder = os.path.dirname(path)
    if not name.startswith("agent-"):
        return Place(uuid_or_none(name), None, None, folder)
    above, found, _ = folder.rpartition(f"{os.sep}subagents")
    owner = uuid_or_none(os.path.basename(above)) if found else None
    return Place(None, name.removeprefix("agent-"), owner, os.path.dirname(above) if found else folder)


def agent_facts(item: Item) -> dict[str, str]:
    """What ``agent-ID.meta.json`` says of a subagent: agentType, description, toolUseId; empty without that file."""
    if item.member is not None:
        return {}
    beside = item.at(f"{item.path.removesuffix('.jsonl')}.meta.json")
    with suppress(ClewError, OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError), beside.open() as file:
        found = _any(file.read(_LARGEST_META))
        return {name: value for name, value in found.items() if isinstance(value, str) and value}
    return {}


def results(log: Item, folder: str, raw: bytes) -> tuple[Attachment, ...]:
    """The files of results that were too large for the log and are named in a message."""
    found: dict[str, Attachment] = {}
    if b"tool-results" not in raw:
        return ()
    for match in _RESULT.finditer(raw):
        session, name = match[1].decode(), match[2].decode()
        path = os.path.join(folder, session, "tool-results", name)
        if os.path.lexists(path):
            mime = "text/plain" if name.endswith(".txt") else None
            found[name] = Attachment(f"tool-results/{name}", name, mime, log.at(path).open)
    return tuple(found.values())


def copies(log: Item, folder: str, session: str, raw: bytes) -> FileCopies | None:
    """The copies that a line of type ``file-history-snapshot`` names; they are in ``file-history/SESSION``.

    None if it names no message, or if `folder` is not a project's folder of the program.
    """
    projects = os.path.dirname(folder)
    snapshot: Any = None
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        snapshot = _any(raw).get("snapshot")
    if os.path.basename(projects) != "projects" or not isinstance(snapshot, dict):
        return None
    message, at = uuid_or_none(snapshot.get("messageId")), moment(snapshot.get("timestamp"))
    named = snapshot.get("trackedFileBackups")
    if message is None or at is None or not isinstance(named, dict):
        return None
    place = os.path.join(os.path.dirname(projects), "file-history", session)
    files: dict[str, Callable[[], IO[bytes]] | None] = {}
    for path, backup in named.items():
        name = backup.get("backupFileName", "") if isinstance(backup, dict) else ""
        if name is None:
            files[path] = None
        elif isinstance(name, str) and _COPY(name):
            files[path] = log.at(os.path.join(place, name)).open
    return FileCopies(message, at, files) if files else None


class Summaries:
    """Titles that stand at the beginning of other logs of a project, by the message that they end with.

    Older versions wrote the summary of a conversation into the file of the next one. Each file is looked at once.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._seen: set[str] = set()
        self._changed = -1
        self._titles: dict[str, str] = {}

    def titles(self) -> dict[str, str]:
        """The titles known now."""
        with suppress(OSError):
            changed = os.stat(self._folder).st_mtime_ns
            if changed != self._changed:
                self._changed = changed
                for entry in os.scandir(self._folder):
                    if (
                        entry.name.endswith(".jsonl")
                        and entry.name not in self._seen
                        and entry.is_file(follow_symlinks=False)
                    ):
                        self._seen.add(entry.name)
                        self._titles.update(self._read(entry.path))
        return self._titles

    def _read(self, path: str) -> Iterator[tuple[str, str]]:
        with suppress(ClewError, OSError), Item(path, 0, 0, root=self._folder).open() as file:
            while (line := file.readline(_LONGEST)).startswith(_SUMMARY):
                with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                    found = _any(line)
                    if isinstance(found.get("leafUuid"), str) and isinstance(found.get("summary"), str):
                        yield found["leafUuid"], found["summary"]


class LineBlock(msgspec.Struct):
    """A block of a message."""

    type: str | None = None
    id: str | None = None
    tool_use_id: str | None = None


class LineMessage(msgspec.Struct):
    """A message, as far as its place in the conversation needs it."""

    role: str | None = None
    id: str | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    content: str | list[LineBlock] | None = None


class TranscriptLine(msgspec.Struct, rename="camel"):
    """A line: its own fields, and the message in it."""

    type: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    timestamp: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    summary: str | None = None
    leaf_uuid: str | None = None
    custom_title: str | None = None
    ai_title: str | None = None
    compact_metadata: dict[str, Any] | None = None
    subtype: str | None = None
    content: msgspec.Raw = msgspec.Raw()
    message: msgspec.Raw = msgspec.Raw()


_line = msgspec.json.Decoder(TranscriptLine).decode
_message = msgspec.json.Decoder(LineMessage).decode
fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
any_value = msgspec.json.Decoder().decode


def read_line(text: bytes) -> tuple[TranscriptLine, bytes]:
    """A line, and its text as it was read. MsgspecError, UnicodeDecodeError or RecursionError if it is not JSON."""
    try:
        return _line(text), text
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        shape = without_surrogates(text)  # only for reading; the original bytes are stored
        return _lenient(shape), shape


def local_command(line: TranscriptLine, data: bytes) -> Message | None:
    """A command of the program that the user ran, or its output, in a line of its own; None for other lines."""
    if line.subtype != "local_command" or line.type != "system" or not line.content:
        return None
    try:
        text = any_value(line.content)
        return Message("user", (Text(text),), extra={ENVELOPE: [data.decode(), ""]}) if isinstance(text, str) else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def read_message(raw: msgspec.Raw) -> LineMessage | None:
    """The message of a line; None if it is not a message."""
    try:
        said = _message(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        try:
            fields = parse(bytes(raw))
        except (msgspec.MsgspecError, Invalid, UnicodeDecodeError, RecursionError):
            return None
        said = LineMessage(role=fields["role"] if isinstance(fields.get("role"), str) else None)
    return said if said.role is not None else None


def role_and_usage(said: LineMessage) -> Message | None:
    """Role and usage, as the view of the message has them; None if this takes a closer look."""
    content, role = said.content, said.role
    if content is None:
        return None
    used = None if said.usage is None else reported_usage({"usage": said.usage})
    if role == "assistant" and content:
        return _ASSISTANT if used is None else Message("assistant", usage=used)
    if role == "user" and used is None and content:
        if type(content) is list:
            for block in content:
                if block.type != "tool_result":
                    return _USER
            return _TOOL
        return _USER
    return None


_USER, _ASSISTANT, _TOOL = Message("user"), Message("assistant"), Message("tool")


def words(raw: msgspec.Raw) -> str:
    """The text of a message; none if it cannot be read."""
    try:
        content = any_value(raw).get("content")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return content if isinstance(content, str) else "\n".join(as_word(one.get("text")) for one in as_list(content))


def seams(about: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The last message that a compaction preserved, and the one that it comes after now."""
    for name in ("preservedSegment", "preservedMessages"):
        kept = about.get(name)
        if isinstance(kept, dict):
            listed = kept.get("uuids")
            tail = listed[-1] if isinstance(listed, list) and listed else kept.get("tailUuid")
            anchor = kept.get("anchorUuid")
            if isinstance(tail, str) and isinstance(anchor, str) and tail != anchor:
                yield tail, anchor


def noted_cost(text: bytes) -> int | None:
    """The cost of the whole conversation so far, in millionths of a dollar; None if a part of it is unknown."""
    fields = fields_of(text)
    cost = any_value(fields.get("totalCostUSD", b"null"))
    is_whole = any_value(fields.get("hasUnknownModelCost", b"false")) is not True
    return round(cost * 1_000_000) if is_whole and isinstance(cost, int | float) and 0 <= cost < 1 << 30 else None


def _lenient(text: bytes) -> TranscriptLine:
    """A line in which a field has another type than usual: that field is left out."""
    fields = fields_of(text)
    kept: dict[str, Any] = {}
    for name, encoded in zip(TranscriptLine.__struct_fields__, TranscriptLine.__struct_encode_fields__, strict=True):
        raw = fields.get(encoded)
        if raw is None:
            continue
        if name in ("message", "content"):
            kept[name] = raw
            continue
        value = any_value(raw)
        usual = bool if name.startswith("is_") else dict if name == "compact_metadata" else str
        if isinstance(value, usual):
            kept[name] = value
    return TranscriptLine(**kept)
