"""Snapshots in a store: shared messages, deletion, and the cost of saving a long conversation."""

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.convert import convert_session
from clew.errors import Conflict, Corrupted, Invalid, NotFound
from clew.snapshots import Messages, Snapshot, ToolSnapshot, new_snapshot
from clew.store.session import delete_session
from clew.testing.snapshots import sample


@pytest.fixture
def store(tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "chats.db") as opened:
        yield opened
        assert not opened.verify().damage


def said(count: int, start: int = 0) -> list[bytes]:
    return [b'{"role":"user","content":"number %d"}' % number for number in range(start, start + count)]


def taken(messages: Messages, id: str | None = None) -> Snapshot:
    return new_snapshot(provider="claude", messages=messages).replace(id=id or str(uuid.uuid4()))


def stored(store: clew.Store) -> int:
    return store._engine.read(lambda tx: tx.maintenance.sizes())["nodes"]


def test_saving_again_stores_what_is_new(store: clew.Store) -> None:
    """A save of a conversation that has grown stores the rest alone; one that has not stores nothing."""
    messages, id = Messages(said(100)), str(uuid.uuid4())
    store.snapshots.save(taken(messages, id))
    assert stored(store) == 100
    messages.extend(said(2, 100))
    store.snapshots.save(taken(messages, id))
    store.snapshots.save(taken(messages, id))
    assert stored(store) == 102
    assert list(store.snapshots.load(id).parts) == said(102)


def test_saving_looks_at_what_is_new_alone(store: clew.Store) -> None:
    """Messages that are stored already are not read again."""

    class Counting(Messages):
        looks = 0

        def __getitem__(self, at):
            self.looks += 1
            return super().__getitem__(at)

    messages, id = Counting(said(1_000)), str(uuid.uuid4())
    store.snapshots.save(taken(messages, id))
    messages.extend(said(2, 1_000))
    messages.looks = 0
    store.snapshots.save(taken(messages, id))
    assert messages.looks <= 2


def test_another_process_goes_on(tmp_path: Path) -> None:
    """A reopened store finds the messages that are stored already."""
    id = str(uuid.uuid4())
    with clew.open(tmp_path / "s.db") as first:
        first.snapshots.save(taken(Messages(said(50)), id))
    with clew.open(tmp_path / "s.db") as second:
        again = Messages(second.snapshots.load(id).parts)
        again.extend(said(2, 50))
        second.snapshots.save(taken(again, id))
        assert stored(second) == 52
        assert list(second.snapshots.load(id).parts) == said(52)


def test_two_snapshots_of_a_client_share(store: clew.Store) -> None:
    """Each snapshot has the messages of its time, and stays when the other is deleted."""
    messages = Messages(said(10))
    early = taken(messages)
    messages.extend(said(10, 10))
    late = taken(messages)
    store.snapshots.save(late)
    store.snapshots.save(early)
    assert stored(store) == 20
    store.snapshots.delete(late.id)
    assert stored(store) == 10
    assert store.snapshots.load(early.id) == early
    store.snapshots.delete(early.id)
    assert stored(store) == 0


