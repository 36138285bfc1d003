"""OpenAI Codex: ``~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<thread>[_<part>].jsonl[.zst]``.

A file has two logs in one: what was sent and received (``response_item``: the messages), and what was shown
(``event_msg``: kept in the log; exit codes and token counts are taken from it). A compaction is a message too: a root
that stands for the messages before it.

Newer files number their lines and copy nothing: a fork, or a thread after a rewind, begins where another file ends, and
names that file. Its messages are given here as inherited, under the ids they have there. Older forks begin with a copy
of what they continue; there, a message's id is derived from its turn, which the copy keeps.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from typing import IO, Any, NamedTuple

import msgspec

from clew.base.messages import Message, Native, Opaque
from clew.engine.titles import says_something
from clew.errors import ClewError, Invalid, MissingPackage
from clew.providers.histories.programs import codex_prompt, codex_role
from clew.sources.contract import (
    ENVELOPE,
    About,
    Entry,
    Home,
    Part,
    ReadMark,
    Skip,
    derived_id,
    moment,
    uuid_or_none,
)
from clew.sources.items import BLOCK, LARGEST_MEMBER, RATIO, Item
from clew.sources.lines import read_growing, read_lines
from clew.sources.sqlite import open_database, scan, tables
from clew.turns.model import NoteRule, ShowRules, tag

NAME = "codex"
_HELD = 200
"""Records that wait at most for the token count of an answer."""
_NO_ENVELOPE = ("message", "reasoning", "function_call", "function_call_output", "local_shell_call")
"""Items that the first versions wrote without an envelope."""
_STATE = (
    "thread", "last", "derived", "note", "ordinal", "scope", "counts", "model", "prompts", "failed", "total",
    "has_records", "is_prompted",
)  # fmt: skip
"""The state of a reader after the last line, when no line is held back."""


FOLDERS = ("sessions", "archived_sessions")
ZST = b"\x28\xb5\x2f\xfd"
"""The first bytes of a compressed file."""
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NAME = re.compile(rf"rollout-(?P<time>[0-9T-]+?)-(?P<thread>{_UUID})(?:_(?P<part>{_UUID}))?\.jsonl(?P<zst>\.zst)?$")
_WINDOW = 1 << 27
"""Bytes of memory that a compressed file may ask for."""
_SHELL = re.compile(
    r"<user_shell_command>\s*<command>(?>(?P<title>.*?)</command>\s*<result>"
    r"(?:\s*Exit code: 0\n(?:Duration: [^\n]*\n)?(?:Output:\n)?)?)(?P<text>.*?)</result>"
    r"\s*</user_shell_command>",
    re.DOTALL,
)
_AGENTS_FILE = re.compile(r"# AGENTS\.md instructions for [^\n]*\n\s*<INSTRUCTIONS>.*", re.DOTALL)
RULES = ShowRules(
    notes=(
        NoteRule("interruption", re.compile(r"<turn_aborted>.*?</turn_aborted>", re.DOTALL)),
        NoteRule("shell", _SHELL),
        tag("instructions", "environment_context", "Environment"),
        tag("instructions", "user_instructions", "Project instructions"),
        NoteRule("instructions", _AGENTS_FILE, "Project instructions"),
        tag("instructions", "permissions instructions|collaboration_mode", "Permissions"),
        tag("instructions", "skill", "Skill"),
        tag("reminder", "subagent_notification", "Subagent"),
    ),
    joins=True,
)


class Codex:
    """See `clew.sources.contract.Source`."""

    name = NAME
    rules = RULES
    title = "Codex"
    deletes_after = None

    def __init__(self) -> None:
        self._homes: dict[str, CodexHome] = {}

    def discover(self, home: Home) -> Iterator[str]:
        root = home.env.get("CODEX_HOME") or os.path.join(home.path, ".codex")
        yield os.path.join(root, "sessions")
        yield os.path.join(root, "archived_sessions")

    def resume(self, conversation: str) -> str | None:
        return f"codex resume {conversation}"

    def recognise(self, path: str, head: bytes) -> bool:
        if head.startswith(ZST):
            return rollout(path) is not None
        first = head.partition(b"\n")[0]
        try:
            fields = fields_of(first)
        except (msgspec.MsgspecError, RecursionError):
            return b'"type":"session_meta"' in first and rollout(path) is not None
        if "payload" in fields:
            return any_value(fields.get("type", b"null")) in ("session_meta", "response_item") and "timestamp" in fields
        return {"id", "timestamp"} <= fields.keys() and ("instructions" in fields or rollout(path) is not None)

    def read(self, item: Item) -> Iterator[Part]:
        return self.read_on(item, None)

    def read_on(self, item: Item, mark: ReadMark | None) -> Generator[Part, None, ReadMark | None]:
        if item.member is not None:
            return _Reader(rollout(item.member), None).read(item)
        folder = CodexHome.folder(item.path)
        home = self._homes.setdefault(folder, CodexHome(folder))
        return _Reader(rollout(item.path), home).read(item, mark)


class _Reader:
    """One file on its way. `end` is the number at which it stops, for a file that continues another."""

    def __init__(
        self, file: Rollout | None, home: CodexHome | None, end: int | None = None, above: frozenset[str] = frozenset()
    ) -> None:
        self._file = file
        self._home = home
        self._end = end
        self._above = above
        """Files that continue this one; none may be continued by it."""
        self._thread = None if file is None else file.thread
        self._last: str | None = None
        """The message that the next one follows."""
        self._derived: str | None = None
        self._note: str | None = None
        self._ordinal = -1
        self._previous = b""
        self._previous_hash = ""
        """Stands for the line before a mark."""
        self._scope = ""
        """The turn, or the thread, by which ids are made in files without numbers."""
        self._counts: dict[str, int] = {}
        self._model: str | None = None
        self._prompts: list[str | None] = []
        """For each prompt: the message it follows, to go back to."""
        self._failed: dict[str, bool] = {}
        """For each call that has ended: whether it failed."""
        self._held: list[Entry] = []
        self._total: object = None
        self._has_records = False
        self._prompt: str | None = None
        self._is_prompted = False
        """True after the first prompt that says something, of this file or of the one that it continues."""

    def read(self, item: Item, mark: ReadMark | None = None) -> Generator[Part, None, ReadMark | None]:
        """The parts of the file, from a mark on."""
        with open_rollout(item) as file:
            marks = item.member is None and file.seekable() and self._end is None
            return (yield from read_growing(file, self, mark, marks=marks))

    def line(self, number: int, data: bytes) -> Sequence[Part]:
        """The parts of a line."""
        try:
            parts = list(self._parts(number, data))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            parts = [Skip(number, f"not JSON: {type(error).__name__}")]
        return () if self.is_done else parts

    def end(self) -> Iterator[Part]:
        """Answers that waited for their tokens, title and head."""
        yield from self._release()
        yield from self._closing()

    @property
    def is_done(self) -> bool:
        """True where a file ends that another one continues."""
        return self._end is not None and self._ordinal >= self._end

    def state(self) -> dict[str, Any]:
        """The state that later lines may refer to."""
        known = {name: getattr(self, f"_{name}") for name in _STATE}
        return {**known, "previous": sha256(self._previous).hexdigest()}

    def resume(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        for name in _STATE:
            setattr(self, f"_{name}", state[name])
        self._previous_hash = state["previous"]

    def leaf(self, item: Item) -> str | None:
        """The message where the file ends."""
        for _ in self.read(item):
            pass
        return self._last

    def _closing(self) -> Iterator[About]:
        """Title and head, once all of the file was seen. An older file of a thread is not where it continues."""
        if self._thread is None or self._end is not None:
            return
        head = self._last
        newest = None if self._home is None else self._home.newest(self._thread)
        if newest is not None and self._home is not None and self._file is not None and newest.part != self._file.part:
            try:
                head = _Reader(newest, self._home, None, self._above | {newest.part}).leaf(self._home.item(newest.path))
            except ClewError:
                head = None
        given = None if self._home is None else self._home.name(self._thread)
        yield About(conversation=self._thread, title=given, prompt=self._prompt, head=head, model=self._model)

    def _parts(self, number: int, data: bytes) -> Iterator[Part]:
        text = data[:-1].rstrip(b"\r")
        if not text.strip():
            return
        line = read_line(text)
        body = bytes(line.payload)
        if not body and (line.type in _NO_ENVELOPE or line.type is None):
            body = text
        payload = any_value(body) if body else None
        payload = payload if isinstance(payload, dict) else {}
        if line.type == "session_meta" or (self._thread is None and line.type is None):
            yield from self._meta(payload)
        if self._thread is None:
            yield Skip(number, "no thread is named, neither by the line nor by the file")
            return
        is_repeated = line.ordinal <= self._ordinal if line.ordinal is not None else self._is_previous(data)
        self._previous, self._previous_hash = data, ""
        if line.ordinal is not None:
            self._ordinal = max(self._ordinal, line.ordinal)
        if self._end is not None and self._ordinal >= self._end:
            return
        is_item = line.type in ("response_item", *_NO_ENVELOPE) and isinstance(payload.get("type"), str)
        if (is_item or (line.type == "compacted" and payload)) and not is_repeated:
            yield from self._message(line, payload, body, text, data)
            return
        if not is_repeated:
            self._event(line, payload)
            if (why := failure(payload)) is not None and (failed := self._failure(line, why, data)) is not None:
                yield from self._hold(failed)
                return
        part = f"{self._file.part} " if self._file is not None and self._file.part != self._thread else ""
        key = f"{part}{number if line.ordinal is None else line.ordinal}"
        yield from self._hold(Entry(conversation=self._thread, raw=data, key=key, created_at=moment(line.timestamp)))

    def _is_previous(self, data: bytes) -> bool:
        """True if a line repeats the line before it."""
        if self._previous_hash:
            return sha256(data).hexdigest() == self._previous_hash
        return data == self._previous

    # -- what a file says about itself

    def _meta(self, payload: dict[str, Any]) -> Iterator[Part]:
        named = uuid_or_none(payload.get("id")) or uuid_or_none(payload.get("session_id"))
        is_first = self._scope == ""
        self._scope = named or self._scope
        if self._thread is None:
            self._thread = named
        if self._thread is None or not is_first:
            return
        git = payload.get("git")
        owner = owner_of(payload)
        yield About(
            conversation=self._thread,
            prompt="",
            cwd=text_of(payload.get("cwd")),
            branch=text_of(git.get("branch")) if isinstance(git, dict) else None,
            version=text_of(payload.get("cli_version")),
            owner=owner,
            agent=None if owner is None else agent_of(payload),
            forked_from=uuid_or_none(payload.get("forked_from_id")) if owner is None else None,
        )
        base = payload.get("history_base")
        if isinstance(base, dict):
            yield from self._inherited(base)

    def _inherited(self, base: dict[str, Any]) -> Iterator[Part]:
        """The messages that the file continues, from the file that has them."""
        assert self._thread is not None
        name, end = base.get("thread_id"), base.get("end_ordinal_exclusive")
        found = self._home.part(name) if self._home is not None and isinstance(name, str) else None
        if self._home is None or found is None or found.part in self._above or type(end) is not int:
            self._note = f"it continues {name}, which is missing"
            return
        mine = self._file.part if self._file is not None else ""
        before = _Reader(found, self._home, end, self._above | {mine, found.part})
        try:
            for part in before.read(self._home.item(found.path)):
                if isinstance(part, Entry) and part.id is not None:
                    self._last = part.id
                    yield msgspec.structs.replace(part, conversation=self._thread, inherited=True)
            self._take_prompt(before._prompt)
        except ClewError as error:
            self._note = f"it continues {name}: {error.message}"

    # -- messages

    def _message(
        self, line: RolloutLine, payload: dict[str, Any], body: bytes, text: bytes, data: bytes
    ) -> Iterator[Entry]:
        assert self._thread is not None
        at = text.find(body)
        extra: dict[str, Any] = {ENVELOPE: [text[:at].decode(), data[at + len(body) :].decode()]}
        who = codex_role(payload)
        if who == "assistant" and self._model is not None:
            extra["model"] = self._model
        if self._failed.pop(str(payload.get("call_id")), False) and who == "tool":
            extra["failed"] = True
        id = derived_id(NAME, *self._name(line, body))
        if line.type == "compacted":
            self._last, self._derived = None, self._last
            self._prompts.clear()
        if who == "user" and line.type != "compacted":
            self._prompts.append(self._last)
            self._take_prompt(codex_prompt(payload))
        if who in ("user", "system"):
            yield from self._release()
        entry = Entry(
            conversation=self._thread,
            raw=data,
            key=id,
            id=id,
            message=Native(NAME, body, extra=extra),
            parent=self._last,
            derived=self._derived,
            created_at=moment(line.timestamp),
            note=self._note,
        )
        self._last, self._derived, self._note = id, None, None
        yield from self._hold(entry)

    def _failure(self, line: RolloutLine, why: str, data: bytes) -> Entry | None:
        """A turn that failed: what Codex told the user, in the place of an answer. None if the line is not UTF-8."""
        assert self._thread is not None
        try:
            around = [data.decode(), ""]
        except UnicodeDecodeError:
            return None
        name = (self._scope or self._thread, f"error {sha256(data).hexdigest()[:16]}")
        id = derived_id(NAME, *(name if line.ordinal is None else self._name(line, data)))
        entry = Entry(
            conversation=self._thread,
            raw=data,
            key=id,
            id=id,
            message=Message("assistant", (Opaque(kind="error", data={"message": why}),), extra={ENVELOPE: around}),
            parent=self._last,
            derived=self._derived,
            created_at=moment(line.timestamp),
            note=self._note,
        )
        self._last, self._derived, self._note = id, None, None
        return entry

    def _take_prompt(self, typed: str | None) -> None:
        if typed is not None and not self._is_prompted:
            self._prompt = self._prompt or typed
            if says_something(typed):
                self._prompt, self._is_prompted = typed, True

    def _name(self, line: RolloutLine, body: bytes) -> tuple[str, str]:
        """What the id of a message is derived from."""
        assert self._thread is not None
        if line.ordinal is not None:
            return self._thread if self._file is None else self._file.part, str(line.ordinal)
        scope = self._scope or self._thread
        count = self._counts[scope] = self._counts.get(scope, -1) + 1
        return scope, f"{count} {sha256(body).hexdigest()[:16]}"

    # -- events

    def _event(self, line: RolloutLine, payload: dict[str, Any]) -> None:
        kind = payload.get("type")
        turn = payload.get("turn_id")
        if isinstance(turn, str) and (line.type == "turn_context" or kind in ("task_started", "turn_started")):
            self._scope = turn
        if line.type == "turn_context":
            self._model = text_of(payload.get("model")) or self._model
        elif line.type == "token_usage_record":
            self._has_records = True
            self._count(payload.get("usage"))
        elif kind == "token_count" and not self._has_records:
            info = payload.get("info")
            if isinstance(info, dict) and info.get("total_token_usage") != self._total:
                self._total = info.get("total_token_usage")
                self._count(info.get("last_token_usage"))
        elif kind == "exec_command_end":
            self._end_of(payload.get("call_id"), payload.get("exit_code"))
        elif kind == "item_completed" and isinstance(item := payload.get("item"), dict):
            if item.get("type") == "CommandExecution":
                self._end_of(item.get("id"), item.get("exit_code"))
        elif kind == "thread_rolled_back":
            turns = payload.get("num_turns")
            for _ in range(min(turns, len(self._prompts)) if type(turns) is int else 0):
                self._last = self._prompts.pop()

    def _end_of(self, call: object, code: object) -> None:
        if isinstance(call, str) and type(code) is int:
            self._failed[call] = code != 0

    def _count(self, used: object) -> None:
        """Notes the tokens of an answer with its last item."""
        if not isinstance(used, dict):
            return
        names = {
            "input": "input_tokens", "output": "output_tokens", "cached": "cached_input_tokens",
            "reasoning": "reasoning_output_tokens",
        }  # fmt: skip
        usage = {name: used[key] for name, key in names.items() if type(used.get(key)) is int}
        for at in range(len(self._held) - 1, -1, -1):
            entry = self._held[at]
            if isinstance(said := entry.message, Native) and said.extra is not None and "model" in said.extra:
                if "usage" not in said.extra:
                    said = msgspec.structs.replace(said, extra={**said.extra, "usage": usage})
                    self._held[at] = msgspec.structs.replace(entry, message=said)
                return

    def _hold(self, entry: Entry) -> Iterator[Entry]:
        """Keeps an answer back until its tokens are known, with everything after it."""
        is_answer = isinstance(entry.message, Native) and "model" in (entry.message.extra or {})
        if not is_answer and not self._held:
            yield entry
            return
        self._held.append(entry)
        if len(self._held) >= _HELD or self._is_counted():
            yield from self._release()

    def _is_counted(self) -> bool:
        return any(isinstance(one.message, Native) and "usage" in (one.message.extra or {}) for one in self._held)

    def _release(self) -> Iterator[Entry]:
        held, self._held = self._held, []
        yield from held


def failure(payload: dict[str, Any]) -> str | None:
    """Why a turn failed; None for other events."""
    error = payload.get("error")
    if payload.get("type") not in ("task_complete", "turn_complete") or not isinstance(error, dict):
        return None
    told = error.get("message")
    if not isinstance(told, str):
        return None
    try:
        inner = any_value(told.encode())["error"]["message"]  # what the provider answered
    except (msgspec.MsgspecError, KeyError, TypeError, UnicodeEncodeError, RecursionError):
        return told
    return inner if isinstance(inner, str) else told


class RolloutLine(msgspec.Struct):
    """A line, with the bytes of its payload."""

    timestamp: str | None = None
    ordinal: int | None = None
    type: str | None = None
    payload: msgspec.Raw = msgspec.Raw()


_decode = msgspec.json.Decoder(RolloutLine).decode
fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
any_value = msgspec.json.Decoder().decode


def read_line(text: bytes) -> RolloutLine:
    """A line. MsgspecError if it is not a JSON object."""
    try:
        return _decode(text)
    except msgspec.ValidationError:  # a field is of another type: it is left out
        fields = fields_of(text)
        line = RolloutLine(payload=fields.get("payload", msgspec.Raw()))
        line.timestamp, line.type = (text_of(any_value(fields.get(name, b"null"))) for name in ("timestamp", "type"))
        return line


def owner_of(payload: dict[str, Any]) -> str | None:
    """The thread that started a subagent."""
    found = uuid_or_none(payload.get("parent_thread_id"))
    source = payload.get("source")
    if found is None and isinstance(source, dict) and isinstance(inner := source.get("subagent"), dict):
        spawn = inner.get("thread_spawn")
        found = uuid_or_none(spawn.get("parent_thread_id")) if isinstance(spawn, dict) else None
    return found


def agent_of(payload: dict[str, Any]) -> str:
    """The name of a subagent."""
    names = (payload.get("agent_nickname"), payload.get("agent_role"), payload.get("agent_path"))
    return next((name for name in names if isinstance(name, str) and name), "agent")


def text_of(value: object) -> str | None:
    """The value, if it is text and not empty."""
    return value if isinstance(value, str) and value else None


class Rollout(NamedTuple):
    """A file of a thread. A thread has a second one after a rewind, with an id of its own."""

    time: str
    part: str
    """The id of the file: that of the thread, for its first one."""
    thread: str
    path: str


def rollout(path: str) -> Rollout | None:
    """What the name of a file says; None if it is another's."""
    found = _NAME.search(os.path.basename(path))
    if found is None:
        return None
    return Rollout(found["time"], found["part"] or found["thread"], found["thread"], path)


