"""Detects that a store was replaced by an earlier copy of itself.

The head is a short text that the user stores elsewhere. It has counters that never decrease, whatever is purged, swept,
compacted or sealed, and a hash of the id of the newest message. It has no content and no key. If a counter of the store
is lower than in the head, the store was rolled back. If another message has the number of the newest one, the store was
rolled back and has been written to since.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from hashlib import blake2b
from zlib import crc32

import msgspec

from clew.backends.rows import MAX_COUNTER, creation_counter
from clew.errors import Invalid
from clew.upkeep.verify.findings import Findings

_TAG = "clew-head-1."
_HASH = 8
_ACTIVE = "SELECT ref, key, version FROM refs WHERE tree IS NOT NULL ORDER BY active_at DESC, ref DESC LIMIT 4"
_REF = f"SELECT key, version FROM refs WHERE ref & {MAX_COUNTER} = ?"
_LONGEST = 1024


class StoreHead(msgspec.Struct, frozen=True, array_like=True):
    """The counters of a store at one moment. They include deleted rows, unless noted otherwise."""

    store: bytes
    """Hash of the store's id."""
    changes: int
    """Changes of state, key and holds."""
    messages: int
    deletions: int
    """Deleted ranges of messages."""
    trees: int
    runs: int
    refs: int
    blobs: int
    deleted_refs: int
    versions: int
    """Sum of the versions of all existing refs."""
    entries: int
    """Existing log entries."""
    newest_at: int
    """Number of the newest existing message, in order of commit; 0 if there is none."""
    newest: bytes
    """Hash of its id."""
    active: list[tuple[int, bytes, int]]
    """The refs that were active last: number, hash of the key, version. In a sealed store they are signed, so they show
    a rollback even if an attacker raised the counters."""


_LABELS = {
    "changes": "changes of its key, state and holds",
    "messages": "messages",
    "deletions": "deletions",
    "trees": "conversations",
    "runs": "branches",
    "refs": "sessions and other refs",
    "blobs": "attachments",
    "deleted_refs": "deleted sessions and other refs",
}
"""Labels of the counters that never decrease."""
_LIVE_LABELS = {"versions": "changes of its sessions", "entries": "log entries"}
"""Labels of the counters that never decrease unless a ref is deleted."""


def read_head(found: Findings) -> StoreHead:
    """The head of a store as it is now."""
    counters = found.reader.counters()
    messages = counters.pop("ords")
    given = {table: creation_counter(number) for table, number in counters.items()}
    (newest,) = found.one("SELECT coalesce(max(ord), 0) FROM nodes")
    refs, versions = found.one("SELECT count(*), coalesce(sum(version), 0) FROM refs")
    (entries,) = found.one("SELECT count(*) FROM log")
    return StoreHead(
        store=_hash(found.engine.store_id),
        changes=found.tx.state().change,
        messages=messages,
        deletions=given["forgotten"],
        trees=given["trees"],
        runs=given["runs"],
        refs=given["refs"],
        blobs=given["blobs"],
        deleted_refs=given["refs"] - refs,
        versions=int(versions),
        entries=entries,
        newest_at=newest,
        newest=_message(found, newest),
        active=[
            (creation_counter(ref), _hash(key), version)
            for ref, key, version in found.reader.execute(_ACTIVE).fetchall()
        ],
    )


def text(head: StoreHead) -> str:
    """A head as text."""
    packed = msgspec.msgpack.encode(head)
    return _TAG + urlsafe_b64encode(packed + crc32(packed).to_bytes(4, "big")).decode().rstrip("=")


def parse(given: str) -> StoreHead:
    """Parses a head. Invalid."""
    typed = given.strip() if isinstance(given, str) else ""
    if typed.startswith("clew-head-") and not typed.startswith(_TAG):
        raise Invalid("a newer version of clew printed this head", hint="Update clew.")
    try:
        if not typed.startswith(_TAG) or len(typed) > _LONGEST:
            raise ValueError
        body = typed.removeprefix(_TAG)
        raw = urlsafe_b64decode(body + "=" * (-len(body) % 4))
        packed, check = raw[:-4], raw[-4:]
        if crc32(packed).to_bytes(4, "big") != check:
            raise ValueError
        return msgspec.msgpack.decode(packed, type=StoreHead)
    except (ValueError, msgspec.MsgspecError):
        hint = "Pass the whole line that 'clew verify --print-head' printed."
        raise Invalid("this is not a store head", hint=hint) from None


def check_since(found: Findings, head: StoreHead) -> None:
    """Adds signs that the store was rolled back to before the head."""
    for problem in _problems(found, head):
        found.add("head", "the store", problem)


def _problems(found: Findings, head: StoreHead) -> Iterator[str]:
    now = read_head(found)
    if now.store != head.store:
        yield "the head belongs to another store"
        return
    labels = _LABELS if now.deleted_refs > head.deleted_refs else _LABELS | _LIVE_LABELS
    for name, label in labels.items():
        had, has = getattr(head, name), getattr(now, name)
        if has < had:
            yield f"it was rolled back: {label} were {had}, now {has}"
    for number, key, version in head.active:
        ref = found.one(_REF, number)
        if ref is not None and _hash(ref[0]) != key:
            yield f"it was rolled back, and written to since: ref {number} is another one"
        elif ref is not None and ref[1] < version:
            yield f"it was rolled back: ref {number} had version {version}, now {ref[1]}"
    here = _message(found, head.newest_at)
    if here and head.newest and here != head.newest:
        yield "it was rolled back, and written to since: the newest message of the head is another one"
    elif head.newest and not here and now.deletions <= head.deletions:
        yield "it was rolled back: the newest message of the head is missing, but no message was deleted since"


def _message(found: Findings, number: int) -> bytes:
    """Hash of the id of the message with this number in order of commit; empty if there is none."""
    row = found.one("SELECT id FROM nodes WHERE ord = ?", number)
    return b"" if row is None else _hash(row[0])


def _hash(id: bytes) -> bytes:
    return blake2b(id, digest_size=_HASH, person=b"clew head").digest()
