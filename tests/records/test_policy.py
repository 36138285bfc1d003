"""Sweeps, audit and redaction, which the service shares with the store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import clew
from clew import redaction, retention
from clew.backends import Tx
from clew.errors import SweepRefused
from clew.records import Policy, RecordService, events
from clew.records.aio import RecordService as AsyncService
from clew.records.expiry import DEFAULT
from clew.retention import RetentionScan
from clew.store.evaluate import RETENTION
from clew.store.parts import Parts
from clew.store.store import Store
from clew.testing import FakeClock
from tests.records.talk import frame, given, made, snapshot, stored, summary

SECRET = "AKIAIOSFODNN7EXAMPLE"


@pytest.mark.checklist("C24")
def test_a_new_store_gets_thirty_days_for_records(path: Path, clock: FakeClock) -> None:
    """C24: the first service stores 30 days for records, in the audit; it says nothing of other sessions."""
    with clew.open(path, clock=clock) as store:
        RecordService(store)
        assert retention.get_policy(store) is None
        with RecordService(store) as service:
            assert retention.get_policy(store) == service.policy == DEFAULT
        with RecordService(store) as service:
            assert service.policy == DEFAULT
        noted = [(deed.kind, deed.subject, deed.reason, deed.amount) for deed in store.audit.read()]
        assert noted == [("retention", "policy", "records-default", 30)]
        chat = store.sessions.create()
        clock.advance(timedelta(days=400))
        assert retention.sweep(store, force=True).sessions == ()
        assert store.sessions.list().items == [chat]


def test_a_service_sweeps_records_alone(path: Path, clock: FakeClock) -> None:
    """Sessions that no service has written to stay, even if expired; the store's own sweep purges them."""
    with clew.open(path, clock=clock) as store:
        chats = [store.sessions.create(title="chat") for _ in range(3)]
        chats[0].trash()
        with RecordService(store, policy=Policy(14)) as service:
            made(service, "talk")
            forked = store.sessions.fork(store.sessions.latest())
            clock.advance(timedelta(days=40))
            report = service.sweep()
            assert (report.purged_count, report.failures) == (2, ())
            assert service.get("talk") is None
            assert service.get(forked.id) is None
        assert {one.id for one in store.sessions.list().items} == {chats[1].id, chats[2].id}
        assert {*retention.sweep(store).sessions} == {one.id for one in chats}


def test_a_service_obeys_the_stored_policy(path: Path, clock: FakeClock) -> None:
    """A service without a policy uses the stored one, also if it changes later."""
    with clew.open(path, clock=clock) as store, clew.open(path, clock=clock) as other:
        retention.set_policy(store, Policy(180))
        with RecordService(store) as service:
            record = made(service, "talk")
            assert record.retention.retention_expires_at.startswith("2026-04-19")
            clock.advance(timedelta(days=60))
        with RecordService(store) as service:
            assert service.get("talk") is not None
            retention.set_policy(other, Policy(14))
            assert service.list().total_count == 0
            assert service.sweep().purged_count == 1


def test_a_policy_given_to_a_service_is_stored(path: Path, clock: FakeClock) -> None:
    """By its constructor when it is initialized, and by `set_policy` at once; each change is in the audit once."""
    with clew.open(path, clock=clock) as store:
        for _ in range(2):
            with RecordService(store, policy=Policy(14)) as service:
                assert retention.get_policy(store) == service.policy == Policy(14)
        with RecordService(store) as service:
            service.set_policy(Policy(None, records=60))
        assert retention.get_policy(store) == Policy(None, records=60)
        assert [deed.amount for deed in store.audit.read(kind="retention")] == [14, 0]


