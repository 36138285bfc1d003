"""The audit: what is noted, when, by whom; and that it holds nothing of what was said."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import clew
import clew.aio
from clew import retention
from clew.engine.audit import AUDIT, AuditEvent
from clew.engine.log import Log
from clew.retention import Policy
from clew.store.session import delete_session
from clew.store.store import Store
from clew.testing import FakeClock

T0 = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
KEY, OTHER = bytes(range(32)), bytes(range(1, 33))


def clock() -> FakeClock:
    return FakeClock(int(T0.timestamp()) * 1_000_000)


def deeds(store: Store) -> list[tuple[str, str]]:
    return [(deed.kind, deed.subject) for deed in store.audit.read()]


def test_talking_is_not_noted(store: Store) -> None:
    """Creating, appending, forking, rewinding and naming leave no entry, and not even a place for one."""
    session = store.sessions.create(title="a")
    nodes = session.append([clew.user("x"), clew.user("y")])
    session.fork().rename("b")
    session.rewind(nodes[0].id)
    session.trash()
    store.sessions.restore(session.id)
    delete_session(session.refresh())
    assert deeds(store) == []
    assert store._engine.read(lambda tx: store._refs.own(tx, AUDIT)) is None


def test_what_takes_away_or_keeps_is_always_noted(path: Path) -> None:
    """Hold, release, retention and purge are noted with what they were done to, in order, and by whom."""
    with clew.open(path, clock=clock(), actor="ann") as store:
        session = store.sessions.create(title="Build fails")
        session.append([clew.user("x"), clew.user("y")])
        session.hold("because of May")
        session.release()
        session.retain(days=7)
        retention.set_policy(store, Policy(14))
        store.sessions.purge(session.id, dry_run=True)
        store.sessions.purge(session.id, reason="privacy-policy-change")
        found = list(store.audit.read())
        id = session.id
        assert [(deed.kind, deed.subject, deed.reason, deed.amount) for deed in found] == [
            ("hold", id, None, 1),
            ("release", id, None, 1),
            ("retain", id, None, 1),
            ("retention", "policy", None, 14),
            ("purge", id, "privacy-policy-change", 2),
        ]
        assert {(deed.actor, deed.at) for deed in found} == {("ann", T0)}
        assert len({deed.id for deed in found}) == 5
        assert store.verify().ok


def test_a_sweep_is_noted_with_its_receipt(path: Path) -> None:
    """Each session that went is noted, and the sweep with their number; a sweep that found nothing is not."""
    time = clock()
    with clew.open(path, clock=time) as store:
        sessions = [store.sessions.create(), store.sessions.create()]
        retention.set_policy(store, Policy())
        set_ = deeds(store)
        retention.sweep(store)
        assert deeds(store) == set_ == [("retention", "policy")]
        time.advance(40 * DAY)
        swept = retention.sweep(store)
        assert swept.receipt is not None
        assert deeds(store) == [*set_, *(("purge", one.id) for one in sessions), ("sweep", swept.receipt.id)]
        *_, last = store.audit.read()
        assert (last.reason, last.amount, last.actor) == ("retention-expired", 2, None)


def test_what_is_undone_is_not_noted(store: Store) -> None:
    """The entry is part of the transaction: without the deed there is none."""
    session = store.sessions.create()
    with pytest.raises(ZeroDivisionError), store.transaction():
        session.hold()
        assert deeds(store) == [("hold", session.id)]
        raise ZeroDivisionError
    assert deeds(store) == []
    with pytest.raises(clew.Invalid):
        session.hold(5)  # type: ignore[arg-type]
    assert deeds(store) == []


def test_with_audit_all_deeds_are_noted(path: Path, tmp_path: Path) -> None:
    """A store opened so notes what is created, put in the trash, restored, deleted and copied; never an append."""
    with clew.open(path, audit=True, actor="ann") as store:
        session = store.sessions.create()
        session.append([clew.user("x"), clew.user("y")])
        fork = session.fork()
        session.trash()
        session.trash()
        store.sessions.restore(session.id)
        fork.append(clew.user("z"))
        delete_session(fork)
        store.backup(tmp_path / "copy.db")
        assert [(deed.kind, deed.subject, deed.amount) for deed in store.audit.read()] == [
            ("create", session.id, 1),
            ("create", fork.id, 1),
            ("trash", session.id, 1),
            ("restore", session.id, 1),
            ("delete", fork.id, 1),
            ("export", "store", 1),
        ]


def test_keys_are_noted_by_their_ids(path: Path) -> None:
    """Sealing, exchanging and taking away a key are always noted, its use to open the store with audit."""
    first, second = (clew.keys.key_id(key).hex() for key in (KEY, OTHER))
    with clew.open(path) as store:
        store.sessions.create()
        store.seal(KEY)
    clew.open(path, key=KEY).close()
    with clew.open(path, key=KEY, audit=True) as store:
        store.rotate(OTHER)
        store.rotate(KEY, deep=True)
        store.unseal()
        assert deeds(store) == [
            ("seal", first), ("open", first), ("rotate", second), ("rotate", first), ("unseal", first),
        ]  # fmt: skip
        assert store.verify().ok
    with clew.open(path, audit=True) as store:
        assert len(deeds(store)) == 5  # a plain store is opened by no key


def test_a_wrong_key_notes_nothing(path: Path) -> None:
    """Whoever cannot open the store leaves no entry in it."""
    with clew.open(path, key=KEY) as store:
        store.sessions.create()
    with pytest.raises(clew.WrongKey):
        clew.open(path, key=OTHER, audit=True)
    with clew.open(path, key=KEY) as store:
        assert deeds(store) == []


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_it_holds_nothing_of_what_was_said(path: Path, key: bytes | None) -> None:
    """Titles, words, labels, directories and the reasons of holds are in no entry."""
    with clew.open(path, key=key, audit=True) as store:
        session = store.sessions.create(title="canary", cwd="/canary", labels=["canary"], extra={"canary": 1})
        session.append(clew.user("canary"))
        session.hold("canary")
        session.release()
        store.sessions.purge(session.id)
        lines = list(store.audit.jsonl())
        assert len(lines) == (4 if key is None else 5)
        assert "canary" not in "".join(lines)


def test_it_is_read_by_time_and_kind(path: Path) -> None:
    """From a moment on, up to and without another, and only of one kind."""
    time = clock()
    with clew.open(path, clock=time) as store:
        for kind in ("export", "login", "export"):
            store.audit.record(kind, "s1", "bob", reason="asked", amount=3)
            time.advance(DAY)

        def found(**filters: Any) -> list[int]:
            return [(deed.at - T0) // DAY for deed in store.audit.read(**filters)]

        assert found() == [0, 1, 2]
        assert found(since=T0 + DAY) == [1, 2]
        assert found(until=T0 + DAY) == [0]
        assert found(since=T0 + DAY, until=T0 + 2 * DAY) == [1]
        assert found(kind="export") == [0, 2]
        assert found(kind="export", since=T0 + DAY) == [2]
        assert found(kind="none") == []
        (first, *_) = store.audit.read()
        assert first == AuditEvent(T0, "export", "s1", "bob", "asked", 3, first.id)
        lines = [json.loads(line) for line in store.audit.jsonl(kind="login")]
        assert [(line["kind"], line["at"], line["actor"]) for line in lines] == [
            ("login", "2026-01-02T00:00:00Z", "bob")
        ]


@pytest.mark.parametrize(
    ("kind", "subject", "settings"),
    [("", "s", {}), ("Export", "s", {}), ("two words", "s", {}), ("x" * 65, "s", {}), (5, "s", {}), ("a\n", "s", {}),
     ("a", "", {}), ("a", "what was said", {}), ("a", "é", {}), ("a", "x" * 129, {}), ("a", 5, {}), ("a", "s\n", {}),
     ("a", "s", {"actor": ""}), ("a", "s", {"actor": "x" * 129}), ("a", "s", {"actor": 5}), ("a", "s", {"actor": "\n"}),
     ("a", "s", {"reason": "Because of that"}), ("a", "s", {"amount": -1}), ("a", "s", {"amount": "2"})],
)  # fmt: skip
def test_what_looks_like_content_is_refused(store: Store, kind: Any, subject: Any, settings: Any) -> None:
    """Kinds and reasons are words, subjects are names without blanks: there is no room for a sentence."""
    with pytest.raises(clew.Invalid):
        store.audit.record(kind, subject, **settings)
    assert deeds(store) == []


def test_no_secret_is_noted_by_the_name_of_what_was_done(path: Path) -> None:
    """A deed in which a redaction rule finds something is refused; clew's own deeds are not, whatever the rules."""
    from clew.redaction import Rule, Rules, builtin

    secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
    rules = Rules([*builtin(), Rule("ids", "[0-9a-f-]{8,}")])
    with clew.open(path, key=bytes(32), redact=rules, audit=True) as store:
        for given in ((secret, None), ("x", secret)):
            with pytest.raises(clew.Invalid, match="redaction rule"):
                store.audit.record("export", *given)
        session = store.sessions.create()
        store.backup(path.with_name("copy.db"))
        session.hold().release()
        store.sessions.purge(session.id)
        kinds = [deed.kind for deed in store.audit.read()]
    assert kinds == ["open", "create", "export", "hold", "release", "purge"]


