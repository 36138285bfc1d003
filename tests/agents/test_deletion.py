"""Deleted data is also deleted from mirrors, or the receipt says where it remains."""

from __future__ import annotations

import json
import shutil
import sqlite3
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

import clew
import clew.engine.mirrors
from clew import agents, retention
from clew.agents import Mirror
from clew.agents.store import store_of
from clew.cli.root import cli
from clew.engine.receipts import Receipt
from clew.errors import Conflict
from clew.records import RecordService
from clew.retention import Policy
from clew.store.parts import Parts
from clew.store.session import delete_session
from clew.store.store import Store
from clew.testing import FakeClock
from tests.reliability.tools import output, python

WORD = "xylophone"
PROGRAM = "import runpy; runpy.run_module('clew', run_name='__main__', alter_sys=True)"


def words_in(root: Path) -> list[Path]:
    return [file for file in root.rglob("*") if file.is_file() and WORD.encode() in file.read_bytes()]


def by_records(store: Store, id: str) -> tuple[str, ...]:
    with RecordService(store) as service:
        return tuple(one.error for one in service.delete(id, "user-requested").failures)


def by_sweep(store: Store, id: str) -> Receipt | None:
    retention.set_policy(store, Policy(1, share=1.0))
    return retention.sweep(store, force=True).receipt


WAYS: dict[str, Callable[[Store, str], object]] = {
    "purge": lambda store, name: store.sessions.purge(name),
    "everything": lambda store, name: store.sessions.purge(everything=True),
    "session": lambda store, name: delete_session(store.sessions.get(name)),
    "sessions": lambda store, name: store.sessions.get(name).purge(),
    "nodes": lambda store, name: store.nodes.delete(store.sessions.get(name).path()[0].id, recursive=True),
    "records": by_records,
    "sweep": by_sweep,
    "agents": lambda store, name: agents.SessionStore(store).delete(name),
    "cleanup": lambda store, name: agents.SessionStore(store).cleanup(older_than=timedelta(days=1)),
}


@pytest.mark.parametrize("key", [None, bytes(range(32))], ids=["plain", "sealed"])
@pytest.mark.parametrize("way", WAYS)
def test_it_goes_from_the_mirror(path: Path, root: Path, way: str, key: bytes | None) -> None:
    """A store that was opened without the mirror clears it: its own files and those of subagents."""
    clock = FakeClock()
    with clew.open(path, clock=clock, key=key) as store:
        talks = agents.SessionStore(store, mirror=Mirror(store, root, clear=True))
        session = talks.create(cwd="/src")
        session.append_and_save(clew.user(WORD))
        session.append_event({"type": WORD})
        if way != "nodes":
            talks.create(cwd="/src", agent_name="a", parent=session).append_and_save(clew.user(WORD))
        other = talks.create(cwd="/src")
        other.append_and_save(clew.user("stays"))
        talks.flush()
        assert words_in(root)
        talks.close()
    clock.advance(timedelta(days=3))
    with clew.open(path, clock=clock, key=key) as store:
        WAYS[way](store, session.id)
        assert words_in(root) == []
        if way not in ("everything", "sweep", "cleanup"):
            assert (next(root.glob(f"*/sessions/{other.id}")) / "messages.jsonl").exists()
        assert store.verify().ok


def test_the_program_clears_it(path: Path, root: Path) -> None:
    """`clew purge` clears every trace, also in a mirror that was not passed to it."""
    with agents.open(path, mirror=root) as talks:
        session = talks.create(cwd="/src")
        session.append_and_save(clew.user(WORD))
    said = output(python(PROGRAM, "purge", "--yes", session.id, "--db", path))
    assert "all traces in the files are cleared" in said
    assert words_in(root) == []


def test_a_mirror_that_cannot_be_reached_is_named(path: Path, root: Path, tmp_path: Path) -> None:
    """The receipt names the folder; once it is back, the next purge removes the files, and finishes the receipt."""
    with agents.open(path, mirror=root) as talks:
        first, second = talks.create(cwd="/src"), talks.create(cwd="/src")
        for one in (first, second):
            one.append_and_save(clew.user(WORD))
    away = tmp_path / "away"
    root.rename(away)
    with clew.open(path) as store:
        receipt = store.sessions.purge(first.id)
        assert (receipt.sessions, receipt.pending) == ((first.id,), (f"mirror {root}",))
        assert receipt.finished_at is None
        said = output(python(PROGRAM, "receipts", "--db", path))
        assert str(root) in said
        root.mkdir()  # not the mirror, whatever it is
        assert delete_session(store.sessions.get(second.id)).pending == ("traces", f"mirror {root}")
        root.rmdir()
        away.rename(root)
        assert words_in(root)
        session = store.sessions.create()
        assert store.sessions.purge(session.id).pending == ()
        assert words_in(root) == []
        assert [one.pending for one in store.sessions.receipts()] == [(), ()]