@pytest.mark.checklist("C24")
def test_a_store_wide_policy_has_no_limits_but_records_have(path: Path, clock: FakeClock) -> None:
    """C24: with 1,000 days for the store, or 1, records are kept 180, or 7; without a limit, 180."""
    with clew.open(path, clock=clock) as store, RecordService(store) as service:
        for days, expires in ((1000, "2026-04-19"), (1, "2025-10-28"), (None, "2026-04-19")):
            retention.set_policy(store, Policy(days))
            record = made(service, f"talk-{days}")
            assert record.retention.retention_expires_at.startswith(expires)
        chat = store.sessions.create()
        retention.set_policy(store, Policy(1000))
        clock.advance(timedelta(days=181))
        assert service.sweep().purged_count == 3
        assert store.sessions.list().items == [chat]


@pytest.mark.checklist("C24")
def test_limits_of_a_records_own_retention(path: Path, clock: FakeClock) -> None:
    """C24: no way gives a record days of its own outside of 7 to 180; an ordinary chat may have any."""
    with clew.open(path, clock=clock) as store, RecordService(store) as service:
        made(service, "talk")
        record, chat = store.sessions.latest(), store.sessions.create()
        for given in ({"days": 6}, {"days": 181}, {"until": record.updated_at + timedelta(days=181)}):
            with pytest.raises(clew.Invalid, match="7 to 180"):
                record.retain(**given)
            chat.retain(**given)
        record.retain(days=180)
        assert record.expires_at == record.updated_at + timedelta(days=180)


def test_a_policy_that_cannot_be_read_hides_no_record(path: Path) -> None:
    """Records are read and written; what cannot be done by an unknown policy is the sweep."""
    with clew.open(path) as store, RecordService(store) as service:
        made(service, "talk")

        def newer(tx: Tx) -> None:
            row = Parts.of(store).refs.own(tx, RETENTION)
            assert row is not None
            Parts.of(store).refs.change(tx, row, b'\x01{"days":14,"spare":"labelled"}', look=None)

        Parts.of(store).engine.write(newer)
        assert service.list().total_count == 1
        record = service.get("talk")
        assert record is not None
        assert record.retention.retention_expires_at.startswith("9999")
        with pytest.raises(clew.Invalid, match="newer version"):
            service.sweep()


@pytest.mark.checklist("C25", "C26")
def test_all_records_may_expire_at_once(path: Path, clock: FakeClock) -> None:
    """AC-003: of 20 records 20 are due under their own policy, and all of them are purged."""
    with clew.open(path, clock=clock) as store:
        with RecordService(store, policy=Policy(14)) as service:
            for number in range(20):
                made(service, f"talk-{number}")
        clock.advance(timedelta(days=15))
        service = RecordService(store)
        report = service.initialize()
        assert report is not None
        assert (report.purged_count, report.failures) == (20, ())
        service.dispose()


