"""Removing a secret from a stored message: everywhere it is shown, and nowhere else is anything changed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clew
from clew.backends import BODY, MAX_SEQ, SEQ_BITS
from clew.engine.node import body_context, node_row, run_info
from clew.engine.sealing.envelope import log_context, ref_context
from clew.errors import Conflict, NotFound
from clew.redaction import Rule, Rules
from clew.store.parts import Parts
from clew.store.redact_message import RedactedMessage, redact_message
from clew.store.session import row_of
from tests.reliability.canaries import canary, content, found

RULES = Rules([Rule("code", r"zq[a-z]{28}", replacement="[code]")])
KEYS = {"plain": None, "sealed": bytes(range(32))}
Steps = list[tuple[int, int]]


def secret(number: int) -> str:
    """A value that the rule finds; another for each number."""
    return "zq" + canary(random.Random(number))[2:]


@pytest.fixture(params=list(KEYS))
def key(request: pytest.FixtureRequest) -> bytes | None:
    return KEYS[request.param]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


@pytest.fixture
def store(path: Path, key: bytes | None) -> Iterator[clew.Store]:
    with clew.open(path, key=key) as store:
        yield store


def apply(store: clew.Store, id: str, **how: Any) -> RedactedMessage:
    return redact_message(store, store.nodes.get(id)[0], RULES, **how)


def everything(store: clew.Store) -> dict[str, Any]:
    """What can be read of a store: each message, and what every conversation shows."""
    rows: dict[str, Any] = {node.id: (node.parent_id, node.said, node.counters) for node in store.nodes.list().all()}
    live = [*store.sessions.list().all(), *store.sessions.list(subagents=True).all()]
    sessions = [*live, *store.sessions.trashed().all()]
    for one in sessions:
        ways = (
            []
            if one.trashed_at
            else [[node.id for node in store.nodes.path(branch.head_id)] for branch in one.branches()]
        )
        shown = [] if one.trashed_at else [[node.id for node in way] for way in (one.history(), one.path())]
        rows[f"session {one.id}"] = one.title, one.head_id, shown, ways
    return rows


def talk(store: clew.Store, steps: Steps) -> list[str]:
    """Makes conversations as the steps say; returns the ids of all messages with a secret."""
    sessions = [store.sessions.create(title="First")]
    secrets: list[str] = []
    for number, (what, which) in enumerate(steps):
        session = sessions[which % len(sessions)]
        path = session.path()
        if what < 4 or not path:
            said = clew.user(f"word{number} {secret(number)} end") if what % 2 == 0 else clew.assistant(f"word{number}")
            node = session.append(said)
            secrets += [node.id] if what % 2 == 0 else []
        elif what == 4:
            sessions.append(session.fork(at=path[which % len(path)].id, title=f"Fork {number}"))
        elif what == 5:
            session.rewind(path[which % len(path)].id)
        elif what == 6:
            session.compact(clew.system(f"summary{number}"))
        elif what == 7:
            call = clew.ToolCall(id=f"c{number}", name="run", arguments={"key": secret(number)})
            secrets.append(session.append(clew.assistant(call)).id)
            session.append(clew.tool(f"done {number}", call_id=f"c{number}"))
        elif what == 8:
            trace = store.sessions.create(agent="helper", owner=session, title="trace")
            secrets.append(trace.append(clew.user(f"task{number} {secret(number)}")).id)
        elif len(sessions) > 1:
            sessions.remove(session)
            session.trash()
    return secrets


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 7)), max_size=14), pick=st.integers(0, 50))
@pytest.mark.parametrize("key", list(KEYS.values()), ids=list(KEYS), indirect=False)
def test_only_that_value_is_gone(tmp_path_factory, key, steps: Steps, pick: int) -> None:
    """Forks, branches, compactions, traces and the trash show the new version; all the rest is as it was."""
    path = tmp_path_factory.mktemp("redact") / "chats.db"
    with clew.open(path, key=key, durability="relaxed") as store:
        secrets = talk(store, [(0, 0), *steps])
        wanted = secrets[pick % len(secrets)]
        before = everything(store)
        (value,) = {word for word in _words(store, wanted) if word.startswith("zq")}
        done = apply(store, wanted)
        after = everything(store)
        parent, said, counters = before.pop(wanted)
        clean: Any = clew.redaction.redact(said, RULES).said
        now = after.pop(wanted)
        assert (now[0], now[1].blocks, now[2]) == (parent, clean.blocks, counters)
        assert after == before
        assert {*done.sessions} >= {
            name.partition(" ")[2]
            for name, row in before.items()
            if name.startswith("session") and row[2] and wanted in row[2][0]
        }
        assert done.receipt is not None and not done.receipt.pending and not done.receipt.failures
        assert not found({"it": value}, content(path))
        assert store.verify().ok
        assert not store.search(value)
        for one in store.sessions.list().all():
            one.append(clew.user("more"))
    with clew.open(path, key=key) as store:
        assert store.verify().ok
        assert value not in str(everything(store))


def _words(store: clew.Store, id: str) -> set[str]:
    return {*str(store.nodes.get(id)[0].said).replace("'", " ").replace('"', " ").split()}


def test_titles_and_records_that_repeat_it(store: clew.Store, path: Path) -> None:
    """Title, data, labels and log of each conversation lose the value, too, even if a title was cut within it."""
    value = secret(1)
    session = store.sessions.create(title=f"Use {value}", labels=[f"l-{value}"], extra={"note": [value]})
    node = session.append(clew.user(f"{'x' * 40} {value} and more"))
    session.log.append([b'\x01{"copy": "%s"}' % value.encode(), b"\x01{}", f"text {value}".encode()])
    cut = session.fork(title=f"{'x' * 40} {value[:18]}…")
    other = store.sessions.create(title="Another one")
    other.append(clew.user(value))
    would = apply(store, node.id, dry_run=True)
    assert (would.copies, {*would.sessions}) == (4, {session.id, cut.id})
    assert value in str(everything(store)) and not store.sessions.receipts()
    done = apply(store, node.id)
    assert done.copies == 4 and done.receipt is not None
    assert {*done.receipt.redacted} == {session.id, cut.id}
    assert done.receipt.messages == 1 and store.sessions.receipts() == [done.receipt]
    session, cut = session.refresh(), cut.refresh()
    assert (session.title, session.labels, session.extra["note"]) == ("Use [code]", ("l-[code]",), ["[code]"])
    assert value[:6] not in str(cut.title)
    assert [entry.data for entry in session.log.read()] == [b'\x01{"copy": "[code]"}', b"\x01{}", b"text [code]"]
    assert {one.id for one in store.sessions.list(label="l-[code]").items} == {session.id, cut.id}
    assert other.path()[0].text == value
    assert store.verify().ok


def test_a_hold_keeps_it(store: clew.Store) -> None:
    """Nothing changes while a conversation that has the message is held."""
    session = store.sessions.create()
    node = session.append(clew.user(secret(1)))
    fork = session.fork()
    fork.hold("needed")
    before = everything(store)
    with pytest.raises(Conflict, match=f"session {fork.id} is held"):
        apply(store, node.id)
    assert everything(store) == before and not store.sessions.receipts()
    fork.release()
    assert apply(store, node.id).findings


def test_nothing_found(store: clew.Store) -> None:
    """Without a match nothing is changed, and there is no receipt."""
    node = store.sessions.create().append(clew.user("hello"))
    assert apply(store, node.id) == RedactedMessage(node.id, (), (), 0, None)
    with pytest.raises(NotFound):
        apply_to_deleted(store)


def apply_to_deleted(store: clew.Store) -> None:
    node = store.sessions.create().append(clew.user(secret(1)))
    store.nodes.delete(node.id)
    redact_message(store, node, RULES)


def test_others_go_on(path: Path, key: bytes | None, store: clew.Store) -> None:
    """A program that has the conversation open can append, and its search forgets the value and finds the rest."""
    session = store.sessions.create()
    node = session.append(clew.user(f"needle {secret(1)}"))
    with clew.open(path, key=key) as other:
        theirs = other.sessions.get(session.id)
        theirs.append(clew.assistant("ok"))
        assert other.search("needle") and other.search(secret(1))
        assert apply(store, node.id).receipt is not None
        theirs.append(clew.user("next"))
        session.refresh().append(clew.assistant("last"))
        assert [one.text for one in theirs.path()] == ["needle [code]", "ok", "next", "last"]
        assert [hit.node.id for hit in other.search("needle")] == [node.id]
        assert not other.search(secret(1))
        assert other.verify().ok


def test_repeating_the_append_does_not_bring_it_back(store: clew.Store) -> None:
    """The id is taken: a retry of the append that stored the secret is a conflict."""
    session = store.sessions.create()
    node = session.append(clew.user(secret(1)))
    apply(store, node.id)
    with pytest.raises(Conflict):
        session.append(clew.user(secret(1)), id=node.id)
    assert session.path()[0].text == "[code]"


def test_a_snapshot_has_the_new_version(store: clew.Store) -> None:
    """A snapshot of the conversation is read without the value, and so is what it says of itself."""
    session = store.sessions.create()
    node = session.append(clew.user(f"say {secret(1)}"))
    session.append(clew.assistant("yes"))
    id = store.snapshots.take(session, metadata={"note": secret(1)}).id
    apply(store, node.id)
    assert secret(1) not in store.snapshots.load(id).to_json().decode()
    assert store.verify().ok


def test_no_key_opens_the_old_bytes(path: Path) -> None:
    """In a sealed store the old bytes of message, log and title cannot be read with any key that is left."""
    with clew.open(path, key=KEYS["sealed"]) as store:
        parts = Parts.of(store)
        session = store.sessions.create(title=secret(1))
        nodes = session.append([clew.user("before"), clew.user(secret(1)), clew.user("after")])
        session.log.append([secret(1).encode(), b"other"])

        def rows() -> tuple[Any, Any, Any]:
            ref = row_of(session.refresh())
            log = parts.engine.read(lambda tx: tx.log_range(ref.ref << SEQ_BITS, ref.ref << SEQ_BITS | MAX_SEQ, 9))
            return store.nodes.get(nodes[1].id)[0], ref, log[0]

        old, old_ref, old_entry = rows()
        apply(store, nodes[1].id)
        new, new_ref, _ = rows()
        box = parts.refs.box(new_ref)
        assert run_info(new).box.open(node_row(old)[BODY], body_context(old)) is None
        assert box.open(old_ref.data, ref_context(old_ref)) is None
        assert box.open(old_entry.body, log_context(*old_entry[:3])) is None
        assert [one.text for one in session.path()] == ["before", "[code]", "after"]
        assert [entry.data for entry in session.log.read()] == [b"[code]", b"other"]
