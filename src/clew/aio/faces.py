"""The async face of a store: the same names, awaited. Written by tools/aio.py from the sync classes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, Self, cast, overload

from clew import audit, beside, blobs, log, nodes, quarantine, session, sessions, store
from clew.aio.face import Threads
from clew.aio.watching import Watch
from clew.audit import Deed
from clew.blobs import Blob, Source
from clew.indexing import Mode, Progress
from clew.log import Entry
from clew.model import Media, Modality, Role, Said
from clew.node import Counters, Node
from clew.nodes import NodeList, NodePage, Save
from clew.quarantine import Event, QuarantinedList, Swept
from clew.search import Hit as SyncHit
from clew.session import _UNSET, Branch
from clew.session_data import SessionData
from clew.sessions import Page as SyncPage

if TYPE_CHECKING:
    from clew.backup import Backup
    from clew.keys import Key
    from clew.outside import Cleared
    from clew.receipts import Reason, Receipt, Receipts
    from clew.rekey import Status
    from clew.snapshots import Snapshot, ToolSnapshot, stored
    from clew.snapshots.stored import Summaries
    from clew.verify import Report


class Page(SyncPage):
    """Some sessions, with the async face, and where the rest begins."""

    items: list[Session]  # type: ignore[assignment]


class _Face:
    def __init__(self, threads: Threads, sync: Any) -> None:
        self._threads = threads
        self._sync = sync

    def _wrap(self, value: Any) -> Any:
        """`value` with the async face on every session in it."""
        if isinstance(value, session.Session):
            return Session(self._threads, value)
        if isinstance(value, SyncPage):
            return Page(self._wrap(value.items), value.next_cursor, value.total)
        if isinstance(value, SyncHit):
            return Hit(self._threads, value)
        if isinstance(value, list):
            return [self._wrap(item) for item in value]
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Face) and self._sync == other._sync

    def __hash__(self) -> int:
        return hash(self._sync)

    def __repr__(self) -> str:
        return f"<async {self._sync!r}>"


class Hit(_Face):
    """A message that matched."""

    _sync: SyncHit

    @property
    def node(self) -> Node:
        """The message."""
        return self._sync.node

    @property
    def snippet(self) -> str:
        """The part of its words where it matched."""
        return self._sync.snippet

    @property
    def marks(self) -> tuple[tuple[int, int], ...]:
        """Where in the snippet: from, up to and without."""
        return self._sync.marks

    @property
    def score(self) -> float:
        """Higher is better; only to be compared within one search."""
        return self._sync.score

    @property
    def session(self) -> Awaitable[Session | None]:
        """The session last active among those that contain it, asked now; None if it belongs to no session."""
        return self._session()

    async def _session(self) -> Session | None:
        return cast("Session | None", self._wrap(await self._threads.run(lambda: self._sync.session)))


def _bare(value: Any) -> Any:
    return value._sync if isinstance(value, _Face) else value


class Blobs(_Face):
    """The blobs of one tree. A message that shows one keeps it; a blob goes with the last message that shows it."""

    _sync: blobs.Blobs

    async def put(self, source: Source) -> Blob:
        """Stores bytes, a binary file, or pieces of bytes, as a stream. Content the tree has is not stored twice.

        With object storage, large ones go there, but not inside a transaction. Unavailable if that cannot be reached.
        """
        return await self._threads.run(self._sync.put, source)

    async def get(self, digest: str) -> bytes:
        """The whole content. NotFound; Tampered if it is not what was stored."""
        return await self._threads.run(self._sync.get, digest)

    def open(self, digest: str) -> AsyncIterator[bytes]:
        """The content in pieces; no transaction is held between them. NotFound at once; Tampered where it is."""
        return self._threads.stream(self._sync.open, digest)

    async def stat(self, digest: str) -> Blob:
        """Address and size of a blob. NotFound."""
        return await self._threads.run(self._sync.stat, digest)


class Log(_Face):
    """The log of one ref. It goes with the ref, and never otherwise."""

    _sync: log.Log

    async def append(self, data: bytes | Sequence[bytes], *, id: str | Sequence[str] | None = None) -> list[Entry]:
        """Adds entries, all or none, durable when this returns. The same id and bytes again change nothing."""
        return await self._threads.commit(self._sync.append, data, id=id)

    def read(self, start: int = 0, stop: int | None = None) -> AsyncIterator[Entry]:
        """Entries from number `start` up to and without `stop`, in order; no transaction is held between pages."""
        return self._threads.stream(self._sync.read, start, stop)


class Session(_Face):
    """A conversation. The object shows the session as it was read; what it does acts on the session as it is now."""

    _sync: session.Session

    @property
    def id(self) -> str:
        """Its id, a UUID."""
        return self._sync.id

    @property
    def handle(self) -> Awaitable[str]:
        """The short name people type for it."""
        return self._threads.run(lambda: self._sync.handle)

    @property
    def data(self) -> SessionData:
        """Everything it carries. Tampered if the bytes are not what was written."""
        return self._sync.data

    @property
    def title(self) -> str | None:
        """Its title."""
        return self._sync.title

    @property
    def cwd(self) -> str | None:
        """The directory it belongs to."""
        return self._sync.cwd

    @property
    def model(self) -> str | None:
        """The model it talks to."""
        return self._sync.model

    @property
    def labels(self) -> tuple[str, ...]:
        """Its labels, sorted."""
        return self._sync.labels

    @property
    def agent(self) -> str | None:
        """The agent whose trace it is, if it is a subagent's."""
        return self._sync.agent

    @property
    def is_subagent(self) -> bool:
        """True for the trace of a subagent: it is never continued by `latest`."""
        return self._sync.is_subagent

    @property
    def owner_id(self) -> Awaitable[str | None]:
        """The id of the session that it goes with, if it is a subagent's; None if it stands alone."""
        return self._threads.run(lambda: self._sync.owner_id)

    @property
    def forked_from(self) -> str | None:
        """The id of the session it was forked from."""
        return self._sync.forked_from

    @property
    def forked_at(self) -> str | None:
        """The id of the last message it shares with the session it was forked from."""
        return self._sync.forked_at

    @property
    def extra(self) -> dict[str, Any]:
        """Free data."""
        return self._sync.extra

    @property
    def head_id(self) -> str | None:
        """The id of its last message; None while it has none. Tampered if the row is not what was written."""
        return self._sync.head_id

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._sync.version

    @property
    def created_at(self) -> datetime:
        """When it was created. Tampered if the row is not what was written."""
        return self._sync.created_at

    @property
    def updated_at(self) -> datetime:
        """When its head last moved."""
        return self._sync.updated_at

    @property
    def held(self) -> bool:
        """True if it must not be deleted: see `hold`. Tampered if the row is not what was written."""
        return self._sync.held

    @property
    def hold_reason(self) -> str | None:
        """Why it is held."""
        return self._sync.hold_reason

    @property
    def expires_at(self) -> datetime | None:
        """When its own retention ends: see `retain`. None if it has none of its own. Tampered as in `held`."""
        return self._sync.expires_at

    @property
    def trashed_at(self) -> datetime | None:
        """When it was put in the trash; None if it is not there. Tampered if the row is not what was written."""
        return self._sync.trashed_at

    @property
    def counters(self) -> Awaitable[Counters]:
        """Messages, turns, tokens and cost, as its head has them now."""
        return self._threads.run(lambda: self._sync.counters)

    @property
    def blobs(self) -> Blobs:
        """The attachments of its tree."""
        return Blobs(self._threads, self._sync.blobs)

    @property
    def log(self) -> Log:
        """Entries beside its messages: a transcript, an audit."""
        return Log(self._threads, self._sync.log)

    async def refresh(self) -> Session:
        """Reads it again. NotFound if it is gone."""
        return cast("Session", self._wrap(await self._threads.run(self._sync.refresh)))

    @overload
    async def append(
        self,
        messages: Said,
        *,
        id: str | None = None,
        created_at: datetime | None = None,
        expect_head: str | None = _UNSET,
        on_conflict: Literal["raise", "branch"] = "raise",
    ) -> Node: ...

    @overload
    async def append(
        self,
        messages: Sequence[Said],
        *,
        id: Sequence[str] | None = None,
        created_at: datetime | None = None,
        expect_head: str | None = _UNSET,
        on_conflict: Literal["raise", "branch"] = "raise",
    ) -> list[Node]: ...

    async def append(
        self,
        messages: Said | Sequence[Said],
        *,
        id: str | Sequence[str] | None = None,
        created_at: datetime | None = None,
        expect_head: str | None = _UNSET,
        on_conflict: Literal["raise", "branch"] = "raise",
    ) -> Node | list[Node]:
        """Adds a message, or several in one transaction, after whatever is last now. Durable when it returns.

        With `expect_head` only if that is the last message (None: if there is none): else Conflict, or with
        ``on_conflict="branch"`` the messages become a branch after it. An `id` makes the call safe to repeat: the same
        message under the same id is stored once.
        """
        return await self._threads.commit(
            self._sync.append, messages, id=id, created_at=created_at, expect_head=expect_head, on_conflict=on_conflict
        )

    async def path(self, *, last: int | None = None, until: str | None = None) -> list[Node]:
        """Its messages, root first: all, the `last` ones, or those up to and with `until`. NotFound without it."""
        return await self._threads.run(self._sync.path, last=last, until=until)

    def iter(self) -> AsyncIterator[Node]:
        """Its messages, root first, a few at a time: the memory used does not grow with the session."""
        return self._threads.stream(self._sync.iter)

    def history(self) -> AsyncIterator[Node]:
        """`iter`, and before it everything that compactions left behind."""
        return self._threads.stream(self._sync.history)

    def watch(self, *, after: str | None = _UNSET, timeout: float | None = None) -> Watch:
        """Its messages as they come, whoever appends them and on whatever machine: waits for each, and gives it once.

        From now on; or with `after` those after that message, with None from the first on. NotFound if it is not in
        the session's tree. When the head moves elsewhere, it goes on with what is new on the way there: a message whose
        `parent_id` is not the one before. What was taken back before it was given is not given. It ends when nothing
        has come for `timeout` seconds; NotFound once the session is deleted or in the trash, Closed with the store.
        """
        return Watch(self._threads, self._sync.watch(after=after, timeout=timeout))

    async def fork(self, *, at: str | None = None, title: str | None = None, id: str | None = None) -> Session:
        """A new session that shares everything up to `at`, or up to the last message. Nothing is copied."""
        return cast("Session", self._wrap(await self._threads.run(self._sync.fork, at=at, title=title, id=id)))

    async def rewind(self, to: str | None) -> Branch | None:
        """Goes back to a message, or with None to before the first. What is left stays, and is returned as a branch.

        NotFound if `to` is not among its messages.
        """
        return await self._threads.run(self._sync.rewind, to)

    async def branches(self) -> list[Branch]:
        """What it has left behind, oldest first."""
        return await self._threads.run(self._sync.branches)

    async def subagents(self) -> list[Session]:
        """The traces of its subagents, oldest first."""
        return cast("list[Session]", self._wrap(await self._threads.run(self._sync.subagents)))

    async def compact(self, messages: Said | Sequence[Said], *, expect_head: str | None = _UNSET) -> list[Node]:
        """Goes on from a summary: `messages` become a new root that stands for everything before.

        `path` begins there; `history` still has the rest, and the counters go on. Invalid if there is nothing yet.
        """
        return await self._threads.run(self._sync.compact, messages, expect_head=expect_head)

    async def rename(self, title: str | None) -> Session:
        """Gives it another title."""
        return cast("Session", self._wrap(await self._threads.run(self._sync.rename, title)))

    async def label(self, *add: str, remove: Sequence[str] = ()) -> Session:
        """Adds labels, and takes others away."""
        return cast("Session", self._wrap(await self._threads.run(self._sync.label, *add, remove=remove)))

    async def update(
        self, *, model: str | None = _UNSET, cwd: str | None = _UNSET, extra: dict[str, Any] | None = _UNSET
    ) -> Session:
        """Changes its model, its directory or its free data.

        `extra` replaces what was there, but for what `clew.records` keeps in it, and what `clew.chat` does unless it is
        given.
        """
        return cast(
            "Session", self._wrap(await self._threads.run(self._sync.update, model=model, cwd=cwd, extra=extra))
        )

    async def relocate(self, old: str, new: str) -> Session:
        """Follows a moved project: its directory, if it is in there, and its checkpoints. Both paths are absolute."""
        return cast("Session", self._wrap(await self._threads.run(self._sync.relocate, old, new)))

    async def attach(
        self, source: bytes | IO[bytes], *, mime_type: str, modality: Modality = "document", name: str | None = None
    ) -> Media:
        """Stores a file as a blob of this session, and returns the block that shows it in a message."""
        return await self._threads.run(self._sync.attach, source, mime_type=mime_type, modality=modality, name=name)

    async def hold(self, reason: str | None = None) -> Session:
        """Keeps it from being deleted or put in the trash, by whatever way, until `release`.

        The hold covers its branches, its subagents, its log, and every message that any of them has said. The session
        may still be talked in, renamed and labelled.
        """
        return cast("Session", self._wrap(await self._threads.run(self._sync.hold, reason)))

    async def release(self) -> Session:
        """Ends its hold."""
        return cast("Session", self._wrap(await self._threads.run(self._sync.release)))

    async def retain(self, *, days: int | None = None, until: datetime | None = None) -> Session:
        """Gives it a retention of its own: `days` after its last activity, or `until` a moment.

        That of a conversation record ends 7 to 180 days after its last activity. With neither, the store's policy
        counts again. Once it has expired it is not listed or picked by `latest`, and the next sweep purges it, unless
        it is held. Invalid for a trace that goes with its owner.
        """
        return cast("Session", self._wrap(await self._threads.run(self._sync.retain, days=days, until=until)))

    async def trash(self) -> Session:
        """Puts it in the trash with its branches and subagents: not found, listed or searched until it is restored.

        Messages that other sessions share stay with them. Conflict if it, its owner or a subagent's trace is held.
        """
        return cast("Session", self._wrap(await self._threads.run(self._sync.trash)))

    async def delete(self) -> Receipt:
        """Deletes it with its branches, log and subagents, and each message nobody else needs.

        The receipt says how much went and what is left; `Sessions.purge` clears that too. Conflict if it, its owner or
        a subagent's trace is held.
        """
        return await self._threads.run(self._sync.delete)


