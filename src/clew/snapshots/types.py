"""The snapshot: a conversation with one provider at one point in time; and the contract of snapshot stores.

The provider's messages are stored byte for byte: no field is renamed, no number rounded. The document of a snapshot is
a JSON object in snake case without empty fields.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Protocol, overload, runtime_checkable

import msgspec

from clew.base import codec
from clew.errors import Invalid, SchemaTooNew
from clew.snapshots.errors import InvalidSnapshotID
from clew.snapshots.raw_json import elements, members, well_formed

SNAPSHOT_VERSION = 1
"""The version of the documents that this version of clew writes."""
KEY_SIZE = 32

_CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

Document = dict[str, bytes]
"""A snapshot's document, each field as its JSON bytes."""
Migration = Callable[[Document], Document]
"""Converts the document of one version to the next."""

MIGRATIONS: Mapping[int, Migration] = {}
"""The migrations for documents of older versions; none yet."""


def validate_snapshot_id(id: str) -> str:
    """Returns `id` if it is a UUID in canonical form: lowercase, 8-4-4-4-12. InvalidSnapshotID otherwise.

    Call it for every id from outside. Every store does so first.
    """
    if not isinstance(id, str) or not is_snapshot_id(id):
        raise InvalidSnapshotID(id)
    return id


def is_snapshot_id(text: str) -> bool:
    """True if `validate_snapshot_id` accepts it."""
    return _CANONICAL.fullmatch(text) is not None  # $ would accept a newline at the end


def generate_key() -> bytes:
    """Creates a key for an encrypted store: 32 random bytes."""
    return os.urandom(KEY_SIZE)


