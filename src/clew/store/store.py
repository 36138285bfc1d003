"""`Store`, the object that users work with: its views, and the operations on the store as a whole.

Also: `Options`, with which a store is opened, and `trial`, which undoes what a block writes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, overload

from msgspec.json import encode

from clew.backends import BackendOptions, Call, Durability, Tx
from clew.backends.open import SERVERS, open_backend
from clew.base.ids import IdSource, new_id, text
from clew.base.loading import loading
from clew.base.values import Clock, whole_number
from clew.engine.engine import MAX_BODY, Engine, wall_clock
from clew.errors import ClewError, Closed, Corrupted, Invalid, NotFound
from clew.store.parts import Parts, Stoppable
from clew.store.sessions import Sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from clew.backends import Backup, Resources
    from clew.backends.fts_tables import Mode
    from clew.backends.timing import Timing
    from clew.base.buckets import Bucket
    from clew.base.messages import AnyMessage, Message, Role
    from clew.engine.audit import Audit
    from clew.engine.engine import Draft
    from clew.engine.mirrors import Mirrors
    from clew.keys import Key
    from clew.redaction import Rules
    from clew.store.attachments import StoreBlobs, StoreLog
    from clew.store.nodes import Nodes
    from clew.store.search.index import Progress
    from clew.store.search.query import Hit
    from clew.store.session import Session
    from clew.store.snapshots import Snapshots
    from clew.store.unit import Document, Unit
    from clew.upkeep.quarantine import Quarantine
    from clew.upkeep.rekey import Kind, Status
    from clew.upkeep.verify import Report

T = TypeVar("T")


def open(
    path: str | os.PathLike[str],
    *,
    key: Key | None = None,
    blobs: str | Bucket | None = None,
    durability: Durability = "full",
    timeout: float = 60.0,
    create: bool = True,
    network: bool = False,
    pool_size: int = 8,
    read_only: bool = False,
    immutable: bool = False,
    workspace: str = "",
    audit: bool = False,
    actor: str | None = None,
    max_body: int = MAX_BODY,
    redact: Rules | None = None,
    tidy: bool = True,
    clock: Clock = wall_clock,
    ids: IdSource = new_id,
) -> Store:
    """Opens the store in a SQLite file, which is created if it does not exist. ``":memory:"`` opens a store that is
    never written to disk, a ``postgresql://`` URL one that many machines share.

    The folder must exist, except the namespace of records, ``agentvoice/conversations``.

    `key`: 32 bytes or a key from `clew.keys`. Seals a new store: no plaintext reaches the disk. Opening a sealed store
    with any other key raises WrongKey and changes nothing.
    `blobs`: the URL of a bucket, like ``s3://bucket/prefix``, or a `clew.buckets.Bucket`. Attachments of 1 MiB or more
    are stored there.
    `durability`: ``"relaxed"`` is faster; a power failure, but not a crash, may lose the last seconds.
    `timeout`: how many seconds a write waits for other writers, and any call for an unreachable server.
    `create`: if False, the store must exist. `network`: allows a file on a network file system. `pool_size`: the
    maximum number of connections to a server.
    `read_only`: for a file: writes raise ReadOnly, and the search index is in memory. `immutable`, with it: no program
    writes to the file while it is open, as in an image or on a read-only disk. clew then needs no locks and creates no
    files. If a program does write to it, reads are wrong.
    `workspace`: separates the sessions of several tenants.
    `audit`: records all events of sessions in the audit log, not only deletions, holds and key changes; `actor` is the
    name recorded with each.
    `max_body`: the maximum size of a message. `redact`: rules of `clew.redaction`, applied to everything before it is
    stored.
    `tidy`: if a purge could not clear all traces because of readers, clears them after a write or on close.
    `clock` (microseconds since 1970) and `ids` are for tests.
    """
    create, tidy = create and not read_only, tidy and not read_only
    backend = BackendOptions(durability, timeout, create, network, pool_size, read_only, immutable)
    options = Options(backend, key, blobs, workspace, audit, actor, max_body, redact, tidy, clock, ids)
    return open_store(path, options)


def open_store(path: str | os.PathLike[str], options: Options) -> Store:
    """Opens a store. Checks the options before it creates a file."""
    name = store_name(path)
    check_options(options)
    bucket = None
    if options.blobs is not None:
        with loading:
            from clew.base import buckets

        bucket = buckets.bucket(options.blobs)

    def check_older(tx: Tx) -> None:
        with loading:
            from clew.engine.sealing import header

        header.check_key(tx, options.key, name)

    if options.backend.create and "://" not in name and name != ":memory:" and not os.path.exists(name):
        with loading:
            from clew.base.files import make_namespace

        make_namespace(name)
    backend = open_backend(name, options.backend, check_older)
    try:
        engine = Engine(
            backend,
            workspace=options.workspace,
            clock=options.clock,
            new_id=options.ids,
            max_body=options.max_body,
            key=options.key,
            redact=options.redact,
        )
        engine.audits, engine.actor, engine.bucket = options.audit, options.actor, bucket
        store = Store(Parts(engine, tidy=options.tidy))
        if engine.cleanup.marked and options.tidy:
            engine.cleanup.schedule(store.clear_traces)
        if options.audit and engine.keyed:
            with loading:
                from clew.engine.audit import record_event

            record_event(engine, store._refs, "open", store._key_id())
        return store
    except BaseException:
        backend.close()
        raise


class Store:
    """A store of conversations. Threads may share it; a forked process must open its own."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._engine = parts.engine
        self._refs = parts.refs

    @property
    def path(self) -> str:
        """Its file, or its server and schema without the password."""
        return self._engine.backend.path

    @cached_property
    def sessions(self) -> Sessions:
        """Its conversations."""
        return Sessions(self._parts)

    @cached_property
    def nodes(self) -> Nodes:
        """Its messages as a tree, by id."""
        with loading:
            from clew.store.nodes import Nodes

        return Nodes(self._parts)

    @cached_property
    def blobs(self) -> StoreBlobs:
        """The attachments of all sessions."""
        with loading:
            from clew.store.attachments import StoreBlobs

        return StoreBlobs(self._engine, self.sessions)

    @cached_property
    def log(self) -> StoreLog:
        """The logs of all sessions."""
        with loading:
            from clew.store.attachments import StoreLog

        return StoreLog(self.sessions)

    @cached_property
    def snapshots(self) -> Snapshots:
        """Saved conversations with a provider, which any client of that provider can restore."""
        with loading:
            from clew.store.snapshots import Snapshots

        return Snapshots(self._parts, self.sessions)

    @cached_property
    def quarantine(self) -> Quarantine:
        """Damaged messages that were moved out of the way."""
        with loading:
            from clew.upkeep.quarantine import Quarantine

        return Quarantine(self._engine, self._parts.purger, self._parts.search.session_id_of)

    @cached_property
    def audit(self) -> Audit:
        """The audit log: who did what and when, without content."""
        with loading:
            from clew.engine.audit import Audit

        return Audit(self._engine, self._refs)

    def search(
        self,
        query: str,
        *,
        limit: int = 20,
        session: Session | str | None = None,
        role: Role | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        mode: Mode = "words",
        newest: bool = False,
        progress: Progress | None = None,
    ) -> list[Hit]:
        """Messages that contain all the words, best match first. No query is a syntax error.

        Matches whole words, ``"a phrase"`` in quotes, and ``pre*`` as a prefix; ignores case and accents.
        ``mode="substring"`` matches any sequence of characters: for code; a query in a language without spaces always
        does. Filters: a session, a role, a time from `since` up to `until`. With `newest` the newest match is first,
        which is faster if there are many. `progress` is called while new messages are indexed.
        """
        return self._parts.search(
            query, limit=limit, session=session, role=role, since=since, until=until, mode=mode, newest=newest,
            progress=progress,
        )  # fmt: skip

    def verify(self, *, since: str | None = None, progress: Progress | None = None) -> Report:
        """Reads and checks everything: bodies, tree, refs, blobs, log, search index. Reports what is damaged.

        Writes nothing and does not block writers. With `since`, a value of `head` that was kept elsewhere, it also
        detects that the store was rolled back to an earlier copy. Invalid if `since` is not a head.
        """
        with loading:
            from clew.upkeep.verify import verify

        return verify(self._engine, since=since, progress=progress, checks=[self._parts.search.check])

    def ping(self) -> None:
        """Reads one row: for probes that ask if the store can be reached and read. Raises what any read raises."""
        self._engine.read(lambda tx: tx.state(), single=True)

    def head(self) -> str:
        """A short text, without content, that identifies the present state. Keep it elsewhere, for `verify`."""
        with loading:
            from clew.upkeep.verify import head

        return head(self._engine)

    def backup(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> Backup:
        """Copies the present store into a new file without blocking writers. Conflict if the file exists."""
        backup = self._engine.backend.backup(path, progress=progress)
        if self._engine.audits:
            with loading:
                from clew.engine.audit import record_event

            record_event(self._engine, self._refs, "export", "store", reason="backup")
        return backup

    # -- keys

    def seal(self, key: Key, *, progress: Progress | None = None) -> Status:
        """Encrypts a plain store in place with this key. Others who have the key can use the store meanwhile.

        If interrupted, call it again to continue. Invalid if the store is sealed already. The status is `unclean` if
        readers prevented the removal of plaintext from the files; a later write, close or open removes it.
        """
        return self._rekey("seal", key, progress)

    def unseal(self, *, progress: Progress | None = None) -> Status:
        """Decrypts a sealed store in place. If interrupted, call it again to continue."""
        return self._rekey("unseal", None, progress)

    def rotate(self, key: Key, *, deep: bool = False, progress: Progress | None = None) -> Status:
        """Replaces the store's key. Others can use the store meanwhile, and keep the old key until they reopen it.

        Wraps the data keys again, which is fast; with `deep`, replaces them and encrypts everything again. If
        interrupted, call it again to continue; either key opens the store. Retires the old key only after it has
        verified everything: if something is damaged, raises Corrupted, and both keys stay valid.
        """
        return self._rekey("deep" if deep else "rotate", key, progress)

    def key_status(self) -> Status:
        """Whether the store is sealed, its keys, the progress of a key change, and whether traces are left."""
        with loading:
            from clew.upkeep.rekey import status

        return status(self._engine)

    def recovery_key(self) -> str:
        """The store's key, also one made from a passphrase, as text to print: see `clew.keys.recovery`. Invalid."""
        with loading:
            from clew.upkeep.rekey import recovery

        return recovery(self._engine)

    def _rekey(self, kind: Kind, key: Key | None, progress: Progress | None) -> Status:
        with loading:
            from clew.engine.engine import mark_dirty
            from clew.upkeep import rekey

        rekey.begin(self._engine, kind, key)
        self._parts.search.remove()  # the index of a plain store has its words in plaintext
        self._engine.write(mark_dirty)
        rekey.run(self._engine, progress)
        damage = self.verify(progress=progress).damage
        if damage:
            raise Corrupted(self.path, f"verify found {len(damage)} problems, so the old key is not retired yet")
        rekey.finish(self._engine, lambda tx: self._note_key(tx, "rotate" if kind == "deep" else kind))
        cleared = False
        with suppress(ClewError):  # the key change is complete; the status reports the traces
            self._parts.search.remove()
            cleared = self.clear_traces()
        if not cleared:
            self._engine.cleanup.schedule(self.clear_traces)
        return self.key_status()

    def _key_id(self) -> str:
        """The id of the store's key; ``none`` for a plain store."""
        return (self._engine.read(lambda tx: tx.state()).key_id or b"").hex() or "none"

    def _note_key(self, tx: Tx, kind: str) -> None:
        """Records the id of the new key in the audit log, or of the last one if the store becomes plain."""
        with loading:
            from clew.engine import audit

        audit.note(self._engine, self._refs, tx, kind, (tx.state().key_id or b"").hex())

    def clear_traces(self) -> bool:
        """Clears traces that earlier purges and key changes had to leave. True if none remain."""
        return self._parts.purger.finish()

    def mirrors(self) -> list[str]:
        """The folders that mirror its conversations, in plain text. A purge removes the files of a session there."""
        return self._parts.purger.mirrors.folders()

    def _objects_pending(self) -> bool:
        """True if objects are to be removed from object storage, and this store may do it."""
        if not self._parts.tidy or self._engine.bucket is None:
            return False
        with loading:
            from clew.engine import blob_objects

        return blob_objects.removal_pending(self._engine)

    # -- for adapters and tools: see `clew.store.unit`

    def write(self, work: Callable[[Unit], T]) -> T:
        """Calls `work` with a unit of work: one transaction, durable when this returns; returns its result.

        `work` must only compute and call verbs of the unit: it may run on another thread, and more than once. What it
        raises undoes the unit and is raised here.
        """
        with loading:
            from clew.store import unit

        began = monotonic()
        try:
            return unit.write(self._parts, work)
        finally:
            timing = self._engine.backend.timing
            if (took := monotonic() - began) > timing.threshold:
                timing.note("unit", took)

    def read(self, work: Callable[[Unit], T], *, single: bool = False) -> T:
        """Calls `work`, which must not write, with a unit on a snapshot of the store.

        `single` is a hint that it calls one verb, which reads one row.
        """
        with loading:
            from clew.store import unit

        return unit.read(self._parts, work, single=single)

    def documents(self, kind: str, *, index: bytes | None = None, label: bytes | None = None) -> Iterator[Document]:
        """The documents of a kind, or those with an index or a label, the newest first. Read a page at a time."""
        with loading:
            from clew.store import unit

        return unit.documents(self._parts, kind, index=index, label=label)

    def document(self, kind: str, typed: str) -> Document:
        """The document with this id or handle. NotFound, Ambiguous."""
        found = self.read(lambda unit: unit.document(kind, self._refs.resolve(kind, typed)))
        if found is None:
            raise NotFound(kind, typed)
        return found

    def draft(
        self,
        said: AnyMessage,
        *,
        id: str | bytes | None = None,
        created_at: int | None = None,
        seen: Message | None = None,
    ) -> Draft:
        """A message redacted, encoded and checked, before the transaction that stores it. Invalid.

        `seen` is role and usage of a native message, for a caller that has read its JSON already.
        """
        return self._engine.draft(said, id, created_at, seen=seen)

    def derived_id(self, *names: str) -> bytes:
        """An id for names of the caller's own: a keyed hash, which reveals nothing. The same in every process."""
        return self._engine.lookup_hash("adapter", encode(names))

    def new_id(self) -> str:
        """A new id: of a session, a message or a document."""
        return text(self._engine.new_id())

    def lookup_hash(self, domain: str, value: bytes) -> bytes:
        """A keyed hash of a value: an id or an index, which reveals nothing. The same in every process.

        Equal values of different domains have different hashes.
        """
        return self._engine.lookup_hash(domain, value)

    @overload
    def redacted(self, said: AnyMessage) -> AnyMessage: ...
    @overload
    def redacted(self, said: bytes, *, own: bool = False) -> bytes: ...
    def redacted(self, said: AnyMessage | bytes, *, own: bool = False) -> AnyMessage | bytes:
        """A message, or JSON or text, after redaction; the same object if nothing is found. `own` if clew wrote the
        JSON.
        """
        if isinstance(said, bytes):
            return self._engine.redacted(said, own=own)
        return self._engine.redacted_message(said)

    def redaction_token(self, rule: str, value: str) -> str:
        """A token that is equal for equal findings of a rule, and reveals nothing else."""
        return self._engine.token(rule, value)

    @property
    def sealed(self) -> bool:
        """True if it has a key: no plaintext reaches the disk."""
        return self._engine.keyed

    @property
    def clock(self) -> Clock:
        """Returns the present time in microseconds since 1970."""
        return self._engine.clock

    @property
    def max_body(self) -> int:
        """The most bytes that a message or a log entry can have."""
        return self._engine.max_body

    @property
    def in_transaction(self) -> bool:
        """True if this thread is inside `transaction`."""
        return self._engine.backend.in_transaction()

    @property
    def redacts(self) -> bool:
        """True if it was opened with redaction rules."""
        return self._engine.rules is not None

    @property
    def file(self) -> str | None:
        """The path of its file; None in memory, on a server, read-only, and for a file with several names."""
        return self._engine.backend.file

    @property
    def unencrypted(self) -> bool:
        """True if it is on a server on another host, and a connection has no TLS."""
        return self._engine.backend.unencrypted

    @property
    def workspace(self) -> str:
        """The workspace that it was opened with."""
        return self._engine.workspace

    def transaction(self) -> AbstractContextManager[None]:
        """Runs several calls of this thread in one transaction: all or none take effect. Other writers wait."""
        return self._engine.transaction()

    def close(self) -> None:
        """Finishes pending cleanup, closes the files and stops sweepers. Idempotent; later calls raise Closed."""
        with suppress(Closed):
            self._engine.backend.in_transaction()  # Closed in a forked process: cleanup belongs to its parent
            for step in self._parts.closing:
                step()
            with suppress(ClewError):  # the pending cleanup stays recorded in the store
                if self._engine.cleanup.pending or self._objects_pending():
                    self._engine.backend.hurry()
                    self.clear_traces()
            self._parts.close()
        self._engine.close()
        for thread in list(self._parts.threads):
            thread.stop(5.0)  # what it does now fails as Closed; a callback of the program may take longer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.path}>"


def store_of(session: Session) -> Store:
    """The store of a session: another object than the one that was opened. For rooms that are given a session alone."""
    return Store(Parts.of(session))


def stop_on_close(store: Store, thread: Stoppable) -> None:
    """Stops a thread when the store is closed. For modules of clew."""
    Parts.of(store).threads.add(thread)


def before_close(store: Store, step: Callable[[], object]) -> None:
    """Calls `step`, which must not raise, before the store is closed. For modules of clew."""
    Parts.of(store).closing.append(step)


def after_transaction(store: Store, what: Hashable, step: Callable[[], object]) -> None:
    """Calls `step` now, or at the end of this thread's transaction: once for each `what`, also after a rollback.

    For modules of clew.
    """
    Parts.of(store).engine.rollback_steps.after(what, step)


def timing_of(store: Store) -> Timing:
    """The times of a store. For modules of clew."""
    return Parts.of(store).engine.backend.timing


def usage_of(store: Store) -> Resources:
    """The size of a store, and the connections in use. For modules of clew."""
    return Parts.of(store).engine.backend.usage()


def mirrors_of(store: Store) -> Mirrors:
    """The folders that mirror a store. For modules of clew."""
    return Parts.of(store).purger.mirrors


class CallResult(NamedTuple):
    """What a call returned or raised."""

    result: Any
    error: BaseException | None


def run_together(store: Store, functions: Sequence[Callable[[], object]]) -> list[CallResult]:
    """Calls functions that write, in one commit: each is stored completely or not at all. For the async API."""
    backend, calls = store._engine.backend, [Call(function) for function in functions]
    failed = None
    try:
        backend.batch(calls)
    except BaseException as error:  # noqa: BLE001 - each caller must get it, or waits for ever
        failed = error
    done = [CallResult(call.result, call.error or failed) for call in calls]
    for call, outcome in zip(calls, done, strict=True):
        if outcome.error is None:
            for step in call.steps:
                step()
    return done


LONGEST_WAIT = 1_000_000
"""The longest timeout in seconds: eleven days. SQLite counts milliseconds in 31 bits."""


class Options(NamedTuple):
    """The parameters of `open`, which explains them."""

    backend: BackendOptions = BackendOptions()
    key: Key | None = None
    blobs: str | Bucket | None = None
    workspace: str = ""
    audit: bool = False
    actor: str | None = None
    max_body: int = MAX_BODY
    redact: Rules | None = None
    tidy: bool = True
    clock: Clock = wall_clock
    ids: IdSource = new_id


def store_name(path: str | os.PathLike[str]) -> str:
    """The path or URL of a store as text. Invalid if it cannot name a store."""
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name:
        raise Invalid("a store is named by a path")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise Invalid("the path is not valid Unicode") from None
    if "://" in name and not name.startswith(SERVERS):
        raise Invalid(
            f"clew cannot open {name.partition('://')[0]}:// stores", hint="Name a file, or a postgresql:// database."
        )
    return name


def check_options(options: Options) -> None:
    """Invalid or Unavailable for options that would otherwise fail only after the file is created."""
    key, workspace, actor, redact = options.key, options.workspace, options.actor, options.redact
    timeout = options.backend.timeout
    if not isinstance(timeout, int | float) or not 0 <= timeout <= LONGEST_WAIT:
        raise Invalid(f"a timeout is a number of seconds, at most {LONGEST_WAIT:,}")
    if options.backend.immutable and not options.backend.read_only:
        raise Invalid(
            "immutable=True needs read_only=True", hint="immutable means that no program writes to the file meanwhile."
        )
    if options.audit and options.backend.read_only:
        raise Invalid("the audit log cannot record events of a store that is read-only", hint="Leave out audit=True.")
    whole_number("max_body", options.max_body, 1)
    whole_number("pool_size", options.backend.pool_size, 2)
    if key is not None:
        with loading:
            from clew.engine.sealing import header
            from clew.keys import Passphrase, check

        header.require_cryptography()

        if not isinstance(key, Passphrase):
            check(key)
    if not isinstance(workspace, str):
        raise Invalid(f"a workspace is text, not {type(workspace).__name__}")
    try:
        workspace.encode()
    except UnicodeEncodeError:
        raise Invalid("the workspace is not valid Unicode") from None
    if actor is not None:
        with loading:
            from clew.engine.audit import actor_name

        actor_name(actor)
    if not callable(options.clock) or not callable(options.ids):
        raise Invalid("clock and ids must be functions")
    if redact is not None:
        with loading:
            from clew.redaction import Rules

        if not isinstance(redact, Rules):
            raise Invalid(
                f"redact takes redaction.Rules, not {type(redact).__name__}", hint="Put the rules in Rules([…])."
            )


class _Undo(Exception):
    """Rolls the transaction back."""


@contextmanager
def trial(store: Store) -> Iterator[Store]:
    """A store with the present content of `store`; changes to it are discarded.

    It is a copy in an unnamed temporary file; rows of a sealed store stay encrypted. For stores on a server, with
    attachments in object storage or in memory, and inside a transaction, it is `store` itself in a transaction that is
    rolled back. Other writers wait for that transaction.
    """
    engine = Parts.of(store).engine
    copy = None if engine.bucket is not None else engine.backend.scratch_copy()
    if copy is None:
        with suppress(_Undo), store.transaction():
            yield store
            raise _Undo
        return
    try:
        engine_of_copy = Engine(
            copy, workspace=engine.workspace, clock=engine.clock, new_id=engine.new_id, max_body=engine.max_body,
            key=engine.key if engine.keyed else None, redact=engine.rules,
        )  # fmt: skip
        yield Store(Parts(engine_of_copy, tidy=False))
    finally:
        copy.close()
