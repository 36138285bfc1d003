"""Changes to a session: fields, hold, retention, trash and purge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, Self

import msgspec

from clew.backends import RefRow, Tx
from clew.base.loading import loading
from clew.base.messages import RECORD, SETUP, Media, Modality
from clew.engine.engine import OwnError
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
"""Keys in free data that are reserved for clew."""


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

        `extra` replaces the free data, except the entry of `clew.records`, and that of `clew.chat` unless given.
        """
        given = {
            name: value for name, value in (("model", model), ("cwd", cwd), ("extra", extra)) if value is not UNSET
        }
        if cwd is not UNSET:
            given["cwd"] = directory(cwd)

        def change(data: SessionData) -> SessionData:
            if isinstance(extra, dict | None):
                stored = data.extra or {}
                setup, record = ({name: stored[name]} if name in stored else {} for name in _OWN)
                given["extra"] = {**setup, **(extra or {}), **record} or extra
            return msgspec.structs.replace(data, **given)

        return self._change(change)

    def relocate(self, old: str, new: str) -> Self:
        """Updates its directory and checkpoints after a project moved from `old` to `new`. Both paths are absolute."""
        return self._change(lambda data: relocated(data, old, new))

    def attach(
        self, source: bytes | IO[bytes], *, mime_type: str, modality: Modality = "document", name: str | None = None
    ) -> Media:
        """Stores a file as a blob of this session. Returns the block to put into a message."""
        blob: Blob = self.blobs.put(source)
        return Media(mime_type=mime_type, modality=modality, blob=blob.digest, name=name)

    # -- hold, retention, trash, purge

    def hold(self, reason: str | None = None) -> Self:
        """Prevents every kind of deletion, including the trash, until `release`.

        The hold covers its branches, its subagents, its log, and all their messages. The session can still be
        continued, renamed and labelled.
        """
        return self._change(
            lambda data: data if reason is None else msgspec.structs.replace(data, hold_reason=reason), "hold", hold=1
        )

    def release(self) -> Self:
        """Ends its hold."""
        return self._change(lambda data: msgspec.structs.replace(data, hold_reason=None), "release", hold=0)

    def retain(self, *, days: int | None = None, until: datetime | None = None) -> Self:
        """Sets its own retention: `days` after its last activity, or `until` a time. With neither, the store's policy
        applies again.

        An expired session is not listed or returned by `latest`, and the next sweep purges it unless it is held. The
        retention of a conversation record must end 7 to 180 days after its last activity. Invalid for a trace with an
        owner: it is deleted with the owner.
        """
        if days is not None and until is not None:
            raise Invalid("retain takes days or until, not both", hint="Pass one of them.")
        if self._row.owner is not None:
            raise Invalid(
                "a subagent's trace has the retention of its owner", hint="Set the retention of the owner instead."
            )
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
        """Moves it to the trash with its branches and subagents. It cannot be found, listed or searched until restored.

        Messages shared with other sessions stay. Conflict if it, its owner or a subagent's trace is held.
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

        return self._update_row(self._engine.write(work))

    def purge(
        self,
        *,
        reason: Reason = "user-requested",
        dry_run: bool = False,
        check: Callable[[Self], object] | None = None,
    ) -> Receipt:
        """Deletes it permanently, in the trash or not, and clears every trace of it. See `Sessions.purge`.

        Messages shared with other sessions stay. If it is held, nothing is deleted and the receipt names the failure.
        With `dry_run` nothing changes, and the receipt lists what would be deleted. `check`
        raises if it may not be deleted: it gets the session as it is in the transaction that deletes it, and what it
        reads is read there. If it raises a ClewError, that is a failure in the receipt. NotFound if it does not exist.
        """
        row = self._row
        now = self._parts.table.get(row.kind, row.key)
        if now is None or now.ref != row.ref:
            raise NotFound("session", self.id)
        if check is None:
            return self._parts.purger.purge([row], reason=reason, dry_run=dry_run)

        def confirm(tx: Tx, now: RefRow) -> None:
            self._engine.run_in(tx, lambda: check(type(self)(self._parts, now)))

        try:
            return self._parts.purger.purge([row], reason=reason, dry_run=dry_run, check=confirm)
        except OwnError as own:
            raise own.error from own.error.__cause__

    def _change(
        self, change: Callable[[SessionData], SessionData], event: str | None = None, **columns: int | None
    ) -> Self:
        table = self._parts.table

        def work(tx: Tx) -> RefRow:
            row = self._refs.get(tx, self._row.kind, self._row.key)
            row = table.change(tx, row, change(table.data(row)), **columns)
            if event is not None:
                with loading:
                    from clew.engine import audit

                audit.note(self._engine, self._refs, tx, event, self.id)
            return row

        return self._update_row(self._engine.write(work))