def test_opening_the_mirror_removes_what_is_left(path: Path, root: Path, tmp_path: Path) -> None:
    """Data deleted while the folder was unavailable is removed when the mirror is opened, before any write."""
    with agents.open(path, mirror=root) as talks:
        session = talks.create(cwd="/src")
        session.append_and_save(clew.user(WORD))
    root.rename(tmp_path / "away")
    with clew.open(path) as store:
        assert store.sessions.purge(session.id).pending
    (tmp_path / "away").rename(root)
    with agents.open(path, mirror=root):
        assert words_in(root) == []
    with clew.open(path) as store:
        assert [one.pending for one in store.sessions.receipts()] == [()]


def test_a_cleanup_does_not_need_the_mirror(path: Path, root: Path, tmp_path: Path) -> None:
    """A folder that is away, or is something else now, keeps no session from going; the receipt names it."""
    clock = FakeClock()
    with clew.open(path, clock=clock) as store:
        mirror = Mirror(store, root)
        talks = agents.SessionStore(store, mirror=mirror)
        sessions = [talks.create(cwd="/src") for _ in range(2)]
        sessions[0].append_and_save(clew.user(WORD))
        clock.advance(timedelta(days=3))
        mirror.flush()  # its thread makes a folder that is away again
        root.rename(tmp_path / "away")
        cleaned = talks.cleanup(older_than=timedelta(days=1))
        assert len(cleaned.deleted) == 2
        assert cleaned.receipt.pending == (f"mirror {root}",)
        root.write_bytes(b"")
        assert talks.cleanup(older_than=timedelta(days=1)).deleted == ()


def test_a_mirror_that_is_gone_can_be_forgotten(path: Path, root: Path, tmp_path: Path) -> None:
    """Every receipt names a deleted folder until the store forgets it."""
    with agents.open(path, mirror=root) as talks:
        talks.create().append_and_save(clew.user(WORD))
        talks.create().append_and_save(clew.user(WORD))
    root.rename(tmp_path / "deleted")
    with clew.open(path) as store:
        one, two = store.sessions.list().items
        assert store.sessions.purge(one.id).pending == (f"mirror {root}",)
        agents.forget_mirror(store, root)
        assert store.sessions.purge(two.id).pending == ()
        assert [one.pending for one in store.sessions.receipts()] == [(), ()]


def test_notes_of_a_mirror_that_is_away_are_bounded(
    path: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many sessions go while the folder is away, few ids are noted, and all their files go when it is back."""
    monkeypatch.setattr(clew.engine.mirrors, "MOST", 4)
    with agents.open(path, mirror=root) as talks:
        gone = [talks.create(cwd="/src") for _ in range(12)]
        changed, other, trashed = (talks.create(cwd="/src") for _ in range(3))
        for one in (*gone, changed, trashed):
            one.append_and_save(clew.user(WORD))
        other.append_and_save(clew.user("stays"))
    away = tmp_path / "away"
    root.rename(away)
    with clew.open(path) as store:
        known = Parts.of(store).purger.mirrors
        assert store.nodes.delete(store.sessions.get(changed.id).path()[0].id).pending
        store.sessions.trash(trashed.id)
        for one in gone:
            assert store.sessions.purge(one.id).pending == (f"mirror {root}",)
            assert len(Parts.of(store).engine.read(known._folders)[str(root)].sessions) <= 5
        assert changed.id in Parts.of(store).engine.read(known._folders)[str(root)].sessions
        away.rename(root)
        assert len(words_in(root)) == 14
        assert store.sessions.purge(store.sessions.create().id).pending == ()
        assert [file.parent.name for file in words_in(root)] == [trashed.id]
        assert (next(root.glob(f"*/sessions/{other.id}")) / "messages.jsonl").exists()
        assert not Parts.of(store).engine.read(known._folders)[str(root)]
        assert all(one.pending == () for one in store.sessions.receipts())


def test_ids_merged_while_a_mirror_is_cleared_are_not_dropped(
    path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that has cleared a folder removes only the notes that it had read before."""
    monkeypatch.setattr(clew.engine.mirrors, "MOST", 1)
    with agents.open(path, mirror=root) as talks, clew.open(path) as store:
        known = Parts.of(store).purger.mirrors
        talks.create(cwd="/src").append_and_save(clew.user("stays"))
        ids = [str(uuid.uuid4()) for _ in range(4)]
        Parts.of(store).engine.write(lambda tx: known.note(tx, ids[:2]))
        seen = Parts.of(store).engine.read(known._folders)
        Parts.of(store).engine.write(lambda tx: known._drop(tx, seen))
        assert not Parts.of(store).engine.read(known._folders)[str(root)]
        Parts.of(store).engine.write(lambda tx: known.note(tx, ids[2:]))
        Parts.of(store).engine.write(lambda tx: known._drop(tx, seen))
        assert Parts.of(store).engine.read(known._folders)[str(root)]


def test_the_program_forgets_a_mirror(path: Path, root: Path, tmp_path: Path) -> None:
    """`clew purge --forget-mirror` drops the pending removal for a missing folder; another folder is an error."""
    with agents.open(path, mirror=root) as talks:
        session = talks.create(cwd="/src")
        session.append_and_save(clew.user(WORD))
    root.rename(tmp_path / "deleted")
    runner, at = CliRunner(), ["--db", str(path)]
    done = runner.invoke(cli, ["purge", "--yes", session.id, *at])
    assert done.exit_code == 8
    assert f"clew purge --forget-mirror {root}" in " ".join(done.stdout.split())
    wrong = runner.invoke(cli, ["purge", "--forget-mirror", str(tmp_path), *at])
    assert wrong.exit_code == 3
    assert str(root) in wrong.stderr
    assert runner.invoke(cli, ["purge", "--forget-mirror", str(root), "--all", *at]).exit_code == 2
    done = runner.invoke(cli, ["purge", "--forget-mirror", str(root), "--json", *at])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"schema_version": 1, "mirror": str(root), "pending": True}
    with clew.open(path) as store:
        assert [one.pending for one in store.sessions.receipts()] == [()]
        with pytest.raises(clew.NotFound, match="mirror"):
            agents.forget_mirror(store, root)


