"""A store as people use it: its views on one engine, and what concerns the whole."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Self

from clew.backends import Backend, Tx
from clew.backends.sqlite import SQLiteBackend
from clew.backends.sqlite.connection import Durability
from clew.engine import MAX_BODY, Clock, Engine, wall_clock, whole_number
from clew.errors import ClewError, Closed, Invalid, Tampered
from clew.ids import IdSource, new_id
from clew.loading import loading
from clew.refs import Refs
from clew.sessions import Sessions

if TYPE_CHECKING:
    from clew.audit import Audit
    from clew.backup import Backup
    from clew.beside import StoreBlobs, StoreLog
    from clew.indexing import Mode, Progress
    from clew.keys import Key
    from clew.model import Role
    from clew.nodes import Nodes
    from clew.objects import Bucket
    from clew.purge import Purger
    from clew.quarantine import Quarantine
    from clew.redaction import Rules
    from clew.rekey import Kind, Status
    from clew.search import Hit, Search
    from clew.session import Session
    from clew.snapshots.stored import Snapshots
    from clew.verify import Report

_POSTGRES = ("postgresql://", "postgres://")
LONGEST_WAIT = 1_000_000
"""Seconds that a timeout may have: eleven days. SQLite counts milliseconds in 31 bits."""


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
    With `blobs`, the URL of a bucket like ``s3://bucket/prefix`` or a `clew.objects.Bucket`, attachments from 1 MiB on
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
    name = _name(path)
    _check(key, workspace, actor, redact)
    if not isinstance(timeout, int | float) or not 0 <= timeout <= LONGEST_WAIT:
        raise Invalid(f"a timeout is a number of seconds, at most {LONGEST_WAIT:,}")
    whole_number("max_body", max_body, 1)
    whole_number("pool_size", pool_size, 2)
    bucket = None
    if blobs is not None:
        with loading:
            from clew import objects

        bucket = objects.bucket(blobs)
    backend: Backend
    if name.startswith(_POSTGRES):
        with loading:
            from clew.backends.postgres import PostgresBackend

        backend = PostgresBackend(name, durability=durability, timeout=timeout, create=create, pool_size=pool_size)
    else:
        backend = SQLiteBackend(name, durability=durability, timeout=timeout, create=create, network=network)
    try:
        engine = Engine(
            backend, workspace=workspace, clock=clock, new_id=ids, max_body=max_body, key=key, redact=redact
        )
        engine.audits, engine.actor, engine.bucket = audit, actor, bucket
        store = Store(engine, tidy=tidy)
        if audit and engine.keyed:
            store.audit._record("open", store._key_id())
        return store
    except BaseException:
        backend.close()
        raise


def _name(path: str | os.PathLike[str]) -> str:
    """The path or the URL of a store as text. Invalid if there can be no store."""
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name:
        raise Invalid("a store is named by a path")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise Invalid("the path is not valid Unicode") from None
    if "://" in name and not name.startswith(_POSTGRES):
        raise Invalid(
            f"clew cannot open {name.partition('://')[0]}:// stores", hint="Name a file, or a postgresql:// database."
        )
    return name


def _check(key: Key | None, workspace: str, actor: str | None, redact: Rules | None) -> None:
    """Invalid, Unavailable for what would be noticed only when the file is made already."""
    if key is not None:
        with loading:
            from clew import header
            from clew.keys import Passphrase, check

        header.needed()

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
            from clew.audit import actor_name

        actor_name(actor)
    if redact is not None:
        with loading:
            from clew.redaction import Rules

        if not isinstance(redact, Rules):
            raise Invalid(
                f"redact takes redaction.Rules, not {type(redact).__name__}", hint="Put the rules in Rules([…])."
            )


class Store:
    """Where conversations are kept. Threads may share it; a process made by fork must open its own."""

    def __init__(self, engine: Engine, *, tidy: bool = True) -> None:
        self._engine = engine
        self._refs = Refs(engine)
        self._tidy = tidy
        if engine.unclean and tidy:
            engine.owe(self._finish)

    @property
    def path(self) -> str:
        """The file it is in, or the server and the schema, without a password."""
        return self._engine.backend.path

    @cached_property
    def sessions(self) -> Sessions:
        """Its conversations."""
        return Sessions(self._engine, self._refs, lambda: self._purger)

    @cached_property
    def nodes(self) -> Nodes:
        """Its messages, as a tree."""
        with loading:
            from clew.nodes import Nodes

        return Nodes(self._engine, self._refs, lambda: self._purger)

    @cached_property
    def blobs(self) -> StoreBlobs:
        """Attachments, images, files: of any session."""
        with loading:
            from clew.beside import StoreBlobs

        return StoreBlobs(self._engine, self.sessions)

    @cached_property
    def log(self) -> StoreLog:
        """Entries beside the messages: of any session."""
        with loading:
            from clew.beside import StoreLog

        return StoreLog(self.sessions)

    @cached_property
    def snapshots(self) -> Snapshots:
        """Conversations with a provider, saved whole, to be restored elsewhere."""
        with loading:
            from clew.snapshots.stored import Snapshots

        return Snapshots(self._engine, self._refs, self.sessions, lambda: self._purger)

    @cached_property
    def quarantine(self) -> Quarantine:
        """What was taken out because it is damaged."""
        with loading:
            from clew.quarantine import Quarantine

        return Quarantine(self._engine, self._search, lambda: self._purger)

    @cached_property
    def audit(self) -> Audit:
        """Who did what and when, without a word of what was said."""
        with loading:
            from clew.audit import Audit

        return Audit(self._engine, self._refs)

    @cached_property
    def _search(self) -> Search:
        with loading:
            from clew.search import Search

        return Search(self._engine, self.sessions)

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
        return self._search(
            query, limit=limit, session=session, role=role, since=since, until=until, mode=mode, progress=progress
        )

    def verify(self, *, since: str | None = None, progress: Progress | None = None) -> Report:
        """Reads everything and checks it: bodies, tree, refs, blobs, log, search index. Names what is damaged.

        It writes nothing, and others may go on writing. With `since`, a `head` that was kept elsewhere, it also reports
        that the store was rolled back to an earlier copy. Invalid if that is not a head.
        """
        with loading:
            from clew.verify import verify

        return verify(self._engine, since=since, progress=progress, checks=[self._search.check])

    def head(self) -> str:
        """A short text that says how far the store has come, without content: keep it elsewhere, for `verify`."""
        with loading:
            from clew.verify import head

        return head(self._engine)

    def backup(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> Backup:
        """Copies the store as it is now into a new file, while others go on writing. Conflict if the file exists."""
        with loading:
            from clew.backup import backup

        made = backup(self._engine, path, progress=progress)
        if self._engine.audits:
            self.audit._record("export", "store", reason="backup")
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
        everything was read and found sound: if something is damaged, Tampered, and both keys stay good.
        """
        return self._rekey("deep" if deep else "rotate", key, progress)

    def key_status(self) -> Status:
        """How the store is kept, by which keys, how far an exchange has come, and whether traces are left."""
        with loading:
            from clew.rekey import status

        return status(self._engine)

    def recovery_key(self) -> str:
        """The store's key, also one from a passphrase, as letters to be printed: see `clew.keys.recovery`. Invalid."""
        with loading:
            from clew.rekey import recovery

        return recovery(self._engine)

    def _rekey(self, kind: Kind, key: Key | None, progress: Progress | None) -> Status:
        with loading:
            from clew import rekey
            from clew.purge import soil

        rekey.begin(self._engine, kind, key)
        self._search.remove()  # words in clear text, of a store that is to have none
        self._engine.write(soil)
        rekey.go_on(self._engine, progress)
        damage = self.verify(progress=progress).damage
        if damage:
            raise Tampered(self.path, f"{len(damage)} things in it are, so nothing that opens it is given up yet")
        rekey.finish(self._engine, lambda tx: self._note_key(tx, "rotate" if kind == "deep" else kind))
        cleared = False
        with suppress(ClewError):  # it is done all the same; the status says that traces are left
            self._search.remove()
            cleared = self._finish()
        if not cleared:
            self._engine.owe(self._finish)
        return self.key_status()

    def _key_id(self) -> str:
        """Which key the store is kept with; ``none`` while it is plain."""
        return (self._engine.read(lambda tx: tx.state()).key_id or b"").hex() or "none"

    def _note_key(self, tx: Tx, kind: str) -> None:
        """Notes in the audit which key is the store's from now on, or was the last one."""
        with loading:
            from clew import audit

        audit.note(self._engine, self._refs, tx, kind, (tx.state().key_id or b"").hex())

    def _finish(self) -> bool:
        """Clears traces that were left; True if none are."""
        return self._purger.finish()

    def _owes_objects(self) -> bool:
        """True if objects wait to be removed, and can be."""
        if not self._tidy or self._engine.bucket is None:
            return False
        with loading:
            from clew import outside

        return outside.owed(self._engine)

    @cached_property
    def _purger(self) -> Purger:
        with loading:
            from clew.purge import Purger

        return Purger(self._engine, self._refs, lambda: self._search.index)

    def transaction(self) -> AbstractContextManager[None]:
        """Makes several steps of this thread one: all are kept, or none. Other writers wait meanwhile."""
        return self._engine.transaction()

    def close(self) -> None:
        """Finishes, and lets go of the files. Idempotent; the store raises Closed afterwards."""
        with suppress(Closed):
            self._engine.backend.in_transaction()  # Closed in a forked process: all there is belongs to its parent
            with suppress(ClewError):  # what is left to be cleared stays noted
                if self._engine.owes or self._owes_objects():
                    self._engine.backend.hurry()
                    self._finish()
            if "_search" in self.__dict__:
                self._search.close()
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.path}>"