def test_a_copy_of_a_loaded_snapshot_shares(store: clew.Store) -> None:
    """Saving a loaded snapshot under another id neither stores nor reads its messages again."""
    first = taken(Messages(said(10)))
    store.snapshots.save(first)
    copy = store.snapshots.load(first.id).replace(id=str(uuid.uuid4()))
    assert copy.lazy
    store.snapshots.save(copy)
    assert copy.lazy
    assert stored(store) == 10
    store.snapshots.delete(first.id)
    assert store.snapshots.load(copy.id).messages == first.messages
    assert store.snapshots.list()[0].token_count == sum(-(-len(one) // 4) for one in said(10))


def test_going_another_way(store: clew.Store) -> None:
    """A conversation that went back and elsewhere keeps what is common; what only the old one needed goes."""
    id = str(uuid.uuid4())
    store.snapshots.save(taken(Messages(said(10)), id))
    store.snapshots.save(taken(Messages([*said(6), *said(3, 100)]), id))
    assert stored(store) == 9
    store.snapshots.save(taken(Messages(said(3)), id))
    assert stored(store) == 3
    store.snapshots.save(taken(Messages(), id))
    assert stored(store) == 0
    assert store.snapshots.load(id).messages == b"[]"
    store.snapshots.save(taken(Messages(said(2)), id))
    assert list(store.snapshots.load(id).parts) == said(2)


def test_overwriting_with_what_another_tree_has(store: clew.Store) -> None:
    """A snapshot may take over the messages of another one; its own old ones go."""
    one, other = taken(Messages(said(5))), taken(messages := Messages(said(7, 50)))
    store.snapshots.save(one)
    store.snapshots.save(other)
    store.snapshots.save(taken(messages, one.id))
    assert stored(store) == 7
    assert store.snapshots.load(one.id).messages == other.messages
    assert len(store.snapshots.list()) == 2


def test_what_was_undone_is_stored_again(store: clew.Store) -> None:
    """A save inside a transaction that failed leaves nothing, and the next save does not rely on it."""
    messages, id = Messages(said(4)), str(uuid.uuid4())
    with pytest.raises(RuntimeError), store.transaction():
        store.snapshots.save(taken(messages, id))
        raise RuntimeError
    with pytest.raises(NotFound):
        store.snapshots.load(id)
    store.snapshots.save(taken(messages, id))
    assert list(store.snapshots.load(id).parts) == said(4)


def test_a_session_becomes_a_snapshot(store: clew.Store) -> None:
    """Nothing is copied; the snapshot outlives its session, and a new session continues from it."""
    session = store.sessions.create(title="Build", model="a-model")
    session.append([clew.native("claude", raw) for raw in said(6)])
    snapshot = store.snapshots.take(session, system_prompt="Be brief.")
    assert stored(store) == 6
    assert (snapshot.provider, snapshot.model, snapshot.message_count) == ("claude", "a-model", 6)
    session.append(clew.native("claude", b'{"role":"user","content":"later"}'))
    delete_session(session)
    assert store.snapshots.load(snapshot.id).messages == snapshot.messages
    again = store.snapshots.resume(snapshot.id, title="Again")
    assert [node.native.raw for node in again.path() if node.native] == said(6)
    assert (again.title, again.model) == ("Again", "a-model")
    again.append(clew.user("and on"))
    assert store.snapshots.load(snapshot.id).message_count == 6


def test_a_session_in_neutral_form(store: clew.Store) -> None:
    """Neutral messages make a snapshot of clew's own; those of several providers make none."""
    session = store.sessions.create()
    empty = store.snapshots.take(session.id)
    assert (empty.provider, empty.messages) == ("clew", b"[]")
    assert store.snapshots.resume(empty.id).path() == []
    session.append(clew.user("Hello"))
    snapshot = store.snapshots.take(session)
    assert snapshot.messages == b'[{"role":"user","blocks":[{"type":"text","text":"Hello"}]}]'
    assert store.snapshots.load(snapshot.id) == snapshot
    session.append(clew.native("openai", b'{"role":"assistant","content":"Hi"}'))
    with pytest.raises(Invalid, match="clew, openai"):
        store.snapshots.take(session)


@pytest.mark.parametrize("way", ["compacted", "prompted", "elsewhere"])
def test_neutral_messages_that_are_copied(store: clew.Store, way: str) -> None:
    """A snapshot of neutral messages that cannot share them resumes as such, with words and with attachments."""
    session = store.sessions.create()
    picture = session.attach(b"pixels", mime_type="image/png", modality="image")
    said = [clew.user("A c4nary", *([] if way == "elsewhere" else [picture])), clew.assistant("Yes")]
    session.append(said)
    if way == "compacted":
        session.compact(said)
    taken = store.snapshots.take(session, system_prompt="Be brief." if way == "prompted" else None)
    if way == "elsewhere":
        taken = Snapshot.from_json(taken.to_json()).replace(id=str(uuid.uuid4()))
        store.snapshots.save(taken)
    assert store.sessions.purge(session.id).failures == ()
    again = store.snapshots.resume(taken.id)
    nodes = again.path()[-2:]
    assert [node.said for node in nodes] == said
    assert store.snapshots.load(taken.id).messages == taken.messages
    if way != "elsewhere":
        assert again.blobs.get(picture.blob or "") == b"pixels"


def test_messages_that_a_snapshot_needs(store: clew.Store) -> None:
    """Deleting them by name is refused while the snapshot is there."""
    session = store.sessions.create()
    node = session.append(clew.native("claude", said(1)[0]))
    snapshot = store.snapshots.take(session)
    with pytest.raises(Conflict, match=snapshot.id):
        store.nodes.delete([node.id])
    store.snapshots.delete(snapshot.id)
    store.nodes.delete([node.id])


def test_a_purge_leaves_what_a_snapshot_keeps(store: clew.Store) -> None:
    """A snapshot is independent: the receipt of its purged session lists it, and a hold does not cover it."""
    session = store.sessions.create()
    session.append([clew.native("claude", raw) for raw in said(3)])
    snapshot = store.snapshots.take(session)
    session.append(clew.native("claude", said(1, 3)[0]))
    receipt = store.sessions.purge(session.id)
    assert [(one.session, one.messages, one.needed_by) for one in receipt.kept] == [(session.id, 3, (snapshot.id,))]
    assert list(store.snapshots.load(snapshot.id).parts) == said(3)
    held = store.snapshots.resume(snapshot.id)
    held.hold("Audit")
    store.snapshots.delete(snapshot.id)
    assert [node.native.raw for node in held.path() if node.native] == said(3)
    held.release()


@pytest.mark.parametrize("way", ["compacted", "converted"])
def test_a_snapshot_keeps_only_what_it_shows(store: clew.Store, way: str) -> None:
    """Messages that a compaction or a conversion has replaced go with their session: no snapshot keeps them."""
    session = store.sessions.create()
    session.append([clew.user("c4nary question"), clew.assistant("c4nary answer")])
    if way == "compacted":
        session.compact(clew.user("A summary"))
        frozen = store.snapshots.take(session)
    else:
        derived = convert_session(store, session, to="openai").session
        frozen = store.snapshots.take(derived)
        delete_session(derived)
    shown = frozen.message_count
    receipt = store.sessions.purge(session.id)
    assert receipt.kept == ()
    assert stored(store) == shown
    assert [hit.node.text for hit in store.search("question")] == ([] if way == "compacted" else ["c4nary question"])
    again = store.snapshots.resume(frozen.id)
    assert again.counters.messages == shown
    assert store.snapshots.load(frozen.id).messages == frozen.messages


@pytest.mark.parametrize("key", [None, bytes(range(32))])
def test_a_purged_snapshot_is_gone(tmp_path: Path, key: bytes | None) -> None:
    """Of a snapshot that was purged no file has a trace; what a session shares stays, and the receipt says so."""
    with clew.open(tmp_path / "s.db", key=key, audit=True) as store:
        mine = sample(model="canary", system_prompt="canary", messages=b'[{"role":"user","content":"a canary"}]')
        store.snapshots.save(mine)
        assert [hit.session for hit in store.search("canary")] == [None, None]  # the message, and the system prompt
        receipt = store.snapshots.purge(mine.id, reason="privacy-policy-change")
        assert (receipt.sessions, receipt.messages, receipt.kept, receipt.pending) == ((mine.id,), 2, (), ())
        for path in tmp_path.iterdir():
            assert b"canary" not in path.read_bytes(), path
        assert store.search("canary") == [] == store.snapshots.list()
        session = store.sessions.create()
        session.append(clew.native("claude", said(1)[0]))
        shared = store.snapshots.take(session)
        receipt = store.snapshots.purge(shared.id)
        assert [(one.session, one.messages, one.needed_by) for one in receipt.kept] == [(shared.id, 1, (session.id,))]
        assert len(session.path()) == 1
        with pytest.raises(NotFound):
            store.snapshots.purge(shared.id)
        store.snapshots.save(mine)
        store.snapshots.delete(mine.id)
        done = [(deed.kind, deed.subject) for deed in store.audit.read() if deed.subject in (mine.id, shared.id)]
        assert done == [("purge", mine.id), ("purge", shared.id), ("delete", mine.id)]


def test_snapshots_are_not_sessions(store: clew.Store) -> None:
    """They are not listed, found or continued as such; what they say is found by a search."""
    store.snapshots.save(taken(Messages([b'{"role":"user","content":"a zephyr"}'])))
    assert store.sessions.list().items == []
    assert [hit.session for hit in store.search("zephyr")] == [None]


def test_workspaces_are_apart(tmp_path: Path) -> None:
    """A snapshot of one workspace is not there for another."""
    snapshot = sample()
    with clew.open(tmp_path / "s.db", workspace="a") as a, clew.open(tmp_path / "s.db", workspace="b") as b:
        a.snapshots.save(snapshot)
        assert b.snapshots.list() == []
        with pytest.raises(NotFound):
            b.snapshots.load(snapshot.id)
        b.snapshots.save(snapshot.replace(model="b's"))
        assert a.snapshots.load(snapshot.id) == snapshot


def test_messages_are_read_late(tmp_path: Path) -> None:
    """A loaded snapshot reads its messages on first access, and raises NotFound if they were deleted."""
    with clew.open(tmp_path / "s.db") as store:
        snapshot = taken(Messages(said(3)))
        store.snapshots.save(snapshot)
        kept, lost = store.snapshots.load(snapshot.id), store.snapshots.load(snapshot.id)
        assert kept.messages == snapshot.messages
        store.snapshots.delete(snapshot.id)
        assert kept.messages == snapshot.messages
        assert lost.message_count == 3
        with pytest.raises((NotFound, Corrupted)):
            _ = lost.messages


def test_many_are_listed(store: clew.Store) -> None:
    """A list has more than one page."""
    with store.transaction():
        saved = [sample(messages=b"[]") for _ in range(450)]
        for snapshot in saved:
            store.snapshots.save(snapshot)
    assert [one.id for one in store.snapshots.list()] == [
        one.id for one in sorted(saved, key=lambda one: (one.created_at, one.id), reverse=True)
    ]


def test_two_clients_under_one_id(store: clew.Store) -> None:
    """The last save wins completely, and leaves nothing of the others."""
    id = str(uuid.uuid4())

    def talk(number: int) -> None:
        messages = Messages()
        for turn in range(15):
            messages.append(b'{"role":"user","content":"%d of %d"}' % (turn, number))
            store.snapshots.save(taken(messages, id))

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = list(store.snapshots.load(id).parts)
    assert stored(store) == len(found)
    assert len({raw.rsplit(b" ", 1)[1] for raw in found}) == 1


def test_others_who_are_always_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save succeeds even if others save all the time: its last try makes them wait."""
    with clew.open(tmp_path / "s.db") as store, clew.open(tmp_path / "s.db") as others:
        mine, plan, tried = taken(Messages(said(2))), store.snapshots._plan, list[bool]()

        def overtaken(*given: Any) -> Any:
            found = plan(*given)
            tried.append(store._engine.backend.in_transaction())
            return found

        def put(*given: Any) -> Any:
            if not tried[-1]:
                others.snapshots.save(mine.replace(messages=b'[{"role":"user","content":"%d"}]' % len(tried)))
            return stored_put(*given)

        stored_put = store.snapshots._put
        monkeypatch.setattr(store.snapshots, "_plan", overtaken)
        monkeypatch.setattr(store.snapshots, "_put", put)
        store.snapshots.save(mine)
        assert tried == [*[False] * (len(tried) - 1), True]
        assert list(others.snapshots.load(mine.id).parts) == said(2)
        assert stored(store) == 2
        assert not store.verify().damage


def test_sealed_snapshots_show_nothing(tmp_path: Path) -> None:
    """Of a snapshot in a sealed store nothing is readable in the files."""
    with clew.open(tmp_path / "s.db", key=bytes(range(32))) as store:
        around: dict[str, Any] = {
            "model": "canary", "system_prompt": "canary", "metadata": {"canary": "canary"},
            "tools": [ToolSnapshot("canary", "canary", {"canary": "canary"})],
        }  # fmt: skip
        store.snapshots.save(sample(messages=b'[{"role":"user","content":"canary"}]', provider="canary", **around))
        store.snapshots.save(sample(messages=b'{"canary":["canary"]}', **around))
        session = store.sessions.create()
        session.append(clew.user("canary"))
        store.snapshots.take(session, **around)
        assert store.search("canary")
        for path in tmp_path.iterdir():
            assert b"canary" not in path.read_bytes(), path


def test_a_commit_in_doubt(store: clew.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the result of a commit is unknown, the save checks the store and does not repeat a stored one."""
    messages, id = Messages(said(3)), str(uuid.uuid4())
    write, doubts = store._engine.write, []

    def in_doubt(work, settle=None):
        write(work)
        doubts.append(store._engine.read(settle))
        return doubts[-1]

    monkeypatch.setattr(store._engine, "write", in_doubt)
    store.snapshots.save(taken(messages, id))
    store.snapshots.save(taken(messages, id))
    messages.extend(said(1, 3))
    store.snapshots.save(taken(messages, id))
    assert len(doubts) == 3 and all(doubts)
    assert stored(store) == 4