class CodexHome:
    """The files around a rollout. Scanned when first needed, and again when the newest folder has changed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: object = None
        self._parts: dict[str, Rollout] = {}
        self._newest: dict[str, Rollout] = {}
        self._names_seen: object = None
        self._names: dict[str, str] = {}

    @staticmethod
    def folder(path: str) -> str:
        """The folder of Codex that a rollout is in; the rollout's own if it is in no such folder."""
        place = os.path.dirname(path)
        while place != os.path.dirname(place):
            if os.path.basename(place) in FOLDERS:
                return os.path.dirname(place)
            place = os.path.dirname(place)
        return os.path.dirname(path)

    def item(self, path: str) -> Item:
        """A file of this folder. No link below the folder is followed."""
        return Item(path, 0, 0, root=self._path)

    def part(self, id: str) -> Rollout | None:
        """The file with this id."""
        self._scan()
        return self._parts.get(id)

    def newest(self, thread: str) -> Rollout | None:
        """The newest file of a thread: where the program continues."""
        self._scan()
        return self._newest.get(thread)

    def name(self, thread: str) -> str | None:
        """The name that the user gave a thread."""
        files = [os.path.join(self._path, "session_index.jsonl"), *self._databases()]
        states = [_changed(path) for path in files]
        if states != self._names_seen:
            self._names = {}
            for path in files:
                with suppress(ClewError, OSError):
                    self._names.update(
                        _names_of_index(self.item(path))
                        if path.endswith(".jsonl")
                        else _names_of_database(self.item(path))
                    )
            self._names_seen = states
        return self._names.get(thread)

    def _databases(self) -> list[str]:
        with suppress(OSError):
            found = [
                (int(n[1]), n[0]) for n in map(re.compile(r"state_(\d+)\.sqlite$").match, os.listdir(self._path)) if n
            ]
            return [os.path.join(self._path, name) for _, name in sorted(found)]
        return []

    def _scan(self) -> None:
        seen = list(self._stamps())
        if seen == self._seen:
            return
        self._seen, self._parts, self._newest = seen, {}, {}
        roots = [root for name in FOLDERS if os.path.isdir(root := os.path.join(self._path, name))]
        # a folder of somebody's own is not walked: below it may be anything
        walked = [one for root in roots for one in os.walk(root)] if roots else islice(os.walk(self._path), 1)
        for place, _, names in walked:
            for name in sorted(names):  # a plain file is before its compressed form
                found = rollout(os.path.join(place, name))
                if found is not None and self._parts.setdefault(found.part, found) is found:
                    self._newest[found.thread] = max(found, self._newest.get(found.thread, found))

    def _stamps(self) -> Iterator[object]:
        """The times of the folders in which files appear: the newest day, and the archive."""
        yield _changed(os.path.join(self._path, FOLDERS[1]))
        place: str | None = os.path.join(self._path, FOLDERS[0])
        if not os.path.isdir(place or ""):
            place = self._path
        while place is not None:
            yield place, _changed(place)
            with suppress(OSError):
                folders = [entry.path for entry in os.scandir(place) if entry.is_dir() and entry.name.isdigit()]
                place = max(folders, default=None)
                continue
            return