class Sessions(_Face):
    """The sessions of a store."""

    _sync: sessions.Sessions

    async def create(
        self,
        *,
        title: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        model: str | None = None,
        labels: Iterable[str] = (),
        extra: dict[str, Any] | None = None,
        id: str | None = None,
        agent: str | None = None,
        owner: Session | None = None,
        at: str | None = None,
    ) -> Session:
        """A new session, empty, or with `at` going on from any stored message. Conflict if the id is taken. NotFound.

        With `agent` it is the trace of a subagent: never picked by `latest`; with `owner` it goes when its owner goes.
        """
        return cast(
            "Session",
            self._wrap(
                await self._threads.run(
                    self._sync.create,
                    title=title,
                    cwd=cwd,
                    model=model,
                    labels=labels,
                    extra=extra,
                    id=id,
                    agent=agent,
                    owner=_bare(owner),
                    at=at,
                )
            ),
        )

    async def get(self, key: str) -> Session:
        """The session with this id or handle. NotFound, also if it is in the trash; Ambiguous."""
        return cast("Session", self._wrap(await self._threads.run(self._sync.get, key)))

    async def latest(self, cwd: str | os.PathLike[str] | None = None) -> Session:
        """The session that was last active, in exactly this directory if one is given; never a subagent's. NotFound."""
        return cast("Session", self._wrap(await self._threads.run(self._sync.latest, cwd)))

    async def list(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        label: str | None = None,
        title: str | None = None,
        include_expired: bool = False,
        subagents: bool = False,
        total: bool = False,
    ) -> Page:
        """Sessions, last active first; filtered by exact directory, by label, by words in the title.

        `cursor` is the `next_cursor` of the page before; it stays good when sessions change. With `subagents` the
        traces of subagents are listed instead. `total` counts all that the filters let through.
        """
        return cast(
            "Page",
            self._wrap(
                await self._threads.run(
                    self._sync.list,
                    limit=limit,
                    cursor=cursor,
                    cwd=cwd,
                    label=label,
                    title=title,
                    include_expired=include_expired,
                    subagents=subagents,
                    total=total,
                )
            ),
        )

    async def fork(
        self, source: Session | str, *, at: str | None = None, title: str | None = None, id: str | None = None
    ) -> Session:
        """A new session at a message of the source's tree, or at its last one. Nothing is copied.

        NotFound if there is no such message; Conflict if the id is taken.
        """
        return cast(
            "Session", self._wrap(await self._threads.run(self._sync.fork, _bare(source), at=at, title=title, id=id))
        )

    async def rename(self, key: str, title: str | None) -> Session:
        """Gives a session another title."""
        return cast("Session", self._wrap(await self._threads.run(self._sync.rename, key, title)))

    async def label(self, key: str, *add: str, remove: Iterable[str] = ()) -> Session:
        """Adds labels to a session, and takes others away."""
        return cast("Session", self._wrap(await self._threads.run(self._sync.label, key, *add, remove=remove)))

    async def delete(self, key: str) -> Receipt:
        """Deletes a session and every message that no other needs. Says how much went, and what is left. Conflict."""
        return await self._threads.run(self._sync.delete, key)

    async def hold(self, key: str, reason: str | None = None) -> Session:
        """Keeps a session from being deleted or put in the trash, by whatever way, until `release`."""
        return cast("Session", self._wrap(await self._threads.run(self._sync.hold, key, reason)))

    async def release(self, key: str) -> Session:
        """Ends a session's hold."""
        return cast("Session", self._wrap(await self._threads.run(self._sync.release, key)))

    async def retain(self, key: str, *, days: int | None = None, until: datetime | None = None) -> Session:
        """Gives a session a retention of its own: `days` after its last activity, or `until` a moment; or none."""
        return cast("Session", self._wrap(await self._threads.run(self._sync.retain, key, days=days, until=until)))

    async def trash(self, key: str) -> Session:
        """Puts a session in the trash, with all it owns; one that is there already stays there. Conflict if it is held.

        It is not found, listed, searched or talked in until `restore`; messages that others share stay with them.
        """
        return cast("Session", self._wrap(await self._threads.run(self._sync.trash, key)))

    async def trashed(self, *, limit: int = 50, cursor: str | None = None) -> Page:
        """What is in the trash, last put there first. What went with its owner comes back with it, and is not listed.

        These sessions can be read, and nothing else: `restore` first.
        """
        return cast("Page", self._wrap(await self._threads.run(self._sync.trashed, limit=limit, cursor=cursor)))

    async def restore(self, key: str) -> Session:
        """Brings a session back from the trash with all that went there with it, to its old place among the others.

        NotFound if it is not in the trash; Conflict if it is a subagent's and its owner is there.
        """
        return cast("Session", self._wrap(await self._threads.run(self._sync.restore, key)))

    async def purge(
        self,
        keys: str | Iterable[str] | None = None,
        *,
        trashed: bool = False,
        everything: bool = False,
        before: datetime | None = None,
        reason: Reason = "user-requested",
        dry_run: bool = False,
    ) -> Receipt:
        """Deletes sessions for good, in the trash or not, and clears every trace of them: rows, keys, index, files.

        Those with these ids or handles; or with `trashed` all that are in the trash, with `everything` all there are,
        of either only those that were last active, or put in the trash, `before` a moment. What other sessions share
        stays. One that is held is a failure in the receipt, and the others go; so is one whose own row is damaged,
        unless ``reason="corruption-detected"`` says that this is known. The receipt is kept in the store; with
        `dry_run` it only says what would be. NotFound, and nothing is purged, if there is no such session.
        """
        return await self._threads.run(
            self._sync.purge,
            keys,
            trashed=trashed,
            everything=everything,
            before=before,
            reason=reason,
            dry_run=dry_run,
        )

    async def receipts(self) -> Receipts:
        """What was purged and when, oldest first."""
        return await self._threads.run(self._sync.receipts)


