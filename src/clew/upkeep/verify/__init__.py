"""`verify`: runs every check of this folder, and reports damage. It cannot write. Also: the head of a store.

It detects that a store was replaced by an earlier copy of itself, with a head: a short text that the user stores
elsewhere. It has counters that never decrease, whatever is purged, swept, compacted or sealed, and a hash of the id of
the newest message. It has no content and no key. If a counter of the store is lower than in the head, the store was
rolled back. If another message has the number of the newest one, it was rolled back and has been written to since.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import blake2b
from zlib import crc32

import msgspec

from clew.backends import FORMAT
from clew.backends.problems import BROKEN, Damage, describe
from clew.backends.rows import MAX_COUNTER, creation_counter
from clew.base.loading import loading
from clew.engine.engine import Engine
from clew.errors import ClewError, Corrupted, Invalid
from clew.upkeep.verify.findings import LIMIT, Findings, Progress, Report
from clew.upkeep.verify.rows import (
    check_blobs,
    check_forgotten,
    check_log,
    check_nodes,
    check_objects,
    check_quarantine,
    check_refs,
    check_runs,
    check_trees,
    check_uses,
)

_ALWAYS = {"store_id": 16, "created_at": 8}
"""Values of every store, with their sizes."""
_PLAIN = {"lookup_key": 32}
_MARKS = {"unclean": 8, "unclean objects": 8}
"""Values that exist while cleanup is pending."""
_UNSEALED = {"unsealed": 16}
_KDF = "kdf "
_STATES = ("sealing", "sealed", "rotating", "unsealing")


def check_header(found: Findings) -> None:
    """The header has the values of the store's state, each of its size; marks and key parameters are valid."""
    actual = {row[0]: row[1] for row in found.reader.execute("SELECT name, value FROM header")}
    sealed = found.tx.state().state in _STATES
    sizes: dict[str, int | None] = {**_ALWAYS, **({"secrets": None} if sealed else _PLAIN)}
    optional: dict[str, int | None] = {**_MARKS, **({"rekey": None} if sealed else _UNSEALED)}
    for name in sorted(sizes.keys() | actual.keys(), key=str):
        value, size = actual.get(name), (sizes | optional).get(name)
        if name not in sizes and name not in optional:
            if not sealed or not isinstance(name, str) or not name.startswith(_KDF):
                kind = "sealed" if sealed else "not sealed"
                found.add("header", str(name)[:64], f"format {FORMAT} has no such value in a store that is {kind}")
        elif not isinstance(value, bytes) or len(value) != (len(value) if size is None else size):
            found.add("header", name, "it is missing" if value is None else "it has the wrong size")
    if sealed:
        for name, problem in _header_problems(found, [name for name in actual if str(name).startswith(_KDF)]):
            found.add("header", name[:64], problem)


def check_epoch(found: Findings) -> None:
    """A sealed store names its key, and its secrets open; a plain one names none."""
    rows = list(found.reader.execute("SELECT state, key_id FROM epoch"))
    if any(damage.what == "epoch" for damage in found.damage) or len(rows) != 1:
        return
    state, key_id = rows[0]
    valid = state == "plain" if key_id is None else state in _STATES and isinstance(key_id, bytes) and len(key_id) == 8
    if not valid:
        found.add("epoch", "epoch", f"it is not valid in format {FORMAT}")
    elif key_id is not None:
        try:
            found.engine.secrets(found.tx)
        except Corrupted as error:
            found.add("epoch", "epoch", str(error))


def _header_problems(found: Findings, derivations: list[str]) -> Iterator[tuple[str, str]]:
    """Problems of the mark of a key change, and of the parameters of passphrases."""
    with loading:
        from clew.engine.sealing import header
        from clew.keys import check_parameters
        from clew.upkeep import rekey

    try:
        rekey.read_mark(found.engine, found.tx)
    except ClewError:
        yield "rekey", "it was not written with the store's key"
    packed = found.tx.header(header.SECRETS)
    ids = [] if packed is None else [id.hex() for id in header.key_ids(packed, found.engine.backend.path)]
    for name in derivations:
        if name.removeprefix(_KDF) not in ids:
            yield name, "no key of the store uses it"
        elif not check_parameters(found.tx.header(name) or b""):
            yield name, "its key parameters are not valid"


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
            (creation_counter(ref), _hash(key), version) for ref, key, version in list(found.reader.execute(_ACTIVE))
        ],
    )


def head_text(head: StoreHead) -> str:
    """A head as text."""
    packed = msgspec.msgpack.encode(head)
    return _TAG + urlsafe_b64encode(packed + crc32(packed).to_bytes(4, "big")).decode().rstrip("=")


def parse_head(given: str) -> StoreHead:
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
    for problem in _rollback_problems(found, head):
        found.add("head", "the store", problem)


def _rollback_problems(found: Findings, head: StoreHead) -> Iterator[str]:
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


__all__ = ["LIMIT", "Check", "Damage", "Progress", "Report", "head", "verify"]

Check = Callable[[], Iterable[Damage]]
"""Checks something outside the store's own file, and returns the damage."""

_COUNTED = ("trees", "runs", "nodes", "refs", "log", "blobs", "chunks", "uses", "quarantine")
_CHECKS = (
    check_header, check_trees, check_runs, check_nodes, check_quarantine, check_forgotten, check_refs, check_log,
    check_blobs, check_uses, check_objects,
)  # fmt: skip


def head(engine: Engine) -> str:
    """The head of the store. Stored elsewhere, it lets `verify` detect a rollback: see `rollback`."""
    with engine.backend.reader() as reader:
        return head_text(read_head(Findings(engine, reader)))


def verify(
    engine: Engine, *, since: str | None = None, progress: Progress | None = None, checks: Iterable[Check] = ()
) -> Report:
    """Reads the whole store in one snapshot, and reports everything that differs from what was written.

    Damage is reported, never raised, and the checks continue with whatever can be read. `progress` is called with the
    number of rows read and the total. `checks` run after the store's own. Invalid if `since` is not a head.
    """
    kept = None if since is None else parse_head(since)
    with engine.backend.reader() as reader:
        found = Findings(engine, reader, progress)
        found.expect(_rows(found))
        compare = () if kept is None else (partial(check_since, head=kept),)
        for check in (check_storage, check_epoch, *compare, *_CHECKS):
            try:
                check(found)
            except BROKEN as error:
                name = "head" if isinstance(check, partial) else check.__name__.replace("check_", "")
                found.add("file", name, describe(error))
        for extra in checks:
            try:
                for damage in extra():
                    found.take(damage)
            except (*BROKEN, ClewError) as error:
                found.add("file", "outside the store", describe(error))
    return found.report()


def check_storage(found: Findings) -> None:
    """Adds the problems that the backend finds: file, log, schema, epoch row, counters."""
    for problem in found.reader.inspect():
        found.indexes_doubted |= problem.what == "file"
        found.add(*problem)


def _rows(found: Findings) -> int:
    total = 0
    for name in _COUNTED:
        try:
            total += found.one(f"SELECT count(*) FROM {name}")[0]
        except BROKEN:
            continue  # the check of the table reports the damage
    return total
