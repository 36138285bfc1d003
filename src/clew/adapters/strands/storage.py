"""The storage of Strands: ``SnapshotSessionManager("trip", storage=ClewStorage("chats.db"))``.

A key is a document. If its bytes are a snapshot of an agent, the messages in it are those of a conversation, each
stored once; the document has the rest. Bytes are read back as they were written.
"""

from __future__ import annotations

import base64
import builtins
import copy
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self

import msgspec
from strands.storage.storage import _NAMESPACED, Storage
from strands.types.exceptions import StorageError

from clew.adapters.documents import Documents
from clew.adapters.keyed import Adapter, Keyed, Target, check_version, unchanged
from clew.adapters.lists import Slice, load_list, raw_message, store_list
from clew.adapters.strands.repository import TOOL, to_native
from clew.adapters.threads import in_thread
from clew.base.messages import Native
from clew.errors import Conflict, Invalid, NotFound
from clew.store.session import Session
from clew.store.unit import Unit

_SNAPSHOT = re.compile(r"(?P<session>(?:.*/)?[^/]+)/scopes/agent/(?P<agent>[^/]+)/snapshots/.+\.json")


DEPTH = 2
"""Segments of a key that name its group: ``session/trip``."""


class _Parsed(NamedTuple):
    """A snapshot: its agent, its messages, and the rest as text."""

    session: str
    agent: str
    messages: list[Native]
    rest: str


class ClewStorage(Adapter, Storage):
    """Values under keys in a store: a path, a URL or an open `Store`. `options` are those of `clew.open`.

    Deleting a key clears every trace of it; with the last snapshot of an agent its conversation is deleted, too.
    """

    def __init__(self, target: Target, **options: Any) -> None:
        check_version("strands-agents", "1.51", "2")
        self._keyed = Keyed(target, TOOL, options)
        unchanged(self._keyed)
        self._documents = Documents(self._keyed)
        self._prefix = ""
        self._namespaced: object = None
        """Strands puts its own prefix before the keys of a storage that has none."""

    async def write(self, key: str, data: bytes) -> None:
        await in_thread(self._write, self._prefix + _normalize(key), bytes(data))

    async def read(self, key: str) -> bytes | None:
        return await in_thread(self._read, self._prefix + _normalize(key))

    async def delete(self, key: str) -> None:
        await in_thread(self._delete, self._prefix + _normalize(key))

    async def list(self, query: str = "") -> builtins.list[str]:
        found = await in_thread(self._list, self._prefix + _normalize(query, prefix=True))
        return [key.removeprefix(self._prefix) for key in found]

    def namespace(self, prefix: str) -> Self:
        """The keys below a prefix, as a storage of its own on the same store."""
        inner = copy.copy(self)
        inner._prefix = f"{self._prefix}{_normalize(prefix)}/"
        inner._namespaced = _NAMESPACED
        return inner

    # -- on a thread

    def _write(self, key: str, data: bytes) -> None:
        parsed = _parse(key, data)
        try:
            self._keyed.write(lambda unit: self._put(unit, key, data, parsed))
        except Invalid:  # a message that clew cannot show, such as one with NUL in it
            self._keyed.write(lambda unit: self._put(unit, key, data, None))

    def _put(self, unit: Unit, key: str, data: bytes, parsed: _Parsed | None) -> None:
        home, value = None, _plain(data)
        if parsed is not None:
            home = self._keyed.ensure(unit, "snapshots", parsed.session, parsed.agent)
            value = self._store_messages(unit, home, parsed)
        groups = [("keys",), ("keys", _folder(key))]
        named = self._documents.put(unit, ("key", key), key, groups=groups, owner=home)
        self._documents.put(unit, ("content", key), value, owner=named)

    def _store_messages(self, unit: Unit, home: Session, parsed: _Parsed) -> dict[str, Any]:
        """Stores the messages that the last snapshot of the agent does not have. Returns the document's value."""
        names = ("messages", parsed.session, parsed.agent)
        before = self._documents.get(unit, *names)
        known = msgspec.convert(self._documents.value(before, [None, 0]), Slice)
        found = msgspec.to_builtins(store_list(unit, home, known, parsed.messages))
        self._documents.put(unit, names, found, owner=home, before=before)
        return {"snapshot": parsed.rest, "messages": found}

    def _read(self, key: str) -> bytes | None:
        def work(unit: Unit) -> bytes | None:
            value = self._documents.value(self._documents.get(unit, "content", key))
            if value is None:
                return None
            if "snapshot" not in value:
                return value["text"].encode() if "text" in value else base64.b64decode(value["base64"])
            nodes = load_list(unit, msgspec.convert(value["messages"], Slice))
            return _join(value["snapshot"], [raw_message(node) for node in nodes])

        return self._keyed.read(work)

    def _delete(self, key: str) -> None:
        self._documents.purge("key", key)
        match = _SNAPSHOT.fullmatch(key)
        if match is not None:
            prefix = f"{match['session']}/scopes/agent/{match['agent']}/snapshots/"
            if not self._list(prefix):
                self._purge_messages(prefix, match["session"], match["agent"])

    def _purge_messages(self, prefix: str, session: str, agent: str) -> None:
        """Deletes the conversation of an agent, unless another program stores a snapshot meanwhile."""
        home = self._keyed.read(lambda unit: self._keyed.session(unit, "snapshots", session, agent, trashed=True))
        if home is None:
            return

        def check(_: Session) -> None:
            if self._list(prefix):
                raise Conflict("a snapshot was stored meanwhile")

        with suppress(NotFound):  # deleted meanwhile
            failures = home.purge(check=check).failures
            if failures and not self._list(prefix):
                raise Conflict(failures[0].error)

    def _list(self, prefix: str) -> builtins.list[str]:
        return self._keyed.read(lambda unit: self._keys(unit, prefix))

    def _keys(self, unit: Unit, prefix: str) -> builtins.list[str]:
        group = ("keys", _folder(prefix)) if prefix.count("/") >= DEPTH else ("keys",)
        keys = (self._documents.value(one) for one in self._documents.group_in(unit, *group))
        return sorted(key for key in keys if key.startswith(prefix))