class Nodes(_Face):
    """Messages by id. What is saved here belongs to no session, and goes only when `delete` says so."""

    _sync: nodes.Nodes

    async def save(self, messages: Said | Save | Sequence[Said | Save], *, parent: str | None = None) -> NodeList:
        """Stores messages in one transaction, each after the one before it, the first after `parent` or as a root.

        A `Save` may name another parent, and an id. What is stored already under its id is returned as it is; Conflict
        if the id has other content or another parent. NotFound if a parent is; nothing is stored then.
        """
        return await self._threads.commit(self._sync.save, messages, parent=parent)

    async def save_dialog(self, dialog: Sequence[Node | Said | Save]) -> NodeList:
        """Stores a dialog given from its root on: nodes that it begins with are verified, what follows is saved.

        Conflict if a node is not stored, or not after the one before it. One transaction.
        """
        return await self._threads.commit(self._sync.save_dialog, dialog)

    async def get(self, ids: str | Iterable[str]) -> NodeList:
        """The nodes with these ids or handles, in the order asked for. NotFound if one is missing."""
        return await self._threads.run(self._sync.get, ids)

    async def resolve(self, typed: str) -> str:
        """The id that a handle, or the beginning of one, means. NotFound, Ambiguous."""
        return await self._threads.run(self._sync.resolve, typed)

    async def handles(self, nodes: Iterable[str]) -> list[str]:
        """The handles of nodes given by id."""
        return await self._threads.run(self._sync.handles, nodes)

    async def list(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        offset: int = 0,
        ascending: bool = False,
        trashed: bool = True,
    ) -> NodePage:
        """Nodes in the order they were stored, newest first. A page begins at `cursor`, then passes over `offset`.

        These are all that are stored. With ``trashed=False`` those that only sessions in the trash have are left out,
        which takes a look at each tree.
        """
        return await self._threads.run(
            self._sync.list, limit=limit, cursor=cursor, offset=offset, ascending=ascending, trashed=trashed
        )

    async def path(self, id: str, *, last: int | None = None) -> NodeList:
        """From the root down to a node; with `last`, the last ones, still in order. Never what follows it. NotFound."""
        return await self._threads.run(self._sync.path, id, last=last)

    async def children(self, id: str) -> NodeList:
        """The messages that follow a node directly, in the order they were stored. NotFound."""
        return await self._threads.run(self._sync.children, id)

    async def subtree(self, id: str) -> NodeList:
        """A node and everything below it, each after its parent. NotFound."""
        return await self._threads.run(self._sync.subtree, id)

    async def delete(self, ids: str | Iterable[str], *, recursive: bool = False) -> Receipt:
        """Deletes nodes, all or none; unknown ids are passed over. The receipt says how many went, and what is left.

        Conflict if a node has children that are not deleted with it, or if a snapshot or a hold needs it. A session
        whose head goes is moved to the nearest message that stays, and loses a title that was made of their words.
        """
        return await self._threads.run(self._sync.delete, ids, recursive=recursive)


