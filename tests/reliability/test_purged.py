"""P5: purged is gone. Nothing of it is in any file, while the store is open, and no key is left that would open it."""

from __future__ import annotations

import random
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import clew
from clew.backends import BODY
from clew.backends.sqlite.cleaning import clean as scrub
from clew.engine.node import body_context, node_row
from clew.engine.receipts import Receipt
from clew.engine.sealing.envelope import Plain, run_owner
from clew.engine.sealing.sealed import SealedBox, SealedSeal
from clew.errors import Conflict, NotFound
from clew.store.parts import Parts
from clew.store.session import delete_session
from clew.store.store import Store
from tests.reliability import sample
from tests.reliability.canaries import canary, content, found
from tests.reliability.tools import output, python

SAID = (
    "text", "long", "title", "label", "cwd", "extra", "arguments", "attachment", "file name", "log", "branch",
    "subagent", "summary", "last",
)  # fmt: skip
WORDS = {name: canary(random.Random(name)) for name in SAID}


def secret(store: Store, words: dict[str, str] = WORDS) -> clew.Session:
    """A session in which every word is said."""
    session = store.sessions.create(
        title=words["title"], labels=[words["label"]], cwd=f"/{words['cwd']}", extra={"x": words["extra"]}
    )
    session.append([clew.user(f"{words['text']} {number}") for number in range(30)])
    session.append(clew.user(f"{words['long']} " * 2000))
    call = clew.ToolCall(id="c", name="grep", arguments={"for": words["arguments"]})
    at = session.append(clew.assistant(call))
    shown = session.attach(f"{words['attachment']} ".encode() * 10_000, mime_type="a/b", name=words["file name"])
    session.append(clew.user("look", shown))
    session.log.append([words["log"].encode()] * 20)
    session.append(clew.user(words["branch"]))
    session.rewind(to=at.id)
    store.sessions.create(agent="a", owner=session).append(clew.user(words["subagent"]))
    session.compact(clew.system(words["summary"]))
    session.append([clew.user(words["last"]), clew.assistant("yes")])
    return session


def others(store: Store) -> dict[str, list[str]]:
    """What the rest of the store says."""
    return {one.id: [node.text for node in one.history()] for one in store.sessions.list(limit=100).items}


def data_keys(path: Path) -> set[bytes]:
    """The data keys in a store, as they are stored; without what is the same for all."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as conn:
        tables = ("runs", "refs", "blobs")
        rows = [row[0] for table in tables for row in conn.execute(f"SELECT wrapped_key FROM {table}")]
    return {row[-48:] for row in rows if row is not None}


@pytest.fixture(params=sample.KEYS)
def key(request: pytest.FixtureRequest) -> bytes | None:
    return sample.KEYS[request.param]


@pytest.fixture
def full(path: Path, key: bytes | None) -> Iterator[Store]:
    """A store with something of everything in it."""
    with clew.open(path, key=key) as store:
        sample.fill(store, words=20)
        yield store


def test_nothing_is_left_while_the_store_is_open(full: Store, path: Path) -> None:
    """Of a purged session no word is in a row, a free page, the write-ahead log or the index, and no data key."""
    before, keys = others(full), data_keys(path)
    session = secret(full)
    sample.fill(full, words=20, seed=8)  # so that its rows are not the last in the file
    after = {id: texts for id, texts in others(full).items() if id not in before and id != session.id}
    assert len(full.search(WORDS["last"])) == 1
    assert len(full.search(WORDS["text"][3:12], mode="substring", limit=50)) == 30
    own = data_keys(path) - keys
    receipt = full.sessions.purge(session.id)
    assert (receipt.pending, receipt.failures, receipt.kept) == ((), (), ())
    assert receipt.finished_at is not None
    assert (receipt.sessions, receipt.messages, receipt.blobs) == ((session.id,), 38, 1)
    left = content(path)
    assert found(WORDS, left) == []
    gone = own - data_keys(path)
    assert len(gone) == (7 if keys else 0)
    assert not [one for one in gone if one in left]
    with pytest.raises(NotFound):
        full.sessions.get(session.id)
    assert full.search(WORDS["last"]) == []
    assert full.verify().damage == []
    assert others(full) == {**after, **before}
    assert found(WORDS, content(path)) == []


def test_rows_that_were_moved_between_pages(path: Path, key: bytes | None) -> None:
    """Sessions that were written by turns left copies of rows where pages were split; those go as well."""
    chance, words = random.Random(3), {}
    with clew.open(path, key=key) as store:
        with store.transaction():
            sessions = [store.sessions.create(title=str(number)) for number in range(100)]
            for turn in range(6):
                for session in chance.sample(sessions, 60):
                    word = words[f"{session.id} {turn}"] = canary(chance)
                    session.append(clew.user(" ".join([word] * chance.randint(1, 60))))
        gone = {session.id for session in chance.sample(sessions, 40)}
        assert store.sessions.purge(gone).pending == ()
        left = content(path)
        assert [name for name, word in words.items() if name[:36] in gone and word[5:25].encode() in left] == []
        assert scrub(str(path), write=False).stale == 0
        assert store.verify().damage == []


def test_the_file_shrinks(full: Store, path: Path) -> None:
    """What the purged session took is given back."""
    full.sessions.purge(secret(full).id)
    before = path.stat().st_size
    session = secret(full)
    full.sessions.purge(session.id)
    assert path.stat().st_size <= before + 16 * 4096


def test_another_process_does_not_bring_it_back(full: Store, path: Path, key: bytes | None) -> None:
    """A process with pages of the purged session in memory writes on, and the words stay gone."""
    session = secret(full)
    code = f"""