def test_a_purge_that_is_killed_leaves_its_note(path: Path, root: Path) -> None:
    """If the rows are deleted but the files are not, the next purge or open of the mirror removes them."""
    with agents.open(path, mirror=root) as talks:
        session = talks.create(cwd="/src")
        session.append_and_save(clew.user(WORD))
    work = (
        "import os, sys, clew, clew.engine.mirrors\n"
        "clew.engine.mirrors.remove = lambda *_: os._exit(9)\n"
        "with clew.open(sys.argv[1]) as store: store.sessions.purge(sys.argv[2])"
    )
    killed = python(work, path, session.id)
    killed.communicate(timeout=60)
    assert killed.returncode == 9
    assert words_in(root)
    with agents.open(path, mirror=root) as talks:
        assert words_in(root) == []
        assert [one.pending for one in store_of(talks).sessions.receipts()] == [()]


def test_what_is_undone_stays_in_the_mirror(path: Path, root: Path) -> None:
    """A deletion in a transaction names the mirror in its receipt, and clears it once it is committed."""
    with agents.open(path, mirror=root) as talks:
        session = talks.create(cwd="/src")
        session.append_and_save(clew.user(WORD))
        talks.flush()
        with pytest.raises(ZeroDivisionError), store_of(talks).transaction():
            assert delete_session(store_of(talks).sessions.get(session.id)).pending == ("traces", f"mirror {root}")
            raise ZeroDivisionError
        assert words_in(root)
        with store_of(talks).transaction():
            delete_session(store_of(talks).sessions.get(session.id))
        assert words_in(root)
    assert words_in(root) == []


def test_workspaces_have_their_own_mirrors(path: Path, root: Path, tmp_path: Path) -> None:
    """A purge in one workspace does not take another's unreached mirror for cleared."""
    with clew.open(path, workspace="acme") as acme:
        talks = agents.SessionStore(acme, mirror=root)
        session = talks.create()
        session.append_and_save(clew.user(WORD))
        talks.close()
        root.rename(tmp_path / "away")
        assert acme.sessions.purge(session.id).pending == (f"mirror {root}",)
        with clew.open(path) as store:
            assert store.sessions.purge(store.sessions.create().id).pending == ()
        assert [one.pending for one in acme.sessions.receipts()] == [(f"mirror {root}",)]


def test_bytes_of_a_damaged_message_go_from_the_mirror(path: Path, root: Path) -> None:
    """A purge of the quarantine also deletes the intact copy in the mirror."""
    with agents.open(path, mirror=root) as talks:
        session = talks.create(cwd="/src")
        session.append_and_save(clew.user(WORD))
    conn = sqlite3.connect(path)
    conn.execute("UPDATE nodes SET body = x'01' || randomblob(length(body) - 1)")
    conn.commit()
    conn.close()
    with clew.open(path) as store:
        store.quarantine.sweep(force=True)
        assert words_in(root)
        assert store.quarantine.purge(everything=True).messages == 1
    assert words_in(root) == []


