"""Reports what redaction rules would match in a store: where, by which rule and how often; never the matched text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from clew import redaction
from clew.base import ids
from clew.errors import Corrupted
from clew.redaction import Finding, Rules
from clew.store.parts import Parts
from clew.store.session import Session, owned_rows
from clew.store.store import Store

Progress = Callable[[int, int], None]
PAGE = 200


class Spot(NamedTuple):
    """A place in the store where rules matched."""

    what: str
    """``message``, ``session`` (title, labels, free data), ``log``, ``snapshot`` (its data except the messages),
    ``recovery`` (a record's recovery snapshot), or ``document`` (of an adapter)."""
    session: str | None
    """The id of the session; None if it is in the trash, or if no session contains the message any more or ever did."""
    id: str
    """The id of the message, of the log entry, of the snapshot, of the document, or of the session."""
    findings: tuple[Finding, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How often each rule matched there."""
        return dict(_count_matches([self]))


class Scan(NamedTuple):
    """The matches, and how much was read."""

    spots: list[Spot]
    read: dict[str, int]
    unreadable: list[str]
    """Damaged items, which may contain anything."""

    @property
    def counts(self) -> dict[str, int]:
        """How often each rule matched, the most frequent first."""
        return dict(sorted(_count_matches(self.spots).items(), key=lambda item: (-item[1], item[0])))


def scan(store: Store, rules: Rules, *, progress: Progress | None = None) -> Scan:
    """Reads every message, session, snapshot, log entry and document of an adapter; reports what the rules match.

    Writes nothing. It does not read attachments, nor logs, documents and recovery snapshots of sessions in the trash.
    `progress` is called
    with the numbers of messages done and in all.
    """
    found = Scan([], {"messages": 0, "sessions": 0, "log entries": 0, "snapshots": 0}, [])
    _messages(store, rules, found, progress)
    for session in _sessions(store):
        found.read["sessions"] += 1
        try:
            data = msgspec.json.encode(session.data)
            _note(found, Spot("session", session.id, session.id, redaction.findings(data, rules, own=True)))
            if session.trashed_at is None:
                for mark in owned_rows(session, "recovery"):
                    data = Parts.of(store).refs.data(mark)[1:]
                    _note(found, Spot("recovery", session.id, session.id, redaction.findings(data, rules, own=True)))
                for one in owned_rows(session, "document"):
                    findings = redaction.findings(Parts.of(store).refs.data(one)[1:], rules, own=True)
                    _note(found, Spot("document", session.id, ids.text(one.key), findings))
                for entry in session.log.read():
                    found.read["log entries"] += 1
                    _note(found, Spot("log", session.id, entry.id, redaction.findings(entry.data, rules)))
        except Corrupted:
            found.unreadable.append(f"session {session.id}")
    _snapshots(store, rules, found)
    return found


def _messages(store: Store, rules: Rules, found: Scan, progress: Progress | None) -> None:
    total = Parts.of(store).engine.read(lambda tx: tx.maintenance.growth(0).last)
    for page in store.nodes.list(limit=PAGE, ascending=True).pages():
        for node in page.items:
            found.read["messages"] += 1
            try:
                findings = redaction.redact(node.said, rules).findings
            except Corrupted:
                found.unreadable.append(f"message {node.id}")
                continue
            if findings:
                session = Parts.of(store).search.session_of(node)
                found.spots.append(Spot("message", None if session is None else session.id, node.id, findings))
        if progress is not None:
            progress(min(found.read["messages"], total), total)


def _snapshots(store: Store, rules: Rules, found: Scan) -> None:
    for row in store.snapshots._rows():
        found.read["snapshots"] += 1
        id = ids.text(row.key)
        try:
            data = Parts.of(store).refs.data(row)[1:]
        except Corrupted:
            found.unreadable.append(f"snapshot {id}")
            continue
        _note(found, Spot("snapshot", None, id, redaction.findings(data, rules, own=True)))


def _sessions(store: Store) -> Iterator[Session]:
    """Every session, including those of subagents and those in the trash."""
    for subagents in (False, True):
        yield from store.sessions.list(limit=PAGE, include_expired=True, subagents=subagents).all()
    yield from store.sessions.trashed(limit=PAGE).all()


def _note(found: Scan, spot: Spot) -> None:
    if spot.findings:
        found.spots.append(spot)


def _count_matches(spots: list[Spot]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for spot in spots:
        for finding in spot.findings:
            counts[finding.rule] += finding.count
    return counts