import sys, clew
store = clew.open(sys.argv[1], key={key!r})
session = store.sessions.latest()
session.append(clew.user("in between"))
other = store.sessions.create(title="other")
print(len(session.path()), flush=True)
sys.stdin.readline()
for number in range(30):
    other.append(clew.user(f"more {{number}} " * 20))
print("done", flush=True)
sys.stdin.readline()
"""
    other = python(code, path)
    assert other.stdin is not None
    assert other.stdout is not None
    assert int(other.stdout.readline()) > 2
    assert full.sessions.purge(session.id).pending == ()
    other.stdin.write("go on\n")
    other.stdin.flush()
    assert other.stdout.readline() == "done\n"
    assert found(WORDS, content(path)) == []
    output(other)
    assert found(WORDS, content(path)) == []


def test_what_a_fork_shares_gets_another_key(path: Path) -> None:
    """The shared beginning stays readable, under a new key: the old one, taken out before, opens nothing any more."""
    with clew.open(path, key=sample.KEYS["sealed"]) as store:
        session = store.sessions.create(title="first")
        nodes = session.append([clew.user(f"{number} {WORDS['text']}") for number in range(20)])
        fork = session.fork(at=nodes[4].id, title="fork")
        fork.append(clew.user("more"))
        seal, run = (
            Parts.of(store).engine.seal,
            Parts.of(store).engine.read(lambda tx: tx.run(node_row(nodes[0])[0] >> 24)),
        )
        assert isinstance(seal, SealedSeal)
        assert run is not None
        assert run.wrapped_key is not None
        old = seal._unwrap(run.wrapped_key, run_owner(run.tree, run.run))
        id = Parts.of(store).engine.store_id
        box = SealedBox(id, old, Plain(id, lambda: None), lambda: False)

        def opens(node: clew.Node) -> bool:
            body = b"\x02" + old[0][0] + node_row(node)[BODY][9:]  # as if it said that it is under the old key
            return box.open(body, body_context(node)) is not None

        assert all(map(opens, session.path()))
        receipt = store.sessions.purge(session.id)
        assert receipt.messages == 15
        assert [(one.session, one.messages, one.needed_by) for one in receipt.kept] == [(session.id, 5, (fork.id,))]
        texts = [node.text for node in fork.path()]
        assert texts == [*(f"{number} {WORDS['text']}" for number in range(5)), "more"]
        assert not any(map(opens, fork.path()))
        left = content(path)
        assert run.wrapped_key[-48:] not in left
        assert run.wrapped_key[9:17] not in left, "the id of the old data key"
        assert store.verify().damage == []


def test_the_receipt_has_no_content(full: Store) -> None:
    """A receipt says what went by ids and numbers alone, and is found again, later too."""
    session = secret(full)
    session.hold(WORDS["log"])
    refused = full.sessions.purge(session.id, reason="policy-update")
    assert [one.session for one in refused.failures] == [session.id]
    assert (refused.sessions, refused.pending) == ((), ())
    session.release()
    receipt = full.sessions.purge(session.id, reason="policy-update")
    assert full.sessions.receipts() == [receipt]
    assert found(WORDS, repr([refused, receipt]).encode()) == []
    with clew.open(full.path, key=Parts.of(full).engine.key) as again:
        assert again.sessions.receipts() == [receipt]


def test_what_is_held_stays(full: Store, path: Path) -> None:
    """Everything is purged but a held session, which is named, and goes on being readable."""
    held = secret(full).hold("needed")
    gone = secret(full, {name: canary(random.Random(f"other {name}")) for name in SAID})
    texts = [node.text for node in held.history()]
    receipt = full.sessions.purge(everything=True)
    assert [one.session for one in receipt.failures] == [held.id]
    assert "held" in receipt.failures[0].error
    assert gone.id in receipt.sessions
    assert [one.id for one in full.sessions.list().items] == [held.id]
    assert [node.text for node in full.sessions.get(held.id).history()] == texts
    with pytest.raises(Conflict):
        delete_session(held)
    others_said = {name: canary(random.Random(f"other {name}")) for name in SAID}
    assert found(others_said, content(path)) == []
    assert full.verify().damage == []


def test_the_trash_is_purged(full: Store, path: Path) -> None:
    """What lies in the trash is as gone as the rest once it is purged; what does not stays."""
    before = others(full)
    secret(full).trash()
    receipt = full.sessions.purge(trashed=True)
    assert len(receipt.sessions) == 1
    assert found(WORDS, content(path)) == []
    assert others(full) == before


READ = """
import sqlite3, sys
conn = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True, isolation_level=None)
conn.execute("BEGIN")
conn.execute("SELECT count(*) FROM nodes").fetchone()
print("reading", flush=True)
sys.stdin.readline()
"""


@contextmanager
def reader(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process in the middle of a read transaction."""
    process = python(READ, path)
    assert process.stdout is not None
    assert process.stdout.readline() == "reading\n"
    try:
        yield process
    finally:
        output(process)


