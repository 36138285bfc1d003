"""Claude Code: ``~/.claude/projects/<project>/<session>.jsonl``, and subagents below ``<session>/subagents``.

A line with a uuid is a link of a chain; those of type user and assistant are messages under that uuid. The other links
(attachments, progress, system) are kept in the log, and the messages around them are joined. There is no published
schema: every field is optional here.

One answer may be several lines with the same message id, each with one block. Calls that run side by side are a chain
of such lines, with each result hanging on its own call, and the conversation continues from the result that came last.
In the order of the file they are one straight path: each line of an answer, and each of its results, follows the one
before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from clew.base.messages import Native
from clew.sources.contract import ENVELOPE, About, Entry, Home, Part, Skip, moment, uuid_or_none
from clew.sources.items import Item
from clew.sources.lines import LONGEST, read_lines

NAME = "claude-code"
_MESSAGES = ("user", "assistant")


class _Block(msgspec.Struct):
    type: str | None = None
    id: str | None = None
    tool_use_id: str | None = None
    text: str | None = None


class _Message(msgspec.Struct):
    role: str | None = None
    id: str | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    content: str | list[_Block] | None = None


class _Line(msgspec.Struct, rename="camel"):
    type: str | None = None
    subtype: str | None = None
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
    message: msgspec.Raw = msgspec.Raw()


_line = msgspec.json.Decoder(_Line).decode
_message = msgspec.json.Decoder(_Message).decode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_any = msgspec.json.Decoder().decode


class _Link(NamedTuple):
    """Where the next message of the chain goes: after a message, or to a root that stands for one."""

    parent: str | None
    derived: str | None = None


class ClaudeCode:
    """See `clew.sources.contract.Source`."""

    name = NAME
    title = "Claude Code"
    deletes_after = 30

    def discover(self, home: Home) -> Iterator[str]:
        root = home.env.get("CLAUDE_CONFIG_DIR") or os.path.join(home.path, ".claude")
        yield os.path.join(root, "projects")
        if home.system == "darwin":
            desktop = os.path.join(home.path, "Library", "Application Support", "Claude")
        elif home.system == "win32":
            desktop = os.path.join(home.env.get("APPDATA") or os.path.join(home.path, "AppData", "Roaming"), "Claude")
        else:
            desktop = os.path.join(home.env.get("XDG_CONFIG_HOME") or os.path.join(home.path, ".config"), "Claude")
        yield os.path.join(desktop, "local-agent-mode-sessions")

    def resume(self, conversation: str) -> str | None:
        return None if "/" in conversation else f"claude --resume {conversation}"

    def recognise(self, path: str, head: bytes) -> bool:
        for line in head.split(b"\n")[:20]:
            try:
                fields = _fields(line)
            except msgspec.MsgspecError:
                continue
            if "sessionId" in fields and "type" in fields and ("parentUuid" in fields or "leafUuid" in fields):
                return True
            if {"type", "summary", "leafUuid"} <= fields.keys():
                return True
        return False

    def read(self, item: Item) -> Iterator[Part]:
        reader = LineReader(item.member or item.path)
        with item.open() as file:
            for line in read_lines(file):
                if line.data is None:
                    yield Skip(line.number, f"the line has {line.size:,} bytes, more than {LONGEST:,}")
                else:
                    yield from reader.line(line.number, line.data)
        yield from reader.end()


class LineReader:
    """One file on its way. Memory grows with the links that are no messages, not with the bytes."""

    def __init__(self, path: str) -> None:
        name = os.path.basename(path).removesuffix(".jsonl")
        self._agent = name.removeprefix("agent-") if name.startswith("agent-") else None
        self._session = uuid_or_none(name)
        self._owner: str | None = None
        if self._agent is not None:
            folder = os.path.dirname(path)
            while folder and self._owner is None and os.path.basename(folder) != "projects":
                self._owner = uuid_or_none(os.path.basename(folder))
                folder = os.path.dirname(folder) if folder != os.path.dirname(folder) else ""
        self._links: dict[str, _Link] = {}
        self._group: dict[str, str] = {}
        """For each line of an answer with calls, and each result: the message id of the answer."""
        self._tails: dict[str, str] = {}
        """For each such answer: the last of its lines and results so far."""
        self._calls: dict[str, str] = {}
        """For each call: the message id of its answer."""
        self._used: dict[str, dict[str, int]] = {}
        self._roots: dict[str, str] = {}
        """For each line of an inline subagent: the uuid of its first line."""
        self._about: dict[str, About] = {}
        self._titles: dict[str, tuple[int, str]] = {}

    def line(self, number: int, data: bytes) -> Iterator[Part]:
        """What is in a line, which ends with a newline: facts and one record, or why it is skipped."""
        text = data[:-1].rstrip(b"\r")
        if not text.strip():
            return
        try:
            line = _line(text)
        except msgspec.ValidationError:
            try:
                line = _lenient(text)
            except msgspec.MsgspecError as error:
                yield Skip(number, f"not JSON: {error}")
                return
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            yield Skip(number, f"not JSON: {type(error).__name__}")
            return
        conversation = self._conversation(line)
        if conversation is None:
            yield Skip(number, "no conversation is named, neither by the line nor by the file")
            return
        yield from self._facts(conversation, line)
        yield self._entry(conversation, line, number, data, text)

    def end(self) -> Iterator[Part]:
        """Titles, once all of them were seen: one that a person gave, or the program, or a summary."""
        for conversation, (_, title) in self._titles.items():
            yield About(conversation=conversation, title=title)

    def _conversation(self, line: _Line) -> str | None:
        if self._agent is not None:
            owner = self._owner or uuid_or_none(line.session_id)
            return None if owner is None else f"{owner}/{self._agent}"
        session = self._session or uuid_or_none(line.session_id)
        if session is not None and line.is_sidechain and line.uuid is not None:
            root = self._roots.get(line.parent_uuid or "", line.agent_id or line.uuid)
            self._roots[line.uuid] = root
            return f"{session}/{root}"
        return session

    def _facts(self, conversation: str, line: _Line) -> Iterator[About]:
        rank, title = next(
            (
                (rank, title)
                for rank, title in enumerate((line.custom_title, line.ai_title, line.summary))
                if title and title.strip()
            ),
            (3, None),
        )
        if title is not None and rank <= self._titles.get(conversation, (3, ""))[0]:
            self._titles[conversation] = rank, title
        owner, _, agent = conversation.partition("/")
        about = About(
            conversation=conversation,
            cwd=line.cwd,
            branch=line.git_branch or None,
            version=line.version,
            agent=agent or None,
            owner=owner if agent else None,
        )
        before = self._about.get(conversation)
        if before is None or (line.cwd is not None and about != before):
            self._about[conversation] = about
            yield about

    def _entry(self, conversation: str, line: _Line, number: int, data: bytes, text: bytes) -> Entry:
        id = uuid_or_none(line.uuid)
        created_at = moment(line.timestamp)
        said = self._message_of(line)
        link, note = self._link(line, said)
        if said is None or id is None:
            if line.uuid is not None:
                self._links[line.uuid] = link
            return Entry(
                conversation=conversation, raw=data, key=line.uuid or f"line {number}", created_at=created_at, note=note
            )
        raw = bytes(line.message)
        at = text.find(raw)
        try:
            extra: dict[str, Any] = {ENVELOPE: [text[:at].decode(), data[at + len(raw) :].decode()]}
        except UnicodeDecodeError:
            self._links[line.uuid or ""] = link
            return Entry(conversation=conversation, raw=data, key=id, created_at=created_at, note="it is not UTF-8")
        usage = self._usage(said)
        if usage is not None:
            extra["counted"] = usage
        self._join(id, said)
        return Entry(
            conversation=conversation,
            raw=data,
            key=id,
            id=id,
            message=Native("anthropic", raw, extra=extra),
            parent=link.parent,
            derived=link.derived,
            created_at=created_at,
            note=note,
        )

    def _message_of(self, line: _Line) -> _Message | None:
        if line.type not in _MESSAGES or not line.message:
            return None
        try:
            said = _message(line.message)
        except msgspec.ValidationError:
            fields = _any(line.message)
            if not isinstance(fields, dict):
                return None
            said = _Message(role=fields["role"] if isinstance(fields.get("role"), str) else None)
        return said if said.role is not None else None

    def _link(self, line: _Line, said: _Message | None) -> tuple[_Link, str | None]:
        """What a line follows, past lines that are no messages; and what is wrong with that."""
        if line.parent_uuid is None:
            derived = None
            if line.logical_parent_uuid is not None:
                derived = self._after(line.logical_parent_uuid).parent
            return _Link(None, derived), None
        if line.parent_uuid == line.uuid:
            return _Link(None), "it names itself as its parent"
        return self._after(line.parent_uuid), None

    def _after(self, uuid: str) -> _Link:
        """The message that stands for a link of the chain: itself, the one before it, or the end of its answer."""
        found = self._links.get(uuid)
        if found is None:
            found = _Link(uuid_or_none(uuid))
        group = self._group.get(found.parent or "")
        return found if group is None else found._replace(parent=self._tails[group])

    def _join(self, id: str, said: _Message) -> None:
        """Notes lines of an answer that calls tools, and results, as parts of one straight path."""
        blocks = said.content if isinstance(said.content, list) else []
        calls = [block.id for block in blocks if block.type == "tool_use" and block.id]
        answered = [block.tool_use_id for block in blocks if block.type == "tool_result"]
        group = (
            said.id if said.role == "assistant" else next((self._calls[c] for c in answered if c in self._calls), None)
        )
        if group is None:
            return
        self._calls.update(dict.fromkeys(calls, group))
        self._group[id] = group
        self._tails[group] = id

    def _usage(self, said: _Message) -> dict[str, int] | None:
        """What a line of an answer adds to the usage counted so far; None where the message's own may be counted."""
        if said.id is None or said.usage is None:
            return None
        now = {name: value for name, value in said.usage.items() if type(value) is int}
        before = self._used.get(said.id)
        self._used[said.id] = (
            now if before is None else {name: max(now.get(name, 0), before.get(name, 0)) for name in {*now, *before}}
        )
        if before is None:
            return None
        added = {name: max(0, value - before.get(name, 0)) for name, value in now.items()}
        return {"input": added.get("input_tokens", 0), "output": added.get("output_tokens", 0)}


def _lenient(text: bytes) -> _Line:
    """A line in which a field has another type than usual: that field is left out."""
    fields = _fields(text)
    kept: dict[str, Any] = {}
    for name, encoded in zip(_Line.__struct_fields__, _Line.__struct_encode_fields__, strict=True):
        raw = fields.get(encoded)
        if raw is None:
            continue
        if name == "message":
            kept[name] = raw
            continue
        value = _any(raw)
        if isinstance(value, bool if name.startswith("is_") else str):
            kept[name] = value
    return _Line(**kept)
