"""Records a client as a snapshot: after each answer, and when the program ends."""

from __future__ import annotations

import atexit
import inspect
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from clew.chat.recording.clients import Arguments, record
from clew.errors import ClewError, Invalid
from clew.snapshots import Snapshot, validate_snapshot_id


class HasSave(Protocol):
    """A client that can be saved."""

    def save(self) -> Snapshot:
        """A snapshot of the conversation."""


class SavesSnapshots(Protocol):
    """A `SnapshotStore`, or one whose methods are awaited."""

    def save(self, snapshot: Snapshot) -> Awaitable[None] | None:
        """Stores a snapshot."""


C = TypeVar("C", bound=HasSave)


def autosave(client: C, store: SavesSnapshots, *, every: int = 1, id: str | None = None) -> C:
    """Returns a client that saves to `store` after each answer, or each `every` answers, and at the end of the program.

    Use it in place of the client. It saves an answer before it returns it, so a killed program loses none. The
    conversation has one snapshot, with the client's id or with `id`, which each save replaces. As a context manager it
    also saves at the end of the block. If a save fails, it raises the error; the answer stays in the conversation, and
    the next save includes it. An async client is saved in a thread, or with an async store; with the latter, only the
    end of the block saves outstanding answers, not the end of the program.
    """
    if not callable(getattr(client, "save", None)):
        raise Invalid(f"a {type(client).__name__} cannot be saved", hint="Use a client that has save and restore.")
    if not callable(getattr(store, "save", None)):
        hint = "Use a FileStore, an ObjectStore, or the snapshots of a store."
        raise Invalid(f"a {type(store).__name__} cannot store snapshots", hint=hint)
    if not isinstance(every, int) or every < 1:
        raise Invalid("every must be a whole number greater than 0")
    if id is not None:
        validate_snapshot_id(id)
    return record(client, SnapshotRecorder(client, store, every, id))  # type: ignore[no-any-return]


class SnapshotRecorder:
    """Saves a client to a store of snapshots, and counts unsaved answers."""

    chats_by_stream = False

    def __init__(self, client: HasSave, store: SavesSnapshots, every: int, id: str | None) -> None:
        self._client = client
        self._store = store
        self._every = every
        self._fixed_id = id
        self._id: str | None = None
        self._mints: bool | None = None
        """True if the client makes a new id at each save."""
        self._unsaved = 0
        """The number of unsaved answers."""

    def begin(self, arguments: Arguments) -> Arguments:
        """Nothing is saved before the answer."""
        return arguments

    def is_step(self, event: object) -> bool:
        """True for the last event of a stream, if the client has it as its `reply`."""
        return event is not None and event is getattr(self._client, "reply", None)

    is_last = is_step

    def keep(self) -> None:
        """Counts an answer, and saves after every `every` of them."""
        if self._unsaved == 0:
            atexit.register(self._at_exit)
        self._unsaved += 1
        if self._unsaved >= self._every:
            self._save()

    def keep_after_error(self) -> None:
        """Saves what arrived before the error. Suppresses errors of saving: the caller gets the first error."""
        with suppress(ClewError):
            self.keep()

    def keep_partial(self, pieces: Sequence[object]) -> None:
        """Does nothing with the pieces: the client has them in its conversation."""
        self.keep_after_error()

    def finish(self, pieces: Sequence[object]) -> None:
        """Saves, as after each answer: not every client ends a stream with its `reply`."""
        self.keep()

    def follow(self, snapshot: Snapshot) -> None:
        """Uses the id of the restored snapshot from now on."""
        self._id = snapshot.id

    def close(self) -> None:
        """Saves answers that are not saved yet."""
        if self._unsaved:
            self._save()

    def _save(self) -> None:
        snapshot = self._client.save()
        id = self._fixed_id or self._snapshot_id(snapshot)
        snapshot = snapshot if snapshot.id == id else snapshot.replace(id=id)
        if inspect.iscoroutinefunction(self._store.save):
            _await_in_loop(self._store.save, snapshot)
        else:
            self._store.save(snapshot)
        self._unsaved = 0
        atexit.unregister(self._at_exit)

    def _snapshot_id(self, snapshot: Snapshot) -> str:
        """The snapshot with the id of the conversation, so that each save replaces the one before."""
        if self._mints is None:
            self._mints = self._client.save().id != snapshot.id
        self._id = self._id or snapshot.id
        return self._id if self._mints else snapshot.id

    def _at_exit(self) -> None:
        with suppress(ClewError):  # the store may be closed by now
            self._save()


def _await_in_loop(save: Any, snapshot: Snapshot) -> None:
    """Awaits a save in the event loop of the calling worker thread. Invalid if there is none."""
    from anyio import from_thread

    try:
        from_thread.check_cancelled()
    except RuntimeError:
        raise Invalid("an async store can save only async clients", hint="Pass the sync store.") from None
    from_thread.run(save, snapshot)
