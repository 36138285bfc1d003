"""Any argument leads to a result or an error of clew, and damages no record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import clew
from clew import redaction, retention
from clew.errors import ClewError
from clew.records import Policy, RecordService
from clew.records import __all__ as names
from clew.redaction import Rule, Rules
from clew.store import scan
from clew.store.store import Store
from tests.records.talk import frame, given, made, snapshot, texts

JUNK: list[Any] = [
    None, 0, -1, 1.5, float("nan"), float("inf"), 10**400, True, "", "x" * 600, "\ud800", "\0", b"", b"\xff",
    bytearray(), [], {}, (), set(), object(), [[[]]], {"a": {}}, {1: 2}, lambda: 1, 5j,
]  # fmt: skip

Call = Callable[[Any], object]


def among(use: Callable[[dict[str, Any]], object], name: str) -> Call:
    """A call with one thing by its name."""
    return lambda junk: use({name: junk})


def service_calls(service: RecordService) -> Iterator[tuple[str, Call]]:
    """Every parameter of the service, and every field of what it takes."""
    yield "create", service.create
    yield "update", lambda junk: service.update("talk", junk)
    yield "update id", lambda junk: service.update(junk, {})
    yield "update version", lambda junk: service.update("talk", {"title": "x"}, expected_version=junk)
    yield "get", service.get
    yield "list limit", lambda junk: service.list(limit=junk)
    yield "list cursor", lambda junk: service.list(cursor=junk)
    yield "delete id", lambda junk: service.delete(junk, "user-requested")
    yield "delete reason", lambda junk: service.delete("nothing", junk)
    yield "purge_all", service.purge_all
    yield "commit_snapshot", service.commit_snapshot
    yield "get_snapshot", service.get_snapshot
    yield "commit id", service.commit_conversation
    yield "commit", lambda junk: service.commit_conversation("talk", junk)
    yield "attach", lambda junk: service.attach("talk", junk, type="code")
    yield "attach to", lambda junk: service.attach(junk, b"x", type="code")
    yield "attach type", lambda junk: service.attach("talk", b"x", type=junk)
    yield "attach id", lambda junk: service.attach("talk", b"x", type="code", attachment_id=junk)
    yield "open", lambda junk: list(service.open_attachment("talk", junk))
    yield "open of", lambda junk: list(service.open_attachment(junk, "blobs/x"))
    yield "privacy id", lambda junk: service.set_privacy(junk, exportable=False)
    yield "exportable", lambda junk: service.set_privacy("talk", exportable=junk)
    yield "consent", lambda junk: service.set_privacy("talk", consent_capture=junk)
    yield "export", service.export
    yield "set_policy", service.set_policy
    yield "sweeper", lambda junk: service.sweeper(every=junk)
    for field in ("title", "summary", "retention", "metrics", "appendMessages"):
        yield field, among(lambda one: service.update("talk", one), field)
    for field in frame():
        yield (
            f"frame {field}",
            among(lambda one: service.update("talk", {"appendMessages": [{**frame(9), **one}]}), field),
        )
    for field in given():
        yield f"given {field}", among(lambda one: service.create({**given(), **one}), field)
    for field in snapshot("talk"):
        yield f"snapshot {field}", among(lambda one: service.commit_snapshot({**snapshot("talk"), **one}), field)
    for name in names:
        if name.startswith("validate_"):
            yield name, getattr(clew.records, name)


def store_calls(store: Store) -> Iterator[tuple[str, Call]]:
    """Retention, audit and redaction."""
    session = store.sessions.latest()
    for field in ("days", "trash_days", "workspaces", "share"):
        yield f"Policy {field}", among(lambda one: Policy(**one), field)
        yield f"clamped {field}", among(lambda one: Policy.clamped(**one), field)
    yield "set_policy", lambda junk: retention.set_policy(store, junk)
    yield "hold", lambda junk: store.sessions.hold(junk)
    yield "hold reason", session.hold
    yield "retain days", lambda junk: session.retain(days=junk)
    yield "retain until", lambda junk: session.retain(until=junk)
    for field in ("policy", "now", "open_sessions", "quiet"):
        yield f"preview {field}", among(lambda one: retention.preview(store, **{"policy": Policy(), **one}), field)
    yield "audit since", lambda junk: list(store.audit.read(since=junk))
    yield "audit kind", lambda junk: list(store.audit.read(kind=junk))
    yield "audit", lambda junk: store.audit.record(junk, "x")
    yield "audit subject", lambda junk: store.audit.record("x", junk)
    for field in ("actor", "reason", "amount"):
        yield f"audit {field}", among(lambda one: store.audit.record("x", "y", **one), field)
    for field in ("id", "pattern", "flags", "replacement", "check", "personal", "hints"):
        yield f"rule {field}", among(lambda one: Rules([Rule(**{"id": "a", "pattern": "x", **one})]), field)
    yield "rules", Rules
    yield "a rule", lambda junk: Rules([junk])
    yield "builtin", redaction.builtin
    yield "redact", lambda junk: redaction.redact(junk, Rules(["email"]))
    yield "redact by", lambda junk: redaction.redact(clew.user("x"), junk)
    yield "scan", lambda junk: scan.scan(store, junk)


def survived(calls: Iterator[tuple[str, Call]]) -> list[str]:
    """The calls that raised an error that is not clew's."""
    raw: list[str] = []
    for name, call in calls:
        for junk in JUNK:
            try:
                call(junk)
            except ClewError:
                pass
            except Exception as error:
                raw.append(f"{name}({type(junk).__name__}): {type(error).__name__}")
    return raw


def test_nothing_that_a_service_is_given_raises_anything_but_ours(service: RecordService, sealed: Store) -> None:
    """Types, sizes, surrogates, numbers that are none: a result or a ClewError, and the record is as it was."""
    made(service, "talk", frame(content="still here"))
    assert survived(service_calls(service)) == []
    assert texts(service.get("talk"))[0] == "still here"
    assert sealed.verify().ok


def test_nothing_that_a_store_is_given_raises_anything_but_ours(sealed: Store) -> None:
    """The same for policies, sweeps, the audit, and rules."""
    sealed.sessions.create().append(clew.user("still here"))
    assert survived(store_calls(sealed)) == []
    assert sealed.verify().ok


@pytest.mark.parametrize("also", [("email",), ("email", "email"), ("github-token",), ("phone", "email")])
def test_built_in_rules_are_there_once(also: tuple[str, ...]) -> None:
    """However often one is asked for."""
    ids = [rule.id for rule in redaction.builtin(*also)]
    assert len(ids) == len(set(ids))
    assert set(also) <= set(ids)
