"""Checks refs: signature, data, head, and the lookup hashes of their data."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from clew.backends import RefRow
from clew.backends.tables import REFS
from clew.base import ids
from clew.engine import refs
from clew.engine.sealing.envelope import ref_context, ref_fields, ref_owner
from clew.engine.session_data import SessionData
from clew.upkeep.verify.findings import Findings, place
from clew.upkeep.verify.tree import CHECKSUM, ODD

_HEAD = "SELECT n.id, u.tree FROM nodes n LEFT JOIN runs u ON u.run = n.pos >> 24 WHERE n.pos = ?"
_SESSIONS, _CHECKPOINT = ("session", "subagent"), "checkpoint"
_session = msgspec.json.Decoder(SessionData).decode
_any = msgspec.json.Decoder().decode


def check_refs(found: Findings) -> None:
    """Checks every ref with its labels, and that every label has a ref."""
    sessions = 0
    for number, row in found.scan(REFS):
        if row is None:
            continue
        ref = RefRow._make(row)
        sessions += ref.kind == "session"
        try:
            problems = list(_problems(found, ref))
        except ODD as error:
            problems = [(f"it cannot be checked ({type(error).__name__})", None)]
        name = ids.text(ref.key) if len(ref.key) == 16 else str(number)
        for problem, pos in problems:
            found.add(ref.kind if ref.kind.isidentifier() else "ref", name, problem, pos=pos, ref=number)
    found.counts["sessions"] = sessions
    orphans = "SELECT DISTINCT ref FROM labels WHERE ref NOT IN (SELECT ref FROM refs) LIMIT 100"
    for (number,) in found.reader.execute(orphans).fetchall():
        found.add("label", f"labels of ref {number}", "there is no such ref")


def _problems(found: Findings, ref: RefRow) -> Iterator[tuple[str, int | None]]:
    """Problems, each with the position it concerns, if there is one."""
    if not found.engine.seal.is_signed(ref_fields(ref), ref.wrapped_key, ref.mac):
        yield CHECKSUM, None
    yield from _data_problems(found, ref)
    if not ref.hold and refs.is_hold_listed(found.engine, found.tx, ref):
        yield "its row says that it is not held, but it is", None
    if ref.owner is not None and found.one("SELECT 1 FROM refs WHERE ref = ? AND ref != ?", ref.owner, ref.ref) is None:
        yield f"its owner, ref {ref.owner}, is missing", None
    workspace = None if ref.tree is None else found.tx.tree_workspace(ref.tree)
    if ref.tree is not None and workspace != ref.workspace:
        yield "its tree is missing" if workspace is None else "its tree belongs to another workspace", None
    if ref.head is None:
        if ref.head_id is not None:
            yield "its head has an id but no position", None
        return
    head = found.one(_HEAD, ref.head)
    if head is None:
        yield f"its head, {place(ref.head)}, is missing", ref.head
    elif head != (ref.head_id, ref.tree):
        yield f"its head is not the message it names: {place(ref.head)} is another", ref.head


def _data_problems(found: Findings, ref: RefRow) -> Iterator[tuple[str, None]]:
    payload = found.engine.seal.box(ref.wrapped_key, ref_owner(ref.key)).open(ref.data, ref_context(ref))
    if payload is None:
        yield "the checksum of its data does not match", None
        return
    if not payload or payload[0] not in ((1, 2) if ref.kind == _CHECKPOINT else (1,)):
        yield f"its data has the unknown tag {payload[0] if payload else 0}", None
        return
    if ref.kind not in _SESSIONS:
        _any(payload[1:])
        return
    data = _session(payload[1:])
    look = found.engine.lookup_hash
    if ref.look != (None if data.cwd is None else look("cwd", data.cwd.encode())):
        yield "its lookup hash does not match its directory", None
    if found.tx.maintenance.labels(ref.ref) != sorted(look("label", label.encode()) for label in data.labels):
        yield "its lookup hashes do not match its labels", None