class Quarantine(_Face):
    """What was taken out of a store because it is damaged."""

    _sync: quarantine.Quarantine

    async def sweep(
        self, *, force: bool = False, strict: bool = False, dry_run: bool = False, progress: Progress | None = None
    ) -> Swept:
        """Reads every body, and puts each message whose body does not open in quarantine: all of them, or none.

        Conflict, and nothing is moved, if more than three bodies or more than one in a hundred are damaged, unless
        `force` says that this is known. An error while reading ends the sweep, and nothing is moved either. With
        `strict` the damaged bytes are not kept but purged at once, with a receipt; those that a hold covers are kept.
        With `dry_run` nothing is moved, and the answer says what would be.
        """
        return await self._threads.run(self._sync.sweep, force=force, strict=strict, dry_run=dry_run, progress=progress)

    async def list(self) -> QuarantinedList:
        """What is in quarantine, in the order of the store."""
        return await self._threads.run(self._sync.list)

    async def restore(self, node: str) -> Node:
        """Puts a message back, if what was kept of it opens now. Tampered, and nothing is changed, if it does not.

        It does once the row around it, and not the body itself, was what was damaged, and has been repaired.
        """
        return await self._threads.run(self._sync.restore, node)

    async def purge(
        self, nodes: str | Iterable[str] | None = None, *, everything: bool = False, dry_run: bool = False
    ) -> Receipt:
        """Destroys what was kept of messages: of these, or with `everything` of all that are in quarantine.

        The messages stay in the tree, and in quarantine, without their bytes. What a hold covers stays, and is a
        failure in the receipt. With `dry_run` nothing is changed, and the receipt says what would be. NotFound, and
        nothing is purged, if a message is not in quarantine.
        """
        return await self._threads.run(self._sync.purge, nodes, everything=everything, dry_run=dry_run)

    async def on_event(self, listener: Callable[[Event], object]) -> None:
        """Calls `listener` whenever messages are put in quarantine, brought back or purged through this store.

        It is called after the fact, on the thread that did it. What it raises reaches nobody.
        """
        return await self._threads.run(self._sync.on_event, listener)


