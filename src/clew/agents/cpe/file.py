"""A ``.cpeconvo`` file that is changed in place, with CPE's own ids."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from clew.agents.cpe.reader import WAIT, open_database
from clew.agents.cpe.writer import MessageRows, free_id, insert, random_ids
from clew.engine.node import Node
from clew.errors import Conflict, NotFound
from clew.store.session import Session


class CpeFile:
    """Writes to a file that CPE may use at the same time: each call is one transaction, and durable on return.

    A call waits up to `timeout` seconds for another writer. It raises NotFound and Invalid if there is no CPE file at
    `path`, Unavailable, ReadOnly or StorageFull if it cannot be written; then nothing has changed.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, timeout: float = WAIT, ids: Callable[[], Iterator[str]] = random_ids
    ) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._timeout = timeout
        self._new_ids = ids

    def save(self, session: Session, nodes: Sequence[Node], *, parent: str | None = None) -> list[str | None]:
        """Appends messages of a session, each after the one before it, the first after `parent` or as a root.

        Returns for each the id that the next one follows; None for system messages, which CPE does not have. NotFound
        if the parent is missing; Conflict if no free id is found.
        """
        rows, above, ids = MessageRows(session.blobs), parent, list[str | None]()
        with self._transaction() as conn:
            if parent is not None and not _children(conn, "id", parent):
                raise NotFound("message", parent, hint=f"It was deleted from {self.path}.")
            for node in nodes:
                message = node.message
                for number, part in enumerate(rows.parts(message)):
                    id = free_id(conn, self._new_ids())
                    title = message.label if number == 0 else None
                    insert(conn, id, above, title, part, node.created_at + timedelta(microseconds=number))
                    above = id
                ids.append(above if message.role != "system" else None)
        return ids

    def delete(self, ids: str | Iterable[str], *, recursive: bool = False, dry_run: bool = False) -> int:
        """Deletes messages, all or none, and returns how many; ignores unknown ids.

        Conflict if a message has children, unless `recursive`, which deletes everything below it too.
        """
        with self._transaction(dry_run=dry_run) as conn:
            found = dict.fromkeys([ids] if isinstance(ids, str) else ids)
            order = [id for id in found if _children(conn, "id", id)]
            for id in order:  # grows meanwhile
                below = [child for child in _children(conn, "parent_id", id) if child not in found]
                if below and not recursive:
                    raise Conflict(f"message {id} has children", hint="Delete recursively.")
                found.update(dict.fromkeys(below))
                order += below
            each = [[id] for id in order]
            # Without parents, they can be deleted in any order; SQLite still refuses one that others follow.
            conn.executemany("UPDATE messages SET parent_id = NULL WHERE id = ?", each)
            conn.executemany("DELETE FROM blocks WHERE message_id = ?", each)  # files without foreign keys exist
            conn.executemany("DELETE FROM messages WHERE id = ?", each)
            return len(order)

    @contextmanager
    def _transaction(self, *, dry_run: bool = False) -> Iterator[sqlite3.Connection]:
        with open_database(self.path, timeout=self._timeout, write=True) as conn:
            conn.execute("BEGIN IMMEDIATE")
            try:
                yield conn
            except BaseException:
                conn.execute("ROLLBACK")
                raise
            conn.execute("ROLLBACK" if dry_run else "COMMIT")


def _children(conn: sqlite3.Connection, column: str, id: str) -> list[str]:
    return [found for (found,) in conn.execute(f"SELECT id FROM messages WHERE {column} = ?", [id])]
