"""Reading everything, and naming what is damaged. Nothing is written: the connection itself cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from clew.backends.sqlite import SQLiteBackend
from clew.damage import Damage
from clew.engine import Engine
from clew.errors import ClewError
from clew.verify.beside import check_blobs, check_log, check_objects, check_uses
from clew.verify.file import check_epoch, check_file, check_numbers, check_schema
from clew.verify.findings import BROKEN, LIMIT, Findings, Progress, Report, why
from clew.verify.head import check_since, parse, read_head, text
from clew.verify.header import check_header
from clew.verify.refs import check_refs
from clew.verify.server import check_sequences, check_server_epoch, check_tables
from clew.verify.tree import check_forgotten, check_nodes, check_quarantine, check_runs, check_trees
from clew.verify.wal import check_wal

__all__ = ["LIMIT", "Check", "Damage", "Progress", "Report", "head", "verify"]

Check = Callable[[], Iterable[Damage]]
"""Looks at something beside the store's own file, and returns what is wrong with it."""

_COUNTED = ("trees", "runs", "nodes", "refs", "log", "blobs", "chunks", "uses", "quarantine")
_FILE = (check_file, check_wal, check_schema, check_epoch, check_numbers)
_SERVER = (check_tables, check_server_epoch, check_sequences)
_CHECKS = (
    check_header, check_trees, check_runs, check_nodes, check_quarantine, check_forgotten, check_refs, check_log,
    check_blobs, check_uses, check_objects,
)  # fmt: skip


def head(engine: Engine) -> str:
    """What to keep elsewhere, so that `verify` tells later that a store was rolled back: see `clew.verify.head`."""
    backend: Any = engine.backend
    with backend.reader() as conn:
        return text(read_head(Findings(engine, conn)))


def verify(
    engine: Engine, *, since: str | None = None, progress: Progress | None = None, checks: Iterable[Check] = ()
) -> Report:
    """Reads the whole store as it is at one moment, and reports everything that is not as it was written.

    Damage is reported, never raised; whatever can still be read is checked. `progress` is called with the rows read and
    the rows there are. `checks` look at what lies beside the file. Invalid if `since` is not a head.
    """
    kept = None if since is None else parse(since)
    backend: Any = engine.backend
    with backend.reader() as reader:
        found = Findings(engine, reader, progress)
        found.expect(_rows(found))
        compare = () if kept is None else (partial(check_since, head=kept),)
        for check in (*(_FILE if isinstance(backend, SQLiteBackend) else _SERVER), *compare, *_CHECKS):
            try:
                check(found)
            except BROKEN as error:
                name = "head" if isinstance(check, partial) else check.__name__.replace("check_", "")
                found.add("file", name, why(error))
        for look in checks:
            try:
                for damage in look():
                    found.take(damage)
            except (*BROKEN, ClewError) as error:
                found.add("file", "what lies beside the store", why(error))
    return found.report()


def _rows(found: Findings) -> int:
    total = 0
    for name in _COUNTED:
        try:
            total += found.one(f"SELECT count(*) FROM {name}")[0]
        except BROKEN:
            continue  # the check of the table says what is wrong with it
    return total