class StoreBlobs(_Face):
    """The blobs of a store. Each belongs to a tree, named by a session (or its id or handle) or a message of it."""

    _sync: beside.StoreBlobs

    async def put(self, within: Session | Node | str, source: Source) -> Blob:
        """Stores bytes, a binary file, or pieces of bytes, as a stream. Content the tree has is not stored twice."""
        return await self._threads.run(self._sync.put, _bare(within), source)

    async def get(self, within: Session | Node | str, digest: str) -> bytes:
        """The whole content. NotFound; Tampered if it is not what was stored."""
        return await self._threads.run(self._sync.get, _bare(within), digest)

    def open(self, within: Session | Node | str, digest: str) -> AsyncIterator[bytes]:
        """The content in pieces; no transaction is held between them. NotFound at once; Tampered where it is."""
        return self._threads.stream(self._sync.open, _bare(within), digest)

    async def stat(self, within: Session | Node | str, digest: str) -> Blob:
        """Address and size of a blob. NotFound."""
        return await self._threads.run(self._sync.stat, _bare(within), digest)

    async def sweep(self, *, older: timedelta | None = None, dry_run: bool = False) -> Cleared:
        """Removes objects from object storage that nothing in the store needs, and counts them.

        What the store knows to be unneeded goes by itself, sooner or later. This also finds what it has never heard of,
        or began and did not finish, if it is `older`, by default than a week: what was put by a store that was lost, or
        replaced by an older copy. So it is not for a copy that is used beside the original, with the same bucket and
        prefix.
        """
        return await self._threads.run(self._sync.sweep, older=older, dry_run=dry_run)


