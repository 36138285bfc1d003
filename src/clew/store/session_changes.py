"""Changes to a session: its fields, its hold and retention, the trash and the purge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, Self

import msgspec

from clew.backends import RefRow, Tx
from clew.base.loading import loading
from clew.base.messages import RECORD, SETUP, Media, Modality
from clew.engine.node import microseconds
from clew.engine.session_data import (
    DAY,
    SessionData,
    directory,
    is_record,
    label_set,
    record_end,
    relocated,
    retention_days,
)
from clew.errors import Invalid, NotFound
from clew.store.session_fields import SessionFields

if TYPE_CHECKING:
    from clew.engine.blobs import Blob
    from clew.engine.receipts import Reason, Receipt

UNSET: Any = object()
"""The default of an argument for which None has a meaning."""
_OWN = (SETUP, RECORD)
"""Keys in free data that clew itself uses."""


class SessionChanges(SessionFields):
    """Methods that change a session."""

    __slots__ = ()

    def rename(self, title: str | None) -> Self:
        """Changes its title."""
        return self._change(lambda data: msgspec.structs.replace(data, title=title))

    def label(self, *add: str, remove: Sequence[str] = ()) -> Self:
        """Adds labels, and removes others."""
        return self._change(
            lambda data: msgspec.structs.replace(
                data, labels=label_set({*data.labels, *label_set(add)} - {*label_set(remove)})
            )
        )

    def update(
        self, *, model: str | None = UNSET, cwd: str | None = UNSET, extra: dict[str, Any] | None = UNSET
    ) -> Self:
        """Changes its model, its directory or its free data.

        `extra` replaces what was there, but for what `clew.records` keeps in it, and what `clew.chat` does unless it is
        given.
        """
        given = {
            name: value for name, value in (("model", model), ("cwd", cwd), ("extra", extra)) if value is not UNSET
        }
        if cwd is not UNSET:
            given["cwd"] = directory(cwd)

        def change(data: SessionData) -> SessionData:
            if isinstance(extra, dict | None):
                setup, record = ({name: had for name, had in (data.extra or {}).items() if name == own} for own in _OWN)
                given["extra"] = {**setup, **(extra or {}), **record} or extra
            return msgspec.structs.replace(data, **given)

        return self._change(change)

    def relocate(self, old: str, new: str) -> Self:
        """Updates its directory and checkpoints after a project moved from `old` to `new`. Both paths are absolute."""
        return self._change(lambda data: relocated(data, old, new))

    def attach(
        self, source: bytes | IO[bytes], *, mime_type: str, modality: Modality = "document", name: str | None = None
    ) -> Media:
        """Stores a file as a blob of this session, and returns the block that shows it in a message."""
        blob: Blob = self.blobs.put(source)
        return Media(mime_type=mime_type, modality=modality, blob=blob.digest, name=name)

    # -- hold, retention, trash, purge

    def hold(self, reason: str | None = None) -> Self:
        """Prevents every kind of deletion, and the trash, until `release`.

        The hold covers its branches, its subagents, its log, and every message that any of them has said. The session
        may still be talked in, renamed and labelled.
        """
        return self._change(
            lambda data: data if reason is None else msgspec.structs.replace(data, hold_reason=reason), "hold", hold=1
        )

    def release(self) -> Self:
        """Ends its hold."""
        return self._change(lambda data: msgspec.structs.replace(data, hold_reason=None), "release", hold=0)

    def retain(self, *, days: int | None = None, until: datetime | None = None) -> Self:
        """Gives it a retention of its own: `days` after its last activity, or `until` a moment.

        That of a conversation record ends 7 to 180 days after its last activity. With neither, the store's policy
        counts again. Once it has expired it is not listed or picked by `latest`, and the next sweep purges it, unless
        it is held. Invalid for a trace that goes with its owner.
        """
        if days is not None and until is not None:
            raise Invalid("a retention is a number of days or a moment", hint="Give one.")
        if self._row.owner is not None:
            raise Invalid("a trace goes with the session that owns it", hint="Give that one a retention.")
        at = None
        if days is not None:
            at = -retention_days(days) * DAY
        elif until is not None:
            at = max(0, microseconds(until))

        def check(data: SessionData) -> SessionData:
            if is_record(data) and at is not None:
                record_end(self._row.active_at, self._row.active_at - at if at < 0 else at)
            return data

        return self._change(check, "retain", expires_at=at)

    def trash(self) -> Self:
        """Puts it in the trash with its branches and subagents: not found, listed or searched until it is restored.

        Messages that other sessions share stay with them. Conflict if it, its owner or a subagent's trace is held.
        """
        with loading:
            from clew.engine import audit, trash

        row = self._row

        def work(tx: Tx) -> RefRow:
            now = self._refs.get(tx, row.kind, row.key, trashed=True)
            if now.trashed_at is not None:
                return now
            audit.note_if_enabled(self._engine, self._refs, tx, "trash", self.id)
            return trash.put(self._engine, self._refs, tx, now)

        return self._saw(self._engine.write(work))

    def purge(self, *, reason: Reason = "user-requested", dry_run: bool = False) -> Receipt:
        """Deletes it for good, in the trash or not, and clears every trace of it. See `Sessions.purge`.

        Messages that other sessions share stay. If it is held, the receipt names the failure and nothing is deleted.
        With `dry_run` nothing changes, and the receipt says what would be deleted. NotFound if it does not exist.
        """
        row = self._row
        if self._parts.table.get(row.kind, row.key) is None:
            raise NotFound("session", self.id)
        return self._parts.purger.purge([row], reason=reason, dry_run=dry_run)

    def _change(
        self, change: Callable[[SessionData], SessionData], deed: str | None = None, **columns: int | None
    ) -> Self:
        table = self._parts.table

        def work(tx: Tx) -> RefRow:
            row = self._refs.get(tx, self._row.kind, self._row.key)
            payload, look, labelled = table.pack(change(table.data(row)))
            row = self._refs.change(tx, row, payload, look=look, **columns)
            tx.set_labels(row.ref, labelled)
            if deed is not None:
                with loading:
                    from clew.engine import audit

                audit.note(self._engine, self._refs, tx, deed, self.id)
            return row

        return self._saw(self._engine.write(work))