@pytest.mark.checklist("C26")
def test_a_shorter_window_may_end_most_records(path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    """Of 21 records 20 are due by the new policy: `set_policy` purges them, except a held one, and logs how many."""
    with clew.open(path, clock=clock) as store, RecordService(store, policy=Policy(30)) as service:
        for number in range(21):
            made(service, f"talk-{number}")
        clock.advance(timedelta(days=10))
        service.update("talk-0", {"appendMessages": [frame(2)]})
        service.update("talk-1", {"retention": {"manualHold": True}})
        with caplog.at_level(logging.INFO, "clew.retention"):
            report = service.set_policy(Policy(7))
        assert (report.purged_count, report.failures) == (19, ())
        left = service.list(include_expired=True).items
        assert {one.conversation_id for one in left} == {"talk-0", "talk-1"}
        logged = [record.getMessage() for record in caplog.records if record.name == "clew.retention"]
        assert logged == ["sweep: 19 of 21 sessions purged, 0 failed"]


@pytest.mark.checklist("C25")
def test_a_service_may_be_told_not_to_sweep(path: Path, clock: FakeClock) -> None:
    """`initialize` sweeps and starts a thread that sweeps, except with ``sweep=False``; `dispose` ends the thread."""

    def sweepers() -> int:
        return sum(thread.name == "clew-sweeper" for thread in threading.enumerate())

    before = sweepers()
    with clew.open(path, clock=clock) as store:
        with RecordService(store, policy=Policy(14)) as service:
            made(service, "talk")
            assert sweepers() == before + 1
        assert sweepers() == before
        clock.advance(timedelta(days=15))
        service = RecordService(store, sweep=False)
        assert service.initialize() is None
        assert sweepers() == before
        assert service.sweep().purged_count == 1
        service.dispose()


@pytest.mark.parametrize("way", ["initialize", "sweeper"])
def test_closing_the_store_ends_the_sweepers_of_a_service(path: Path, way: str) -> None:
    """A service that is not disposed of leaves no thread behind when its store is closed."""
    store = clew.open(path)
    service = RecordService(store, sweep=way == "initialize")
    before = set(threading.enumerate())
    service.initialize()
    if way == "sweeper":
        swept = threading.Event()
        service.events.subscribe(lambda _: swept.set(), events.OperationFinished)
        service.sweeper().start()
        assert swept.wait(30)
    assert [one.name for one in {*threading.enumerate()} - before] == ["clew-sweeper"]
    store.close()
    assert {*threading.enumerate()} <= before


@pytest.mark.checklist("C25")
def test_a_record_written_while_the_clock_was_behind_stays(path: Path, clock: FakeClock) -> None:
    """A record counts as active when the store had seen that time before, whatever the clock said then."""
    with clew.open(path, clock=clock) as store, RecordService(store) as service:
        made(service, "first")
        clock.advance(timedelta(days=-100))
        made(service, "behind")
        clock.advance(timedelta(days=101))
        assert service.sweep().purged_count == 0
        assert service.list().total_count == 2
        clock.advance(timedelta(days=30))
        assert service.sweep().purged_count == 2


def test_two_sweeps_at_once_report_no_failures(path: Path, clock: FakeClock) -> None:
    """A record that another sweep has purged meanwhile is no failure."""
    with clew.open(path, clock=clock) as store, RecordService(store, policy=Policy(14)) as service:
        for number in range(5):
            made(service, f"talk-{number}")
        clock.advance(timedelta(days=15))
        found = [RetentionScan(store, Policy(14), None, (), timedelta(0)) for _ in range(2)]
        first, second = (one.purge() for one in found)
        assert (len(first.sessions), first.failures) == (5, ())
        assert (second.sessions, second.failures) == ((), ())


@pytest.mark.checklist("C37")
@pytest.mark.parametrize("way", ["hold", "rename", "retain"])
def test_a_change_made_through_the_session_conflicts(path: Path, clock: FakeClock, way: str) -> None:
    """Changing any field of a record changes its version, through any method."""
    with clew.open(path, clock=clock) as store, RecordService(store) as service:
        version = made(service, "talk").storage.blob_version
        session = store.sessions.latest()
        ways: dict[str, tuple[Callable[[], object], dict[str, Any]]] = {
            "hold": (lambda: session.hold("legal"), {"retention": {"manualHold": False}}),
            "rename": (lambda: session.rename("new"), {"title": "stale"}),
            "retain": (lambda: session.retain(days=90), {"retention": {"retentionPolicy": "workspace-default"}}),
        }
        change, mutation = ways[way]
        change()
        with pytest.raises(clew.Conflict, match="another writer set"):
            service.update("talk", mutation, expected_version=version)
        now = store.sessions.get(session.id)
        assert (now.held, now.title, now.expires_at) == (session.held, session.title, session.expires_at)
        service.update("talk", {"appendMessages": [frame(2)]}, expected_version=version)
        found = service.get("talk")
        assert found is not None
        service.update("talk", mutation, expected_version=found.storage.blob_version)


@pytest.mark.parametrize("way", ["initialize", "sweep", "set_policy"])
def test_what_the_guard_held_back_is_returned(sealed: Store, clock: FakeClock, way: str) -> None:
    """If the clock jumps, no due record goes unasked: each is in the report, with the reason, and in an event."""
    with RecordService(sealed, policy=Policy(14)) as service:
        for number in range(24):
            made(service, f"talk-{number}")
        clock.advance(timedelta(days=3650))
        made(service, "new")
    service = RecordService(sealed)
    heard: list[events.RecordEvent] = []
    service.events.subscribe(heard.append, events.RetentionInDoubt)
    report = service.initialize()
    if way != "initialize":
        heard.clear()
        report = service.sweep() if way == "sweep" else service.set_policy(Policy(7))
    assert report is not None
    assert report.purged_count == 0
    assert {one.conversation_id for one in report.failures} == {f"talk-{number}" for number in range(24)}
    assert all("was due 3,6" in one.error for one in report.failures)
    assert [(one.due_count, one.total_count) for one in heard if isinstance(one, events.RetentionInDoubt)] == [(24, 25)]
    assert service.list(include_expired=True).total_count == 25
    assert service.sweep(force=True).purged_count == 24
    service.dispose()


def test_a_delete_reports_what_a_fork_keeps(
    service: RecordService, sealed: Store, heard: list[events.RecordEvent]
) -> None:
    """The report and the event count what was not purged: messages that a fork shares, by the fork's own id."""
    made(service, "talk", frame(1), frame(2))
    fork = sealed.sessions.fork(sealed.sessions.latest())
    heard.clear()
    report = service.delete("talk", "user-requested")
    assert report.purged_count == 1
    (failure,) = report.failures
    assert failure.conversation_id == "talk"
    assert failure.error == f"2 of its messages remain because others share them: {fork.id}"
    done = heard[-1]
    assert isinstance(done, events.PurgeCompleted)
    assert (done.purged_count, done.failed_count) == (1, 1)


def test_a_delete_reports_what_is_not_cleared(path: Path) -> None:
    """A reader keeps the write-ahead log from being emptied: that is a failure in the report."""
    import sqlite3

    with clew.open(path) as store, RecordService(store) as service:
        made(service, "talk")
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM nodes").fetchone()
        report = service.delete("talk", "user-requested")
        reader.close()
        assert report.purged_count == 1
        assert [one.conversation_id for one in report.failures] == ["talk"]
        assert report.failures[0].error == "traces not cleared yet: wal"


def test_a_workspace_may_have_its_own_days(path: Path, clock: FakeClock) -> None:
    """The policy's days for the store's workspace hold for what is shown, listed and swept."""
    policy = Policy(days=30, workspaces={"team": 7})
    with clew.open(path, clock=clock, workspace="team") as store, RecordService(store, policy=policy) as service:
        record = made(service, "talk")
        assert record.retention.retention_expires_at.startswith("2025-10-28")
        clock.advance(timedelta(days=8))
        assert service.list().total_count == 0
        assert service.sweep().purged_count == 1


def test_a_session_with_days_of_its_own_is_a_record_like_others(sealed: Store, clock: FakeClock) -> None:
    """Days that were given to the session by other means count from its last interaction."""
    with RecordService(sealed) as service:
        made(service, "talk")
        sealed.sessions.latest().retain(days=7)
        record = service.get("talk")
        assert record is not None
        assert record.retention.retention_policy == "custom"
        assert record.retention.retention_expires_at.startswith("2025-10-28")
        clock.advance(timedelta(days=8))
        assert service.list().items == ()
        assert service.sweep().purged_count == 1


def test_a_sweeper_sweeps_for_the_service(path: Path, clock: FakeClock) -> None:
    """Purges of the sweeper emit the same events as those of a call; a refused sweep goes to `on_error`."""
    told: list[Exception] = []
    again = threading.Event()
    with clew.open(path, clock=clock) as store, RecordService(store) as service:
        for number in range(12):
            made(service, f"old-{number}")
        heard: list[events.ConversationDeleted] = []
        service.events.subscribe(heard.append, events.ConversationDeleted)
        clock.advance(timedelta(days=3650))
        made(service, "new")

        def failed(error: Exception) -> None:
            told.append(error)
            again.set()

        with service.sweeper(on_error=failed):
            assert again.wait(30)
        assert isinstance(told[0], SweepRefused)
        clock.advance(timedelta(days=31 - 3650))
        service.delete("new", "user-requested")  # it was last active in the future
        made(service, "new")
        heard.clear()
        with service.sweeper():
            for _ in range(3000):
                if len(heard) == 12:
                    break
                threading.Event().wait(0.01)
        assert sorted(one.conversation_id for one in heard) == sorted(f"old-{n}" for n in range(12))
        assert service.list(include_expired=True).total_count == 1


@pytest.mark.anyio
async def test_a_sweeper_as_a_task(path: Path, clock: FakeClock) -> None:
    """The async service has one, too."""
    import anyio

    import clew.aio

    async with clew.aio.open(path, clock=clock) as store, AsyncService(store) as service:
        await service.create(given("old"))
        clock.advance(timedelta(days=31))
        async with service.sweeper():
            with anyio.fail_after(30):
                while (await service.list(include_expired=True)).total_count:
                    await anyio.sleep(0.01)


def test_the_audit_has_what_is_done_to_records(path: Path) -> None:
    """Creating, holding, keeping, exporting and purging are noted by the session's id, without content."""
    with clew.open(path, audit=True, actor="service") as store, RecordService(store) as service:
        made(service, "talk", frame(content=SECRET))
        service.update("talk", {"retention": {"manualHold": True}})
        service.update("talk", {"retention": {"manualHold": True}})
        service.update("talk", {"retention": {"manualHold": False}})
        until = stored(service.update("talk", {"title": "x"})).retention.retention_expires_at
        service.update("talk", {"retention": {"retentionExpiresAt": until}})
        service.set_privacy("talk", exportable=True)
        service.export("talk")
        (session,) = store.sessions.list().items
        service.delete("talk", "user-requested")
        deeds = list(store.audit.read())
    assert [deed.kind for deed in deeds] == ["retention", "create", "hold", "release", "retain", "export", "purge"]
    assert {deed.subject for deed in deeds[1:]} == {session.id}
    assert {deed.actor for deed in deeds} == {"service"}


def test_no_way_into_a_record_goes_around_redaction(path: Path) -> None:
    """Messages, titles, summaries and snapshots are redacted; a frame says so, with tokens that tell nothing."""
    rules = redaction.Rules(redaction.builtin())
    with clew.open(path, redact=rules) as store, RecordService(store) as service:
        record = made(service, "talk", frame(content=f"it is {SECRET}"), title=SECRET, summary=summary(SECRET))
        privacy = record.messages[0].privacy
        assert privacy.contains_secrets
        assert privacy.redaction_rules_applied
        assert privacy.pii_tokens is None or all(SECRET not in token for token in privacy.pii_tokens)
        service.update("talk", {"title": f"t {SECRET}", "summary": summary(SECRET), "appendMessages": [frame(2)]})
        service.commit_snapshot(snapshot("talk", frame(3, content=SECRET), summary=summary(SECRET)))
        service.commit_conversation("talk")
        assert SECRET not in repr(service.get("talk"))
    assert not [one.name for one in path.parent.iterdir() if SECRET.encode() in one.read_bytes()]


@pytest.mark.parametrize(
    "pattern",
    [
        r"\b(?:19|20)\d\d-\d\d-\d\d",
        r"[0-9a-f]{64}",
        r"\d{12,}",
        r"(?i)record|user|document|sequence|checksum|uri|summary|token",
        r"[\w.]+@[\w.]+",
    ],
    ids=["dates", "digests", "numbers", "words", "addresses"],
)
def test_no_rule_breaks_what_a_record_consists_of(path: Path, pattern: str) -> None:
    """Names, times, digests and numbers of a record are not redacted, so a strict service purges nothing."""
    rules = redaction.Rules([redaction.Rule("mine", pattern)])
    talk, when = "ada@example.com", 1_761_048_000_000
    with clew.open(path, redact=rules) as store, RecordService(store, strict=True) as service:
        record = made(service, talk, frame(when), summary=summary(), metrics={"durationMs": when})
        kept = service.attach(talk, b"the build's log", type="document")
        tokens = {"containsSecrets": True, "redactionRulesApplied": ["x"], "piiTokens": ["x:" + "0" * 64]}
        said = frame(when + 1, attachments=[kept], privacy=tokens, frameId="bob@example.com")
        record = stored(service.update(talk, {"appendMessages": [said], "summary": summary()}))
        record = stored(service.update(talk, {"appendMessages": [said]}))
        service.commit_snapshot(snapshot(talk, frame(when + 2), summary=summary(), metrics={"durationMs": when}))
        assert [one.conversation_id for one in service.list().items] == [record.conversation_id]
        assert service.recoverable() == (record.conversation_id,)
        found = service.get_snapshot(record.conversation_id)
        assert found is not None
        assert found.summary is not None
        assert [one.sequence for one in found.pending_messages] == [when + 2]
        record = stored(service.commit_conversation(record.conversation_id))
        assert (record.attachments or ())[0].checksum == kept.checksum
        assert (len(record.messages), record.metrics.duration_ms) == (3, when)
        assert len({one.frame_id for one in record.messages}) == 3
        assert b"".join(service.open_attachment(talk, kept.uri)) == b"the build's log"


def test_what_only_looks_like_a_record_is_redacted(path: Path) -> None:
    """Free data that borrows the record's names keeps no secret by them."""
    rules = redaction.Rules(redaction.builtin())
    borrowed = {SECRET: 1, "created_at": SECRET, "role": SECRET, "checksum": SECRET, "privacy": {"piiTokens": [SECRET]}}
    token = SECRET.lower()
    other = redaction.Rules([redaction.Rule("mine", token)])
    with clew.open(path, redact=rules) as store:
        session = store.sessions.create(extra={"clew.record": borrowed})
        session.append(clew.user("x", extra={"clew.record": borrowed}))
        session.update(extra={"clew.record": borrowed, "uri": SECRET})
    with clew.open(path, redact=other) as store, RecordService(store) as service:
        store.sessions.create(extra={"clew.record": {"privacy": {"piiTokens": [f"{token}:{'0' * 32}"]}}})
        privacy = {"containsSecrets": True, "redactionRulesApplied": [], "piiTokens": [f"{token}:{'0' * 32}"]}
        with pytest.raises(clew.Invalid, match="token"):
            made(service, "talk", frame(privacy=privacy))
    written = b"".join(one.read_bytes() for one in path.parent.iterdir())
    assert SECRET.encode() not in written
    assert token.encode() not in written


def test_redaction_knows_every_name_of_a_record() -> None:
    """No key in the service's free data matches a redaction rule."""
    import msgspec

    from clew.records.frames import StoredFrame
    from clew.records.record_data import RecordFields
    from clew.redaction import KEYS

    def names(kind: object) -> set[str]:
        found: set[str] = set()
        if isinstance(kind, msgspec.inspect.StructType):
            for field in kind.fields:
                found |= {field.encode_name} | names(field.type)
        for part in (*getattr(kind, "types", ()), getattr(kind, "item_type", None)):
            if part is not None:
                found |= names(part)
        return found

    found = {name for kind in (RecordFields, StoredFrame) for name in names(msgspec.inspect.type_info(kind))}
    assert {"schema", "synopsis", "byteLength", "piiTokens"} <= found
    assert found <= KEYS