class StoreLog(_Face):
    """The logs of a store. Each belongs to a session, named by itself, its id or its handle."""

    _sync: beside.StoreLog

    async def append(
        self, owner: Session | str, data: bytes | Sequence[bytes], *, id: str | Sequence[str] | None = None
    ) -> list[Entry]:
        """Adds entries, all or none, durable when this returns. The same id and bytes again change nothing."""
        return await self._threads.commit(self._sync.append, _bare(owner), data, id=id)

    def read(self, owner: Session | str, start: int = 0, stop: int | None = None) -> AsyncIterator[Entry]:
        """Entries from number `start` up to and without `stop`, in order; no transaction is held between pages."""
        return self._threads.stream(self._sync.read, _bare(owner), start, stop)

    async def count(self, owner: Session | str) -> int:
        """How many entries there are."""
        return await self._threads.run(self._sync.count, _bare(owner))


class Audit(_Face):
    """The audit of a store."""

    _sync: audit.Audit

    async def record(
        self, kind: str, subject: str, actor: str | None = None, *, reason: str | None = None, amount: int = 1
    ) -> None:
        """Notes a deed of your own, durable when this returns. Invalid if it does not look free of content.

        `kind` and `reason` are words of small letters, `subject` an id or a name without blanks; `actor` is the one the
        store was opened for, unless another is named.
        """
        return await self._threads.run(self._sync.record, kind, subject, actor, reason=reason, amount=amount)

    def read(
        self, *, since: datetime | None = None, until: datetime | None = None, kind: str | None = None
    ) -> AsyncIterator[Deed]:
        """What was done, oldest first: from `since` up to and without `until`, of one kind or of all."""
        return self._threads.stream(self._sync.read, since=since, until=until, kind=kind)

    def jsonl(
        self, *, since: datetime | None = None, until: datetime | None = None, kind: str | None = None
    ) -> AsyncIterator[str]:
        """What `read` gives, each as one line of JSON, to be kept elsewhere."""
        return self._threads.stream(self._sync.jsonl, since=since, until=until, kind=kind)


