"""Reports what redaction rules would match in a store: where, by which rule and how often; never the matched text."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from clew import redaction
from clew.backends import RefRow
from clew.base import ids
from clew.engine.log import Log
from clew.engine.node import Node
from clew.errors import Corrupted, NotFound, Unavailable
from clew.redaction import Finding, Rules
from clew.store.parts import Parts
from clew.store.session import Session, owned_rows
from clew.store.store import Store

Progress = Callable[[int, int], None]
PAGE = 200
_DECODERS: dict[str, Callable[[bytes], Any]] = {
    "json": msgspec.json.decode,
    "msgpack": msgspec.msgpack.decode,
    "bytes": bytes.decode,
    "bytearray": bytes.decode,
    "null": lambda _: None,
    "empty": lambda _: None,
}
"""The encodings of LangGraph that a scan reads. Others are encrypted, or Python objects."""


class Spot(NamedTuple):
    """A place in the store where rules matched."""

    what: str
    """``message``, ``session`` (title, labels, free data), ``log``, ``snapshot`` (its data except the messages),
    ``recovery`` (a record's recovery snapshot), ``document`` (of an adapter), or ``state`` (of an agent, as its
    framework writes it)."""
    session: str | None
    """The id of the session; None if it is in the trash, or if no session contains the message any more or ever did."""
    id: str
    """The id of the message, of the log entry, of the snapshot, of the document, of the state, or of the session."""
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
    """Items that are damaged, or encoded in a way that clew cannot read: they may contain anything."""

    @property
    def counts(self) -> dict[str, int]:
        """How often each rule matched, the most frequent first."""
        return dict(sorted(_count_matches(self.spots).items(), key=lambda item: (-item[1], item[0])))


def scan(
    store: Store, rules: Rules, *, only: Sequence[Session | Node] | None = None, progress: Progress | None = None
) -> Scan:
    """Reads every message, session, snapshot, log entry, document and state of an adapter; reports what rules match.

    Writes nothing. It does not read attachments, nor logs, documents, states and recovery snapshots of sessions in the
    trash. With `only`, reads these messages, and the messages and data of these sessions. `progress` is called with the
    numbers of messages done and in all.
    """
    found = Scan([], {"messages": 0, "sessions": 0, "log entries": 0, "snapshots": 0}, [])
    if only is None:
        _messages(store, rules, found, progress)
    else:
        nodes = (node for one in only for node in ([one] if isinstance(one, Node) else one.history()))
        for node in {node.id: node for node in nodes}.values():
            _message(store, rules, found, node)
    for session in _sessions(store) if only is None else (one for one in only if not isinstance(one, Node)):
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
                for one in owned_rows(session, "state"):
                    _state(store, rules, found, session, one)
                for entry in session.log.read():
                    found.read["log entries"] += 1
                    _note(found, Spot("log", session.id, entry.id, redaction.findings(entry.data, rules)))
        except Corrupted:
            found.unreadable.append(f"session {session.id}")
    if only is None:
        _snapshots(store, rules, found)
    return found


def _messages(store: Store, rules: Rules, found: Scan, progress: Progress | None) -> None:
    total = Parts.of(store).engine.read(lambda tx: tx.maintenance.growth(0).last)
    for page in store.nodes.list(limit=PAGE, ascending=True).pages():
        for node in page.items:
            _message(store, rules, found, node)
        if progress is not None:
            progress(min(found.read["messages"], total), total)


def _message(store: Store, rules: Rules, found: Scan, node: Node) -> None:
    found.read["messages"] += 1
    try:
        findings = redaction.redact(node.said, rules).findings
    except Corrupted:
        found.unreadable.append(f"message {node.id}")
        return
    if findings:
        session = Parts.of(store).search.session_of(node)
        found.spots.append(Spot("message", None if session is None else session.id, node.id, findings))


def _state(store: Store, rules: Rules, found: Scan, session: Session, row: RefRow) -> None:
    """Scans a checkpoint of an agent: its values, and the writes in its log, each with the name of its encoding."""
    found.read["states"] = found.read.get("states", 0) + 1
    parts, id = Parts.of(store), ids.text(row.key)
    state = msgspec.json.decode(parts.refs.data(parts.refs.verify(row))[1:])
    values: list[tuple[str, bytes]] = [
        (kind, b64decode(data)) for kind, data in filter(None, map(state.get, ("checkpoint", "metadata")))
    ]
    for one in state.get("values", {}).values():
        if "blob" in one:
            with suppress(NotFound, Unavailable):
                values.append((one.get("type", ""), session.blobs.get(one["blob"])))
                continue
            values.append(("blob", b""))
        elif "data" in one:  # otherwise it is empty, or its messages are nodes
            values.append((one.get("type", ""), b64decode(one["data"])))
    for entry in Log(parts.engine, lambda: row).read():
        write = msgspec.msgpack.decode(entry.data[1:])
        values.append((write[4], write[5]))
    texts: list[str] = []
    unread = {kind for kind, data in values if not _add_texts(kind, data, texts)}
    _note(found, Spot("state", session.id, id, redaction.findings(msgspec.json.encode(texts), rules)))
    found.unreadable.extend(f"state {id} ({kind})" for kind in sorted(unread))


def _add_texts(kind: str, data: bytes, texts: list[str]) -> bool:
    """Adds the texts in a value of this encoding. False if it cannot be read."""
    decode = _DECODERS.get(kind)
    try:
        left: list[Any] = [] if decode is None else [decode(data)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += [*value, *value.values()]
        elif isinstance(value, list | tuple):
            left += value
        elif isinstance(value, str):
            texts.append(value)
        elif isinstance(value, bytes | msgspec.msgpack.Ext):
            inner = value if isinstance(value, bytes) else bytes(value.data)
            if not _add_texts("msgpack", inner, texts):
                texts.append(inner.decode(errors="replace"))
    return decode is not None


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