def open_rollout(item: Item) -> IO[bytes]:
    """The lines of a rollout, unpacked if need be. MissingPackage if the package for that is missing."""
    file = item.open()
    if file.read(4) != ZST:
        file.seek(0)
        return file
    file.seek(0)
    try:
        return io.BufferedReader(_Unpacked(file, item.name), 1 << 16)
    except ImportError:
        file.close()
        raise MissingPackage(
            f"{item.name} is compressed, and the package zstandard is not installed", "zstandard"
        ) from None


class _Unpacked(io.RawIOBase):
    """The unpacked bytes of a file, within bounds. Invalid if it is damaged or too large."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file  # first: it is closed even if the package is missing
        import zstandard

        self._stream: Any = zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(file)
        self._error = zstandard.ZstdError
        self._name = name
        packed = os.fstat(file.fileno()).st_size
        self._most = min(LARGEST_MEMBER, max(BLOCK, packed * RATIO))
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            size: int = self._stream.readinto(buffer)
        except self._error as error:
            raise Invalid(f"{self._name} cannot be unpacked ({error})") from None
        self._size += size
        if self._size > self._most:
            raise Invalid(f"{self._name} unpacks to more than {self._most:,} bytes")
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


def _names_of_index(item: Item) -> Iterator[tuple[str, str]]:
    with item.open() as file:
        for line in read_lines(file):
            with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                data = any_value(line.data or b"")
                if (
                    isinstance(data, dict)
                    and isinstance(data.get("id"), str)
                    and isinstance(data.get("thread_name"), str)
                ):
                    yield data["id"], data["thread_name"]


def _names_of_database(item: Item) -> Iterator[tuple[str, str]]:
    with open_database(item) as connection:
        if {"id", "name"} <= set(tables(connection).get("threads", ())):
            for row in scan(connection, "threads", "id, name"):
                if isinstance(row["id"], str) and isinstance(row["name"], str) and row["name"].strip():
                    yield row["id"], row["name"]


def _changed(path: str) -> tuple[int, int]:
    """The time of a file, and of its WAL if it is a database."""
    times = []
    for one in (path, f"{path}-wal"):
        try:
            times.append(os.stat(one).st_mtime_ns)
        except OSError:
            times.append(0)
    return times[0], times[1]