def _parse(key: str, data: bytes) -> _Parsed | None:
    """The parts of a snapshot; None if the bytes are not a snapshot, or cannot be restored from the parts exactly."""
    match = _SNAPSHOT.fullmatch(key)
    if match is None:
        return None
    try:
        snapshot = json.loads(data)
        messages = [to_native(one) for one in snapshot["data"]["messages"]]
        snapshot["data"]["messages"] = []
        rest = json.dumps(snapshot, ensure_ascii=False)
        if _join(rest, [message.raw for message in messages]) != data:
            return None
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    return _Parsed(match["session"], match["agent"], messages, rest)


def _join(rest: str, messages: Sequence[bytes]) -> bytes:
    """The bytes of a snapshot."""
    snapshot = json.loads(rest)
    snapshot["data"]["messages"] = [json.loads(one) for one in messages]
    return json.dumps(snapshot, ensure_ascii=False).encode()


def _plain(data: bytes) -> dict[str, Any]:
    """Bytes that are not a snapshot, as the value of a document."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _folder(key: str) -> str:
    """The beginning of a key by which keys are grouped: in Strands, the session."""
    return "/".join(key.split("/")[:DEPTH])


def _normalize(key: str, *, prefix: bool = False) -> str:
    """A key, or the beginning of one, in the form that Strands' own storages give it. StorageError."""
    short = re.sub(r"/+", "/", key).lstrip("/")
    short = short if prefix else short.rstrip("/")
    if "\\" in key or ".." in short.split("/"):
        raise StorageError(f"Invalid storage key {key!r}: backslashes and '..' are not allowed")
    if not short and not prefix:
        raise StorageError("Storage key must not be empty")
    return short
