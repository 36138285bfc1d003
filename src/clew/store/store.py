"""A store as people use it: its views on one engine, and what concerns the whole."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Self

from clew.backends import BackendOptions, Durability, Tx
from clew.backends.open import open_backend
from clew.base.ids import IdSource, new_id
from clew.base.loading import loading
from clew.engine.engine import MAX_BODY, Clock, Engine, wall_clock
from clew.errors import ClewError, Closed, Corrupted
from clew.store.options import Options, check_options, store_name
from clew.store.parts import Parts
from clew.store.sessions import Sessions

if TYPE_CHECKING:
    from clew.backends import Backup
    from clew.base.buckets import Bucket
    from clew.base.messages import Role
    from clew.engine.audit import Audit
    from clew.keys import Key
    from clew.redaction import Rules
    from clew.store.attachments import StoreBlobs, StoreLog
    from clew.store.nodes import Nodes
    from clew.store.search.index import Mode, Progress
    from clew.store.search.query import Hit
    from clew.store.session import Session
    from clew.store.snapshots import Snapshots
    from clew.upkeep.quarantine import Quarantine
    from clew.upkeep.rekey import Kind, Status
    from clew.upkeep.verify import Report


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
    workspace: str = "",
    audit: bool = False,
    actor: str | None = None,
    max_body: int = MAX_BODY,
    redact: Rules | None = None,
    tidy: bool = True,
    clock: Clock = wall_clock,
    ids: IdSource = new_id,
) -> Store:
    """Opens the store in a SQLite file, made if it is not there; ``":memory:"`` for one that is never written; a
    ``postgresql://`` URL for one that many machines share, with at most `pool_size` connections of this process's.

    With `key`, 32 bytes or one from `clew.keys`, a new store is sealed: nothing readable reaches the disk. A sealed
    store opens with its key alone; WrongKey, and nothing is changed, with any other.
    With `blobs`, the URL of a bucket like ``s3://bucket/prefix`` or a `clew.buckets.Bucket`, attachments from 1 MiB on
    go to object storage, and those that are there are found again.
    `durability="relaxed"` is faster and may lose the last seconds in a power cut, never in a crash of the program.
    `timeout` is how long a write may wait for other writers, and any call for a server that is away.
    `network=True` allows a network file system. `workspace`
    keeps the sessions of several tenants apart. With `audit` the audit has all that is done to sessions, and not only
    what takes away, holds or touches keys; `actor` is who it says it was. `max_body` limits one message. `redact` are
    the rules of `clew.redaction` by which everything is redacted before it is stored. What a purge had to leave,
    because someone was reading, is cleared after a write or at the close; not with `tidy=False`, for who only looks.
    `clock` (microseconds since 1970) and `ids` are for tests.
    """
    backend = BackendOptions(durability, timeout, create, network, pool_size)
    options = Options(backend, key, blobs, workspace, audit, actor, max_body, redact, tidy, clock, ids)
    return open_store(path, options)


def open_store(path: str | os.PathLike[str], options: Options) -> Store:
    """Opens a store; what is wrong with the options is found before a file is made."""
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
        store = Store(engine, tidy=options.tidy)
        if options.audit and engine.keyed:
            with loading:
                from clew.engine.audit import record_event

            record_event(engine, store._refs, "open", store._key_id())
        return store
    except BaseException:
        backend.close()
        raise


class Store:
    """Where conversations are kept. Threads may share it; a process made by fork must open its own."""

    def __init__(self, engine: Engine, *, tidy: bool = True) -> None:
        self._parts = Parts(engine)
        self._engine = engine
        self._refs = self._parts.refs
        self._tidy = tidy
        if engine.cleanup.marked and tidy:
            engine.cleanup.schedule(self._finish)

    @property
    def path(self) -> str:
        """The file it is in, or the server and the schema, without a password."""
        return self._engine.backend.path

    @cached_property
    def sessions(self) -> Sessions:
        """Its conversations."""
        return Sessions(self._parts)

    @cached_property
    def nodes(self) -> Nodes:
        """Its messages, as a tree."""
        with loading:
            from clew.store.nodes import Nodes

        return Nodes(self._parts)

    @cached_property
    def blobs(self) -> StoreBlobs:
        """Attachments, images, files: of any session."""
        with loading:
            from clew.store.attachments import StoreBlobs

        return StoreBlobs(self._engine, self.sessions)

    @cached_property
    def log(self) -> StoreLog:
        """Entries beside the messages: of any session."""
        with loading:
            from clew.store.attachments import StoreLog

        return StoreLog(self.sessions)

    @cached_property
    def snapshots(self) -> Snapshots:
        """Conversations with a provider, saved whole, to be restored elsewhere."""
        with loading:
            from clew.store.snapshots import Snapshots

        return Snapshots(self._parts, self.sessions)

    @cached_property
    def quarantine(self) -> Quarantine:
        """What was taken out because it is damaged."""
        with loading:
            from clew.upkeep.quarantine import Quarantine

        return Quarantine(self._engine, self._parts.search, self._parts.purger)

    @cached_property
    def audit(self) -> Audit:
        """Who did what and when, without a word of what was said."""
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
        progress: Progress | None = None,
    ) -> list[Hit]:
        """Messages in which all the words are found, best first; whatever is typed, it is never a syntax error.

        Words are whole words, ``"in quotes"`` a phrase, ``pre*`` a beginning; capitals and accents do not matter.
        ``mode="substring"`` finds any run of characters: for code, and for languages without spaces. Filters: a
        session, a role, a time from `since` up to `until`. `progress` is called while new messages are indexed.
        """
        return self._parts.search(
            query, limit=limit, session=session, role=role, since=since, until=until, mode=mode, progress=progress
        )

    def verify(self, *, since: str | None = None, progress: Progress | None = None) -> Report:
        """Reads everything and checks it: bodies, tree, refs, blobs, log, search index. Names what is damaged.

        It writes nothing, and others may go on writing. With `since`, a `head` that was kept elsewhere, it also reports
        that the store was rolled back to an earlier copy. Invalid if that is not a head.
        """
        with loading:
            from clew.upkeep.verify import verify

        return verify(self._engine, since=since, progress=progress, checks=[self._parts.search.check])

    def head(self) -> str:
        """A short text that says how far the store has come, without content: keep it elsewhere, for `verify`."""
        with loading:
            from clew.upkeep.verify import head

        return head(self._engine)

    def backup(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> Backup:
        """Copies the store as it is now into a new file, while others go on writing. Conflict if the file exists."""
        made = self._engine.backend.backup(path, progress=progress)
        if self._engine.audits:
            with loading:
                from clew.engine.audit import record_event

            record_event(self._engine, self._refs, "export", "store", reason="backup")
        return made

    # -- keys

    def seal(self, key: Key, *, progress: Progress | None = None) -> Status:
        """Gives a plain store a key: everything in it is encrypted, in place, while others who have the key go on.

        Cut short, it goes on where it was when it is asked again. Invalid if the store is sealed already. What is
        returned says `unclean` if readable traces are left in the files because somebody is reading: they are cleared
        by a later write, by the close, or by whoever opens the store next.
        """
        return self._rekey("seal", key, progress)

    def unseal(self, *, progress: Progress | None = None) -> Status:
        """Makes a sealed store a plain one again. Cut short, it goes on where it was when it is asked again."""
        return self._rekey("unseal", None, progress)

    def rotate(self, key: Key, *, deep: bool = False, progress: Progress | None = None) -> Status:
        """Exchanges the store's key for another, while others go on; they keep the old one until they open it again.

        The data keys are wrapped anew, which is fast; with `deep` there are new ones, and everything is encrypted
        again. Cut short, it goes on where it was when it is asked again, with either key. The old key is retired when
        everything was read and found sound: if something is damaged, Corrupted, and both keys stay good.
        """
        return self._rekey("deep" if deep else "rotate", key, progress)

    def key_status(self) -> Status:
        """How the store is kept, by which keys, how far an exchange has come, and whether traces are left."""
        with loading:
            from clew.upkeep.rekey import status

        return status(self._engine)

    def recovery_key(self) -> str:
        """The store's key, also one from a passphrase, as letters to be printed: see `clew.keys.recovery`. Invalid."""
        with loading:
            from clew.upkeep.rekey import recovery

        return recovery(self._engine)

    def _rekey(self, kind: Kind, key: Key | None, progress: Progress | None) -> Status:
        with loading:
            from clew.engine.cleanup import mark_dirty
            from clew.upkeep import rekey

        rekey.begin(self._engine, kind, key)
        self._parts.search.remove()  # words in clear text, of a store that is to have none
        self._engine.write(mark_dirty)
        rekey.run(self._engine, progress)
        damage = self.verify(progress=progress).damage
        if damage:
            raise Corrupted(self.path, f"{len(damage)} things in it are, so nothing that opens it is given up yet")
        rekey.finish(self._engine, lambda tx: self._note_key(tx, "rotate" if kind == "deep" else kind))
        cleared = False
        with suppress(ClewError):  # it is done all the same; the status says that traces are left
            self._parts.search.remove()
            cleared = self._finish()
        if not cleared:
            self._engine.cleanup.schedule(self._finish)
        return self.key_status()

    def _key_id(self) -> str:
        """Which key the store is kept with; ``none`` while it is plain."""
        return (self._engine.read(lambda tx: tx.state()).key_id or b"").hex() or "none"

    def _note_key(self, tx: Tx, kind: str) -> None:
        """Notes in the audit which key is the store's from now on, or was the last one."""
        with loading:
            from clew.engine import audit

        audit.note(self._engine, self._refs, tx, kind, (tx.state().key_id or b"").hex())

    def _finish(self) -> bool:
        """Clears traces that were left; True if none are."""
        return self._parts.purger.finish()

    def _objects_pending(self) -> bool:
        """True if objects wait to be removed, and can be."""
        if not self._tidy or self._engine.bucket is None:
            return False
        with loading:
            from clew.engine import blob_objects

        return blob_objects.removal_pending(self._engine)

    def transaction(self) -> AbstractContextManager[None]:
        """Makes several steps of this thread one: all are kept, or none. Other writers wait meanwhile."""
        return self._engine.transaction()

    def close(self) -> None:
        """Finishes, and lets go of the files. Idempotent; the store raises Closed afterwards."""
        with suppress(Closed):
            self._engine.backend.in_transaction()  # Closed in a forked process: all there is belongs to its parent
            with suppress(ClewError):  # what is left to be cleared stays noted
                if self._engine.cleanup.pending or self._objects_pending():
                    self._engine.backend.hurry()
                    self._finish()
            self._parts.close()
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.path}>"