def test_bad_questions_are_invalid(store: Store, path: Path) -> None:
    """A time without a zone, a kind that cannot be, an actor that is none: told at once, not when it is iterated."""
    for filters in ({"since": datetime(2026, 1, 1)}, {"until": "now"}, {"kind": "No Kind"}):
        with pytest.raises(clew.Invalid):
            store.audit.read(**filters)
    with pytest.raises(clew.Invalid):
        clew.open(path, actor="\x1b[1m")


def test_an_entry_that_is_none_is_told(store: Store) -> None:
    """Bytes in the audit that are no entry raise Corrupted."""
    store.audit.record("a", "s")
    row = store._engine.read(lambda tx: store._refs.own(tx, AUDIT))
    assert row is not None
    Log(store._engine, lambda: row).append(b"not JSON")
    with pytest.raises(clew.Corrupted):
        list(store.audit.read())


def test_each_workspace_has_its_own(path: Path) -> None:
    """What is done in one workspace is not read in another."""
    with clew.open(path) as store, clew.open(path, workspace="acme") as acme:
        acme.audit.record("a", "theirs")
        store.audit.record("a", "mine")
        assert deeds(store) == [("a", "mine")]
        assert deeds(acme) == [("a", "theirs")]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_the_async_face_has_it(path: Path) -> None:
    """Recording is awaited, reading iterated over."""
    async with clew.aio.open(path, actor="ann", audit=True) as store:
        session = await store.sessions.create()
        await store.audit.record("export", session.id)
        assert [deed.kind async for deed in store.audit.read()] == ["create", "export"]
        assert [json.loads(line)["actor"] async for line in store.audit.jsonl(kind="export")] == ["ann"]