def pending(store: Store, path: Path) -> Receipt:
    """The receipt of a purge that a reader was in the way of."""
    session = secret(store)
    with reader(path):
        receipt = store.sessions.purge(session.id)
        assert receipt.pending == ("wal",)
        assert receipt.finished_at is None
        assert store.sessions.receipts() == [receipt]
        with pytest.raises(NotFound):
            store.sessions.get(session.id)
    return receipt


def finished(store: Store, receipt: Receipt) -> None:
    (now,) = store.sessions.receipts()
    assert now == receipt._replace(pending=(), finished_at=now.finished_at)
    assert now.finished_at is not None


def test_a_reader_is_in_the_way_until_the_next_write(full: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While somebody reads, the receipt says what is pending; the next write after that finishes it."""
    monkeypatch.setattr("clew.engine.engine.RETRY_SECONDS", 0.0)
    receipt = pending(full, path)
    full.sessions.create(title="next")
    assert found(WORDS, content(path)) == []
    finished(full, receipt)


def test_a_reader_is_in_the_way_until_the_close(path: Path, key: bytes | None) -> None:
    """The same, and nobody writes: closing the store finishes it."""
    with clew.open(path, key=key) as store:
        sample.fill(store, words=20)
        receipt = pending(store, path)
    assert found(WORDS, content(path)) == []
    with clew.open(path, key=key) as store:
        finished(store, receipt)


def test_a_reader_is_in_the_way_of_everybody_until_the_next_open(path: Path, key: bytes | None) -> None:
    """The same, and the reader stays longer than the store is open: whoever opens it next finishes it."""
    with clew.open(path, key=key) as store:
        session = secret(store)
        with reader(path):
            receipt = store.sessions.purge(session.id)
            store.close()
            assert receipt.pending == ("wal",)
    with clew.open(path, key=key) as store:
        assert store.sessions.receipts() == [receipt]
    assert found(WORDS, content(path)) == []
    with clew.open(path, key=key) as store:
        finished(store, receipt)