class ToolSnapshot(msgspec.Struct, frozen=True):
    """The description of a tool, without its function: pass that again after a restore."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    """Its arguments, as JSON Schema."""


class Messages(Sequence[bytes]):
    """A provider's messages, each in its own JSON: the conversation of a client. Append-only.

    A snapshot of it takes constant time, and a store that has its first messages saves only the rest. To remove
    messages, create another one.
    """

    __slots__ = ("__weakref__", "_items")

    def __init__(self, items: Iterable[bytes] = ()) -> None:
        self._items: list[bytes] = []
        self.extend(items)

    def append(self, raw: bytes) -> None:
        """Adds a message. Invalid if it is not one JSON value."""
        self.extend((raw,))

    def extend(self, items: Iterable[bytes]) -> None:
        """Adds several messages: a concurrent snapshot has all of them or none."""
        found = list(items)
        for raw in found:
            if not isinstance(raw, bytes):
                raise Invalid(f"a message is bytes of JSON, not {type(raw).__name__}")
            well_formed(raw)
        self._items += found

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        return self._items[at]

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"<Messages: {len(self)}>"


class MessageParts(Sequence[bytes]):
    """The messages of a snapshot: the first `size` ones of a `source` that may have grown since."""

    __slots__ = ("size", "source")

    def __init__(self, source: Sequence[bytes], size: int) -> None:
        self.source = source
        self.size = size

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        places = range(self.size)[at]
        return self.source[places] if isinstance(places, int) else [self.source[place] for place in places]

    def __iter__(self) -> Iterator[bytes]:
        return (self.source[at] for at in range(self.size))

    def __len__(self) -> int:
        return self.size


class _Fields(msgspec.Struct, frozen=True, kw_only=True):
    """The decoded fields of a document."""

    id: str
    provider: str
    created_at: datetime
    model: str = ""
    system_prompt: str = ""
    tools: list[ToolSnapshot] | None = None
    metadata: dict[str, str] | None = None
    version: int


class Snapshot:
    """A conversation at one point in time. Immutable; `replace` creates another.

    `messages` is a JSON array as bytes, or the `Messages` of a client, of which it takes the present ones.
    """

    def __init__(
        self,
        *,
        id: str,
        provider: str,
        messages: bytes | str | Messages | MessageParts,
        created_at: datetime,
        model: str = "",
        system_prompt: str = "",
        tools: Iterable[ToolSnapshot] = (),
        metadata: Mapping[str, str] | None = None,
        version: int = SNAPSHOT_VERSION,
    ) -> None:
        self.id = validate_snapshot_id(id)
        self.provider = provider
        """The provider of the messages."""
        self.model = model
        """The model that was used, for reference."""
        self.system_prompt = system_prompt
        try:
            self.tools = tuple(tools)
            self.metadata = dict(metadata or {})
        except (TypeError, ValueError):
            raise Invalid("tools must be a list, and metadata a dictionary") from None
        if not isinstance(created_at, datetime) or created_at.tzinfo is None:
            raise Invalid("created_at must be a datetime with a time zone", hint="Use datetime.now(timezone.utc).")
        try:
            self.created_at = created_at.astimezone(UTC)
        except OverflowError:
            raise Invalid("created_at is out of range in UTC") from None
        self.version = version
        self._parts: MessageParts | None = None
        self._raw: bytes | None = None
        if isinstance(messages, Messages | MessageParts):
            self._parts = MessageParts(messages, len(messages)) if isinstance(messages, Messages) else messages
        else:
            self._raw = _bytes(messages).strip(b" \t\r\n")  # whitespace around a JSON value is not part of it

    @property
    def messages(self) -> bytes:
        """The provider's messages: a JSON array, byte for byte as given. Joined on first access."""
        if self._raw is None:
            assert self._parts is not None
            self._raw = b"[" + b",".join(self._parts) + b"]"
        return self._raw

    @property
    def parts(self) -> MessageParts:
        """The messages, each in its own JSON; empty for null. Invalid if they are not an array."""
        if self._parts is None:
            found = (
                [] if self.messages == b"null" else elements(self.messages)
            )  # the original program writes null for an empty list
            self._parts = MessageParts(found, len(found))
        return self._parts

    @property
    def lazy(self) -> bool:
        """True if the messages are those of a client and are not joined yet."""
        return self._raw is None

    @cached_property
    def message_count(self) -> int:
        """The number of messages; 1 if they are not an array."""
        try:
            return len(self.parts)
        except Invalid:
            return 1

    def replace(self, **changes: Any) -> Snapshot:
        """The same snapshot with other fields."""
        fields = {
            "id": self.id, "provider": self.provider, "model": self.model, "system_prompt": self.system_prompt,
            "tools": self.tools, "metadata": self.metadata, "created_at": self.created_at, "version": self.version,
            "messages": self.messages if self._parts is None or not self.lazy else self._parts,
        }  # fmt: skip
        return Snapshot(**{**fields, **changes})

    def fields(self) -> dict[str, Any]:
        """The fields of the document except the messages, without empty ones."""
        found: dict[str, Any] = {"id": self.id, "provider": self.provider, "model": self.model}
        if self.system_prompt:
            found["system_prompt"] = self.system_prompt
        if self.tools:
            found["tools"] = self.tools
        if self.metadata:
            found["metadata"] = self.metadata
        return {**found, "created_at": self.created_at, "version": self.version}

    def check(self) -> None:
        """Invalid if its document cannot be written and read back without a change."""
        if not self.lazy:
            well_formed(self.messages)  # messages of a client were checked when they were added
        try:
            read = _read(codec.to_json(self.fields()))
        except msgspec.ValidationError as error:
            raise Invalid(f"a snapshot cannot carry this: {error}") from None
        back = [read.provider, read.model, read.system_prompt, read.tools or [], read.metadata or {}]
        codec.same(back, [self.provider, self.model, self.system_prompt, list(self.tools), self.metadata])

    def to_json(self) -> bytes:
        """Its document. Invalid as in `check`."""
        self.check()
        fields = {"messages": msgspec.Raw(self.messages), **self.fields()}
        names = [name for name in _ORDER if name in fields]
        return b"{" + b",".join(b'"%s":%s' % (name.encode(), _encode(fields[name])) for name in names) + b"}"

    @classmethod
    def from_json(cls, document: bytes, *, migrations: Mapping[int, Migration] = MIGRATIONS) -> Snapshot:
        """The snapshot in a document; applies `migrations` to older versions.

        SchemaTooNew if a newer version of clew wrote it; Invalid if it is not a snapshot.
        """
        return cls.from_fields(members(_bytes(document)), migrations=migrations)

    @classmethod
    def from_fields(cls, fields: Document, *, migrations: Mapping[int, Migration] = MIGRATIONS) -> Snapshot:
        """`from_json` for a document that is split already."""
        fields = _migrate(fields, migrations)
        read = _decode_fields(fields)
        if "messages" not in fields:
            raise _no_snapshot("it has no messages")
        return cls(
            id=read.id, provider=read.provider, model=read.model, system_prompt=read.system_prompt,
            messages=fields["messages"], tools=read.tools or (), metadata=read.metadata,
            created_at=read.created_at, version=read.version,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Snapshot) and self.fields() == other.fields() and self.messages == other.messages
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        # No content: a repr ends up in logs.
        return f"<Snapshot {self.id} {self.provider}>"


class SnapshotSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The entry of a snapshot in a list."""

    id: str
    provider: str
    model: str
    created_at: datetime
    message_count: int
    token_count: int = 0
    """An estimate of its tokens."""


@runtime_checkable
class SnapshotStore(Protocol):
    """A store of snapshots. Validates every id before anything else: InvalidSnapshotID."""

    def save(self, snapshot: Snapshot) -> None:
        """Saves a snapshot and replaces the one with the same id, if any. Durable on return."""

    def load(self, id: str) -> Snapshot:
        """The snapshot. NotFound; Corrupted if it is not what was saved under this id."""

    def list(self) -> list[SnapshotSummary]:
        """All snapshots, newest first. Ignores other data."""

    def delete(self, id: str) -> object:
        """Deletes a snapshot and the data that only it uses. NotFound."""


def new_snapshot(
    *,
    provider: str,
    messages: bytes | str | Messages = b"[]",
    model: str = "",
    system_prompt: str = "",
    tools: Iterable[ToolSnapshot] = (),
    metadata: Mapping[str, str] | None = None,
) -> Snapshot:
    """Creates a snapshot with the present time and a new random id."""
    return Snapshot(
        id=str(uuid.uuid4()), provider=provider, model=model, system_prompt=system_prompt, messages=messages,
        tools=tools, metadata=metadata, created_at=datetime.now(UTC), version=SNAPSHOT_VERSION,
    )  # fmt: skip


def a_snapshot(given: object) -> Snapshot:
    """Returns `given` if it is a snapshot. Invalid."""
    if not isinstance(given, Snapshot):
        raise Invalid(f"this takes a Snapshot, not {type(given).__name__}", hint="Snapshot.from_json reads a document.")
    return given


def _bytes(messages: object) -> bytes:
    try:
        raw = messages.encode() if isinstance(messages, str) else messages
    except UnicodeEncodeError:
        raise Invalid("the messages have a lone surrogate", hint="Pass the bytes as the provider sent them.") from None
    if not isinstance(raw, bytes | bytearray | memoryview):
        raise Invalid(f"messages are bytes of JSON, not {type(raw).__name__}")
    return bytes(raw)


_ORDER = ("id", "provider", "model", "system_prompt", "messages", "tools", "metadata", "created_at", "version")
_version = msgspec.json.Decoder(int).decode
_read = msgspec.json.Decoder(_Fields).decode
_encode = msgspec.json.Encoder().encode


def _migrate(fields: Document, migrations: Mapping[int, Migration]) -> Document:
    while (found := _version_of(fields)) != SNAPSHOT_VERSION:
        if found > SNAPSHOT_VERSION:
            raise SchemaTooNew("the snapshot", found, SNAPSHOT_VERSION)
        if found not in migrations:
            raise Invalid(f"there is no version {found} of snapshots")
        fields = migrations[found](fields)
        if _version_of(fields) <= found:
            raise Invalid(f"the migration from version {found} leads nowhere")
    return fields


def _version_of(fields: Document) -> int:
    try:
        return _version(fields["version"])
    except (KeyError, msgspec.MsgspecError):
        raise _no_snapshot("it has no version") from None


def _decode_fields(fields: Document) -> _Fields:
    known = {name: msgspec.Raw(raw) for name, raw in fields.items() if name in _ORDER and name != "messages"}
    try:
        return _read(_encode(known))
    except msgspec.MsgspecError as error:
        raise _no_snapshot(str(error)) from None


def _no_snapshot(why: str) -> Invalid:
    return Invalid(f"this is not a snapshot: {why}", hint="A snapshot's document is what Snapshot.to_json writes.")
