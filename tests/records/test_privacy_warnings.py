"""A service says if its store does not protect the records."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import Invalid
from clew.records import RecordService, events, validate_summary
from clew.redaction import Rule, Rules, builtin
from tests.records.talk import frame, made, snapshot, stored, summary, texts

KEY = bytes(range(32))


SECRET = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"


def warned(store: clew.Store, **options: Any) -> list[str]:
    """The problems that two calls of initialize report."""
    found: list[str] = []
    service = RecordService(store, **options)
    service.events.subscribe(lambda event: found.append(event.problem), events.PrivacyWarning)
    service.initialize()
    service.initialize()
    service.dispose()
    return found


def leaks(path: Path) -> list[str]:
    """The files beside the store that have the secret."""
    return [one.name for one in path.parent.iterdir() if SECRET.encode() in one.read_bytes()]


@pytest.mark.checklist("C13", "C18")
def test_an_unprotected_store_is_reported_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A store without a key and a service without redaction give one event and one log line for each."""
    with caplog.at_level(logging.WARNING, "clew.records"), clew.open(path) as store:
        assert warned(store, redact=False) == ["not-sealed", "not-redacted"]
    assert len(caplog.records) == 2


@pytest.mark.checklist("C13", "C18")
def test_a_protected_store_is_not_reported(path: Path) -> None:
    """A sealed store gives no warning, and satisfies require_sealed; rules of the store suffice."""
    with clew.open(path, key=KEY) as store:
        assert warned(store) == []
        assert warned(store, redact=Rules(builtin())) == []
        RecordService(store, require_sealed=True)
    with clew.open(path, key=KEY, redact=Rules(builtin())) as store:
        assert warned(store, redact=False) == []


@pytest.mark.checklist("C18")
def test_records_are_redacted_by_default(path: Path) -> None:
    """No text that enters a record stores a secret, whatever call brings it; frames say what was replaced."""
    with clew.open(path) as store:
        service = RecordService(store, summarise=lambda record: validate_summary(summary(f"by hand {SECRET}")))
        service.initialize()
        told: list[Any] = []
        service.events.subscribe(told.append)
        participants = [{"id": SECRET, "role": "user", "displayName": SECRET}]
        made(service, "talk", frame(content=f"it is {SECRET}"), title=SECRET, participants=participants)
        privacy = {"containsSecrets": True, "redactionRulesApplied": []}
        made(service, SECRET, frame(frameId=SECRET, content=SECRET, privacy=privacy), summary=summary(SECRET))
        service.update("talk", {"title": f"t {SECRET}", "appendMessages": [frame(2, content=SECRET)]})
        service.commit_snapshot(snapshot("talk", frame(3, content=SECRET), summary=summary(SECRET), sessionId=SECRET))
        service.commit_snapshot(snapshot("new", frame(1, content=SECRET), summary=summary(SECRET)))
        assert SECRET not in repr(service.get_snapshot("new"))
        service.commit_conversation("talk", {"summary": summary(SECRET)})
        service.set_privacy("talk", consent_capture=f"said {SECRET}")
        service.dispose()
        with RecordService(store) as service:
            record = service.get("talk")
            assert record is not None
            assert record.messages[0].content == "it is ***"
            assert record.messages[0].privacy.contains_secrets
            assert record.messages[0].privacy.redaction_rules_applied == ("github-token",)
            assert (record.title, record.privacy.consent_capture) == ("t ***", "said ***")
            assert service.get(SECRET) is not None
            assert SECRET not in repr([service.list(), *map(service.get, ("talk", "new", SECRET))])
        assert SECRET not in repr(told)
    assert leaks(path) == []


@pytest.mark.checklist("C18")
def test_a_service_may_have_rules_of_its_own(path: Path) -> None:
    """They apply to records only, before those of the store; a repeated message is still stored once."""
    rules = Rules([Rule("ticket", r"ACME-\d+", replacement="[ticket]")])
    with clew.open(path, redact=Rules(builtin())) as store, RecordService(store, redact=rules) as service:
        said = frame(content=f"ACME-12 has {SECRET}")
        made(service, "talk", said)
        record = stored(service.update("talk", {"appendMessages": [said]}))
        assert texts(record) == ["[ticket] has ***"]
        assert set(record.messages[0].privacy.redaction_rules_applied) == {"ticket", "github-token"}
        assert store.sessions.create().append(clew.user("ACME-12")).text == "ACME-12"


@pytest.mark.checklist("C18")
def test_redaction_may_be_turned_off(path: Path) -> None:
    """With ``redact=False`` records are stored as they are."""
    with clew.open(path) as store, RecordService(store, redact=False) as service:
        assert texts(made(service, "talk", frame(content=SECRET))) == [SECRET]


@pytest.mark.parametrize("redact", [None, "secrets", [Rule("ticket", "x")], 1])
def test_other_values_for_redact_are_refused(path: Path, redact: Any) -> None:
    """Only rules, True and False are accepted."""
    with clew.open(path) as store, pytest.raises(Invalid, match="redact takes"):
        RecordService(store, redact=redact)


@pytest.mark.checklist("C13")
def test_require_sealed_refuses_a_plain_store(path: Path) -> None:
    """A service that requires a sealed store is not created on a plain one."""
    with clew.open(path) as store, pytest.raises(Invalid, match="not sealed"):
        RecordService(store, require_sealed=True)