def test_a_cleanup_counts_the_same_bytes_dry_and_done(mirrored: agents.SessionStore, root: Path) -> None:
    """A dry run says what the cleanup then frees, in the store and in the mirror, subagents included."""
    session = mirrored.create(cwd="/src")
    session.append_and_save(clew.user(WORD))
    mirrored.create(cwd="/src", agent_name="a", parent=session).append_and_save(clew.user(WORD))
    mirrored.flush()
    size = sum(file.stat().st_size for file in root.glob("*/sessions/*/*"))
    would = mirrored.cleanup(older_than=timedelta(microseconds=1), dry_run=True)
    assert words_in(root)
    done = mirrored.cleanup(older_than=timedelta(microseconds=1))
    assert would.bytes_freed == done.bytes_freed == size + done.receipt.bytes
    assert would.deleted == done.deleted == (session.id,)


# -- titles


@pytest.mark.parametrize("copied_by", ["backup", "copy"])
def test_a_copy_leaves_the_mirror_of_the_original_alone(path: Path, root: Path, copied_by: str) -> None:
    """A backup knows the folders of the store's mirrors. While the store is there, a purge in the backup only names
    them, and the backup cannot be mirrored there.
    """
    copy = path.with_name("copy.clew")
    with clew.open(path) as store:
        talks = agents.SessionStore(store, mirror=Mirror(store, root))
        session = talks.create(cwd="/src")
        session.append_and_save(clew.user(WORD))
        talks.flush()
        store.backup(copy) if copied_by == "backup" else None
    if copied_by == "copy":
        shutil.copy(path, copy)
    before = words_in(root)
    with clew.open(copy) as other:
        receipt = other.sessions.purge(session.id)
        assert receipt.pending == (f"mirror {root}",)
        with pytest.raises(Conflict, match=f"is the mirror of '{path}'"):
            Mirror(other, root)
    assert words_in(root) == before != []
    with clew.open(path) as store:
        assert store.sessions.purge(session.id).pending == ()
    assert words_in(root) == []


@pytest.mark.parametrize("how", ["moved", "restored", "another in its place", "old marker"])
def test_a_store_that_was_moved_or_restored_keeps_its_mirror(path: Path, root: Path, how: str) -> None:
    """Its file has another place or another number, and no other store claims the mirror."""
    with clew.open(path) as store:
        talks = agents.SessionStore(store, mirror=Mirror(store, root))
        session = talks.create(cwd="/src")
        session.append_and_save(clew.user(WORD))
        talks.close()  # its thread has a connection: the log stays beside the file until that is closed
    there = path if how in ("restored", "old marker") else path.with_name("moved.clew")
    if how == "old marker":
        marker = root / ".clew-mirror.json"
        known = json.loads(marker.read_bytes())
        marker.write_text(json.dumps({"format": known["format"], "store": known["store"]}))
    else:
        path.rename(there) if there != path else shutil.copy(path, path.with_name("spare"))
        path.with_name("spare").replace(path) if how == "restored" else None
        clew.open(path).close() if how == "another in its place" else None
    with clew.open(there) as store:
        assert store.sessions.purge(session.id).pending == ()
        Mirror(store, root)
    assert words_in(root) == []
    assert json.loads((root / ".clew-mirror.json").read_bytes())["file"] == str(there)


@pytest.mark.parametrize("before", ["", f"<system-reminder>\n{'Be brief. ' * 200}</system-reminder>\n\n"])
@pytest.mark.parametrize("long", [False, True])
def test_a_title_made_of_deleted_words_goes_with_them(store: Store, long: bool, before: str) -> None:
    """Titles of the session, its forks and rewound ones are removed; a title that a user chose stays."""
    from clew.engine.titles import title_of

    question = clew.user(before + f"Why does {WORD} fail?" + " And this?" * 20 * long)
    made = store.sessions.create(title=title_of([question]))
    assert (made.title or "").startswith("Why does")
    first = made.append(question)
    made.append(clew.assistant("So."))
    fork = made.fork()
    chosen = made.fork(title="Mine")
    rewound = made.fork()
    rewound.rewind(to=None)
    rewound.append(clew.user("Another."))
    receipt = store.nodes.delete(first.id, recursive=True)
    assert (receipt.messages, receipt.failures, receipt.pending) == (2, (), ("traces",))
    titles = [store.sessions.get(one.id).title for one in (made, fork, chosen, rewound)]
    assert titles == [None, None, "Mine", None]
    assert store.verify().ok
    store.sessions.purge(store.sessions.create().id)
    assert not [file for file in Path(store.path).parent.glob("chats.db*") if WORD.encode() in file.read_bytes()]


def test_a_summary_that_may_repeat_deleted_words_is_named(store: Store) -> None:
    """It was made by the application: the receipt says that it stays."""
    from tests.records.talk import made, summary

    with RecordService(store) as service:
        made(service, "talk", summary=summary(WORD))
        session = store.sessions.latest()
        receipt = store.nodes.delete(session.path()[0].id)
        assert [(one.session, one.error) for one in receipt.failures] == [
            (session.id, "its summary may repeat what was deleted")
        ]
