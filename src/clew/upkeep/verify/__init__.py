"""`verify`: runs every check of this folder, and reports damage. It cannot write."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from clew.backends.problems import BROKEN, Damage, describe
from clew.engine.engine import Engine
from clew.errors import ClewError
from clew.upkeep.verify.attachments import check_blobs, check_log, check_objects, check_uses
from clew.upkeep.verify.findings import LIMIT, Findings, Progress, Report
from clew.upkeep.verify.header import check_epoch, check_header
from clew.upkeep.verify.refs import check_refs
from clew.upkeep.verify.rollback import check_since, parse, read_head, text
from clew.upkeep.verify.tree import check_forgotten, check_nodes, check_quarantine, check_runs, check_trees

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
        return text(read_head(Findings(engine, reader)))


def verify(
    engine: Engine, *, since: str | None = None, progress: Progress | None = None, checks: Iterable[Check] = ()
) -> Report:
    """Reads the whole store in one snapshot, and reports everything that differs from what was written.

    Damage is reported, never raised, and the checks continue with whatever can be read. `progress` is called with the
    number of rows read and the total. `checks` run after the store's own. Invalid if `since` is not a head.
    """
    kept = None if since is None else parse(since)
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