class Snapshots(_Face):
    """The snapshots of a store. A `SnapshotStore`; what snapshots, and sessions, have in common is stored once."""

    _sync: stored.Snapshots

    async def save(self, snapshot: Snapshot) -> None:
        """Keeps a snapshot, in place of the one with the same id if there is one. Durable when it returns.

        Of a client's messages only those are stored that came since the last time.
        """
        return await self._threads.run(self._sync.save, snapshot)

    async def load(self, id: str) -> Snapshot:
        """The snapshot. Its messages are read when they are first asked for. NotFound; Tampered."""
        return await self._threads.run(self._sync.load, id)

    async def list(self) -> Summaries:
        """All there are, newest first. Tampered if one is not what was saved."""
        return await self._threads.run(self._sync.list)

    async def delete(self, id: str) -> Receipt:
        """Deletes a snapshot, and each message that nothing else needs. NotFound.

        Traces are left in the files until they are overwritten, and the receipt says so; `purge` clears them.
        """
        return await self._threads.run(self._sync.delete, id)

    async def purge(self, id: str, *, reason: Reason = "user-requested") -> Receipt:
        """Deletes a snapshot for good, and clears every trace of it: rows, keys, index, files. NotFound.

        What sessions or other snapshots share stays, and the receipt names them.
        """
        return await self._threads.run(self._sync.purge, id, reason=reason)

    async def take(
        self,
        session: Session | str,
        *,
        model: str | None = None,
        system_prompt: str | None = None,
        tools: Iterable[ToolSnapshot] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Snapshot:
        """A snapshot of a session as it is now. Its provider is that of the session's messages.

        Messages are copied only after a compaction or a conversion: a snapshot keeps nothing that it does not show.
        The system prompt and the tools are those of the session, unless they are given: restored into a client, the
        snapshot sends what the session would. Messages in neutral form make a snapshot of the provider ``clew``.
        Invalid if they are of several providers: `clew.convert.convert_session` makes a session of one.
        """
        return await self._threads.run(
            self._sync.take, _bare(session), model=model, system_prompt=system_prompt, tools=tools, metadata=metadata
        )

    async def resume(self, id: str, *, title: str | None = None) -> Session:
        """A new session that continues from a snapshot, with its system prompt and tools. NotFound.

        The system prompt is the first message of the session. No message is copied, unless `take` was given a system
        prompt that is not the session's own.
        """
        return cast("Session", self._wrap(await self._threads.run(self._sync.resume, id, title=title)))


class Store(_Face):
    """Where conversations are kept. Threads may share it; a process made by fork must open its own."""

    _sync: store.Store

    @property
    def path(self) -> str:
        """The file it is in, or the server and the schema, without a password."""
        return self._sync.path

    @property
    def sessions(self) -> Sessions:
        """Its conversations."""
        return Sessions(self._threads, self._sync.sessions)

    @property
    def nodes(self) -> Nodes:
        """Its messages, as a tree."""
        return Nodes(self._threads, self._sync.nodes)

    @property
    def blobs(self) -> StoreBlobs:
        """Attachments, images, files: of any session."""
        return StoreBlobs(self._threads, self._sync.blobs)

    @property
    def log(self) -> StoreLog:
        """Entries beside the messages: of any session."""
        return StoreLog(self._threads, self._sync.log)

    @property
    def snapshots(self) -> Snapshots:
        """Conversations with a provider, saved whole, to be restored elsewhere."""
        return Snapshots(self._threads, self._sync.snapshots)

    @property
    def quarantine(self) -> Quarantine:
        """What was taken out because it is damaged."""
        return Quarantine(self._threads, self._sync.quarantine)

    @property
    def audit(self) -> Audit:
        """Who did what and when, without a word of what was said."""
        return Audit(self._threads, self._sync.audit)

    async def search(
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
        return cast(
            "list[Hit]",
            self._wrap(
                await self._threads.run(
                    self._sync.search,
                    query,
                    limit=limit,
                    session=_bare(session),
                    role=role,
                    since=since,
                    until=until,
                    mode=mode,
                    progress=progress,
                )
            ),
        )

    async def verify(self, *, since: str | None = None, progress: Progress | None = None) -> Report:
        """Reads everything and checks it: bodies, tree, refs, blobs, log, search index. Names what is damaged.

        It writes nothing, and others may go on writing. With `since`, a `head` that was kept elsewhere, it also reports
        that the store was rolled back to an earlier copy. Invalid if that is not a head.
        """
        return await self._threads.run(self._sync.verify, since=since, progress=progress)

    async def head(self) -> str:
        """A short text that says how far the store has come, without content: keep it elsewhere, for `verify`."""
        return await self._threads.run(self._sync.head)

    async def backup(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> Backup:
        """Copies the store as it is now into a new file, while others go on writing. Conflict if the file exists."""
        return await self._threads.run(self._sync.backup, path, progress=progress)

    async def seal(self, key: Key, *, progress: Progress | None = None) -> Status:
        """Gives a plain store a key: everything in it is encrypted, in place, while others who have the key go on.

        Cut short, it goes on where it was when it is asked again. Invalid if the store is sealed already. What is
        returned says `unclean` if readable traces are left in the files because somebody is reading: they are cleared
        by a later write, by the close, or by whoever opens the store next.
        """
        return await self._threads.run(self._sync.seal, key, progress=progress)

    async def unseal(self, *, progress: Progress | None = None) -> Status:
        """Makes a sealed store a plain one again. Cut short, it goes on where it was when it is asked again."""
        return await self._threads.run(self._sync.unseal, progress=progress)

    async def rotate(self, key: Key, *, deep: bool = False, progress: Progress | None = None) -> Status:
        """Exchanges the store's key for another, while others go on; they keep the old one until they open it again.

        The data keys are wrapped anew, which is fast; with `deep` there are new ones, and everything is encrypted
        again. Cut short, it goes on where it was when it is asked again, with either key. The old key is retired when
        everything was read and found sound: if something is damaged, Tampered, and both keys stay good.
        """
        return await self._threads.run(self._sync.rotate, key, deep=deep, progress=progress)

    async def key_status(self) -> Status:
        """How the store is kept, by which keys, how far an exchange has come, and whether traces are left."""
        return await self._threads.run(self._sync.key_status)

    async def recovery_key(self) -> str:
        """The store's key, also one from a passphrase, as letters to be printed: see `clew.keys.recovery`. Invalid."""
        return await self._threads.run(self._sync.recovery_key)

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Makes several steps of this task one: all are kept, or none. Other writers wait meanwhile: keep it short."""
        return self._threads.transaction()

    async def close(self) -> None:
        """Finishes what is waiting, and lets go of the files. Idempotent; the store raises Closed afterwards."""
        await self._threads.close()
        await self._threads.run(self._sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
