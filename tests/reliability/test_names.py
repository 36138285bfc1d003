"""P17: one file, one lock, whatever its name."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time
import uuid
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

import clew
from clew.store.store import Store
from tests.concurrency.workers import Writer, stored
from tests.reliability.canaries import canary, found
from tests.reliability.tools import need, output, python

NAMES = ("symlink", "chain", "folder", "relative", "dots", "slashes", "proc")


def another(kind: str, path: Path) -> Path:
    """Another name of the file at `path`, which is in a folder of its own."""
    link = path.parent.parent / "names" / "link.db"
    link.parent.mkdir(exist_ok=True)
    match kind:
        case "symlink":
            link.symlink_to(path)
        case "chain":
            (link.parent / "first").symlink_to(path.parent)
            link.symlink_to("first/" + path.name)
        case "folder":
            link.symlink_to(path.parent)
            return link / path.name
        case "relative":
            return Path(os.path.relpath(path))
        case "dots":
            return path.parent / ".." / path.parent.name / path.name
        case "slashes":
            return Path(str(path).replace("/", "//", 1))
        case "proc":
            return Path(f"/proc/self/root{path}")
    return link


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store may be made, in a folder of its own."""
    (tmp_path / "store").mkdir()
    return tmp_path / "store" / "chats.db"


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest, path: Path) -> Path:
    """Another name of it."""
    if request.param == "proc" and not os.path.exists("/proc/self/root"):
        pytest.skip("this system has no /proc")
    return another(request.param, path)


def say(store: Store, *texts: str) -> clew.Session:
    session = store.sessions.create()
    for text in texts:
        session.append(clew.user(text))
    return session


def words(folder: Path, *, by: str) -> list[str]:
    """In which files below a folder a word is found."""
    return [str(one) for one in sorted(folder.rglob("*")) if one.is_file() and found({"it": by}, one.read_bytes())]


def hashes(path: Path) -> dict[str, str]:
    """What the files hold that have data."""
    files = [path, path.with_name(path.name + "-wal")]
    return {
        one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in files if one.exists() and one.stat().st_size
    }


# -- names that lead to the same one


def test_all_files_are_beside_the_file_itself(path: Path, name: Path) -> None:
    """A store that is made, written and searched through another name has its files beside the real one alone."""
    with clew.open(name) as store:
        say(store, "hello")
        assert len(store.search("hello")) == 1
        assert store.path == str(path)
    assert {one.name for one in path.parent.iterdir()} >= {f"chats.db{end}" for end in ("", "-lock", "-search")}
    others = path.parent.parent / "names"
    assert [one for one in others.rglob("*") if not one.is_symlink() and one.is_file()] == []


def test_purged_words_are_gone_by_whatever_name_they_were_searched(path: Path, name: Path) -> None:
    """P5: words that were searched through one name are in no file after a purge through another."""
    word = canary(random.Random(1))
    with clew.open(path) as store:
        id = say(store, word, "other").id
    with clew.open(name) as store:
        assert len(store.search(word)) == 1
    with clew.open(path) as store:
        assert store.sessions.purge(id, reason="user-requested").pending == ()
    assert words(path.parent.parent, by=word) == []


def test_sealing_reaches_what_was_searched_by_another_name(path: Path, name: Path) -> None:
    """P4: after a store is sealed no word is left of a search through another name."""
    word = canary(random.Random(2))
    with clew.open(name) as store:
        say(store, word)
        assert len(store.search(word)) == 1
    with clew.open(path) as store:
        store.seal(clew.keys.generate())
    assert words(path.parent.parent, by=word) == []


def test_a_wrong_key_by_another_name(path: Path, name: Path) -> None:
    """P7: through any name a wrong key is told, and changes nothing."""
    with clew.open(path, key=clew.keys.generate()) as store:
        say(store, "hello")
    before = hashes(path)
    with pytest.raises(clew.WrongKey):
        clew.open(name, key=clew.keys.generate())
    assert hashes(path) == before


def test_one_lock_for_all_names(path: Path, name: Path) -> None:
    """P3: who writes through another name waits in the same queue, not only at SQLite's own lock."""
    with clew.open(path) as store, clew.open(name, timeout=0.2) as other:
        session = say(store, "one")
        with (
            store.transaction(),
            pytest.raises(clew.Unavailable, match="another process or thread has held the write lock"),
        ):
            other.sessions.get(session.id).append(clew.user("too early"))
        other.sessions.get(session.id).append(clew.user("two"))
        assert [node.text for node in session.path()] == ["one", "two"]


PURGER = """
import sys, clew
with clew.open(sys.argv[1]) as store:
    print("open", flush=True)
    for _ in range(2):
        session = store.sessions.create()
        session.append([clew.user("x" * 3000) for _ in range(40)])
        store.sessions.purge(session.id, reason="user-requested")
"""


def test_writers_and_a_purge_under_different_names(path: Path, tmp_path: Path) -> None:
    """P1 to P3: processes that write, are killed, and purge, each by another name, lose and damage nothing."""
    names = [path, another("symlink", path), Path(f"/proc/self/root{path}")]
    session = str(uuid.uuid4())
    with clew.open(path) as store:
        store.sessions.create(id=session)
    crew = [Writer(names[n % 3], session, n, count=20) for n in range(3)]
    purger = python(PURGER, names[1])
    assert purger.stdout is not None
    purger.stdout.readline()
    for writer in crew:
        writer.go()
    time.sleep(0.1)
    crew[2].kill()
    acked = {writer.name: writer.finish()[0] for writer in crew}
    output(purger)
    kept = stored(path, session)
    for name, numbers in acked.items():
        assert kept.get(name, [])[: len(numbers)] == numbers
    assert [len(acked[writer.name]) for writer in crew[:2]] == [20, 20]


def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    """A path that the system shows as another one, as of a file that was deleted, is not taken for that one."""
    made = tmp_path / "a.db"
    clew.open(made).close()
    with made.open("rb") as file:
        made.unlink()
        with pytest.raises(clew.Invalid, match="path of its own") as told:
            clew.open(f"/proc/self/fd/{file.fileno()}")
        assert told.value.hint


def test_a_link_that_changes_while_the_store_is_open(path: Path, tmp_path: Path) -> None:
    """A store stays with the file it was opened in, wherever the link leads by then."""
    other = tmp_path / "other.db"
    clew.open(other).close()
    link = another("symlink", path)
    with clew.open(link) as store:
        session = say(store, "one")
        link.unlink()
        link.symlink_to(other)
        session.append(clew.user("two"))
        assert len(store.search("two")) == 1
        assert [node.text for node in session.path()] == ["one", "two"]
    with clew.open(link) as store:
        assert store.sessions.list().items == []


def mounted(process: subprocess.Popen[str]) -> str:
    """What a process printed that first mounts something; skips the test where that is not allowed."""
    out, err = process.communicate(timeout=60)
    if process.returncode and ("permitted" in err or "permission" in err):
        pytest.skip("nothing may be mounted here")
    assert process.returncode == 0, err
    return out


def test_a_folder_that_is_mounted_twice(path: Path, tmp_path: Path) -> None:
    """P3: writers in a folder and in a bind mount of it share one lock; nothing is lost."""
    unshare = need("unshare")
    (tmp_path / "mounted").mkdir()
    with clew.open(path) as store:
        session = say(store, "first")
        inside = (
            "import sys, clew\n"
            "with clew.open(sys.argv[1]) as store:\n"
            "    session = store.sessions.get(sys.argv[2])\n"
            "    for n in range(30): session.append(clew.user(f'inside {n}'))\n"
        )
        mount = f'mount --bind "{path.parent}" "{tmp_path / "mounted"}" && exec "$0" "$@"'
        process = python(inside, tmp_path / "mounted" / path.name, session.id, wrap=(unshare, "-m", "sh", "-c", mount))
        mine = [session.append(clew.user(f"outside {n}")).id for n in range(30)]
        mounted(process)
        kept = session.path()
        assert len(kept) == 61
        assert {node.id for node in kept} >= set(mine)
        assert store.verify().ok


# -- names that cannot be told from the file


@pytest.fixture
def linked(path: Path, tmp_path: Path) -> tuple[Path, str]:
    """A store whose file has a second name, and the id of its session."""
    with clew.open(path) as store:
        id = say(store, "hello", "world").id
    os.link(path, tmp_path / "second.db")
    return path, id


@pytest.mark.parametrize("which", ["first", "second"])
def test_a_hard_link_is_only_read(linked: tuple[Path, str], tmp_path: Path, which: str) -> None:
    """Under each name all can be read and searched, nothing can be written, and no index is left beside it."""
    path, id = linked
    name = path if which == "first" else tmp_path / "second.db"
    before = hashes(name)
    with clew.open(name) as store:
        session = store.sessions.get(id)
        assert [node.text for node in session.path()] == ["hello", "world"]
        assert len(store.search("hello")) == 1
        assert store.verify().ok
        for write in (
            lambda: session.append(clew.user("lost")), lambda: session.rename("lost"),
            lambda: store.seal(clew.keys.generate()), lambda: store.transaction().__enter__(),
        ):  # fmt: skip
            with pytest.raises(clew.ReadOnly, match="hard links") as told:
                write()
            assert "copy" in told.value.hint
        for receipt in (store.sessions.purge(id, reason="user-requested"), session.purge()):
            assert not receipt.sessions
            assert "hard links" in receipt.failures[0].error
    assert hashes(path)["chats.db"] == next(iter(before.values()))
    assert not list(tmp_path.rglob("*-search*"))
    (tmp_path / "second.db").unlink()
    with clew.open(path) as store:
        store.sessions.get(id).append(clew.user("again"))


def test_an_empty_file_with_two_names(path: Path, tmp_path: Path) -> None:
    """No store is made in a file that has two names."""
    path.touch()
    os.link(path, tmp_path / "second.db")
    with pytest.raises(clew.ReadOnly, match="hard links"):
        clew.open(path)
    assert path.read_bytes() == b""


def test_a_hard_link_that_is_made_while_the_store_is_open(path: Path, tmp_path: Path) -> None:
    """From then on nothing is acknowledged, by a transaction that was open neither; without the link it goes on."""
    second = tmp_path / "second.db"
    with clew.open(path) as store:
        session = say(store, "before")
        with pytest.raises(clew.ReadOnly, match="hard links"), store.transaction():
            session.append(clew.user("meanwhile"))
            os.link(path, second)
        for _ in range(3):
            with pytest.raises(clew.ReadOnly, match="hard links"):
                session.append(clew.user("lost"))
        second.unlink()
        session.append(clew.user("after"))
        assert [node.text for node in session.path()][-1] == "after"


def test_a_second_name_of_a_store_that_is_open(path: Path, tmp_path: Path) -> None:
    """Who opens it by a name that has no write-ahead log is refused; once it is closed, all is there."""
    second = tmp_path / "second.db"
    with clew.open(path) as store:
        id = say(store, "in the log").id
        os.link(path, second)
        with pytest.raises(clew.Unavailable, match="another name") as told:
            clew.open(second, timeout=0.1)
        assert told.value.hint
    with clew.open(second) as store:
        assert [node.text for node in store.sessions.get(id).path()] == ["in the log"]


def test_links_of_all_files_of_a_killed_writer(path: Path, tmp_path: Path) -> None:
    """A copy by hard links with the write-ahead log shows all that was acknowledged, and changes nothing."""
    script = (
        "import os, sys, clew\nstore = clew.open(sys.argv[1])\nsession = store.sessions.create()\n"
        "session.append(clew.user('in the log'))\nprint(session.id, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    process = python(script, path)
    id = process.communicate(timeout=60)[0].strip()
    shutil.copytree(path.parent, tmp_path / "copy", copy_function=os.link)
    before = hashes(path)
    assert "chats.db-wal" in before
    with clew.open(tmp_path / "copy" / path.name) as store:
        assert [node.text for node in store.sessions.get(id).path()] == ["in the log"]
        with pytest.raises(clew.ReadOnly):
            store.sessions.create()
    assert hashes(path) == before == hashes(tmp_path / "copy" / path.name)


def test_a_file_that_is_mounted_alone_is_refused(path: Path, tmp_path: Path) -> None:
    """A single file that is bind-mounted has its log elsewhere: it is not opened, and the hint says what to mount."""
    unshare = need("unshare")
    with clew.open(path) as store:
        say(store, "hello")
    target = tmp_path / "a name" / "mounted.db"
    target.parent.mkdir()
    target.touch()
    inside = (
        "import sys, clew\n"
        "try: clew.open(sys.argv[1])\n"
        "except clew.Invalid as error: print(error.message, '|', error.hint)\n"
    )
    mount = f'mount --bind "{path}" "{target}" && exec "$0" "$@"'
    out = mounted(python(inside, target, wrap=(unshare, "-m", "sh", "-c", mount)))
    assert "single file" in out
    assert "Mount the folder" in out
    assert [one.name for one in target.parent.iterdir()] == ["mounted.db"]


def test_a_file_that_was_moved_while_it_is_open(path: Path, tmp_path: Path) -> None:
    """Its log did not move with it: neither its new name is opened nor its old one written, until it is back."""
    moved = tmp_path / "moved.db"
    with clew.open(path) as store:
        session = say(store, "one")
        path.rename(moved)
        with pytest.raises(clew.Unavailable, match="another name"):
            clew.open(moved, timeout=0.1)
        with pytest.raises(clew.Unavailable, match="moved, deleted or replaced"):
            session.append(clew.user("lost"))
        moved.rename(path)
        session.append(clew.user("two"))
    with clew.open(path) as store:
        assert [node.text for node in store.sessions.get(session.id).path()] == ["one", "two"]
        assert store.verify().ok


@pytest.mark.parametrize("left", ["nothing", "an empty file"])
def test_a_log_that_is_left_without_its_store(path: Path, tmp_path: Path, left: str) -> None:
    """No new store is made over the log of one that was moved away: it is all there when the file is back."""
    script = (
        "import os, sys, clew\nstore = clew.open(sys.argv[1])\nsession = store.sessions.create()\n"
        "session.append(clew.user('in the log'))\nprint(session.id, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    id = python(script, path).communicate(timeout=60)[0].strip()
    path.rename(tmp_path / "moved.db")
    if left == "an empty file":
        path.touch()
    before = hashes(path)
    with pytest.raises(clew.Invalid, match="without its store") as caught:
        clew.open(path)
    assert "Put the store's file back" in caught.value.hint
    assert hashes(path) == before
    (tmp_path / "moved.db").rename(path)
    with clew.open(path) as store:
        assert [node.text for node in store.sessions.get(id).path()] == ["in the log"]
        assert store.verify().ok


# -- the files beside it


@pytest.mark.parametrize("how", ["link", "link to nothing", "hard link"])
@pytest.mark.parametrize("end", ["-reserve", "-search", "-lock"])
def test_a_file_beside_the_store_that_leads_elsewhere(path: Path, tmp_path: Path, end: str, how: str) -> None:
    """What a file beside the store is linked to stays as it was, and nothing is made where a link leads to nothing."""
    with clew.open(path) as store:
        say(store, "one")
    beside, precious = path.with_name(path.name + end), tmp_path / "precious.txt"
    beside.unlink(missing_ok=True)
    if how != "link to nothing":
        precious.write_text("precious")
    if how == "hard link":
        beside.hardlink_to(precious)
    else:
        beside.symlink_to(precious)
    refused = end == "-lock" and how != "hard link"
    with clew.open(path) as store, pytest.raises(clew.Unavailable, match="-lock") if refused else nullcontext():
        session = say(store, "two")
        assert [hit.node.text for hit in store.search("two")]
        store.sessions.purge(session.id)
    assert (precious.read_text() if precious.exists() else None) == ("precious" if "nothing" not in how else None)


@pytest.mark.parametrize("how", ["deleted", "replaced", "moved"])
@pytest.mark.parametrize("end", ["-wal", "-shm"])
def test_a_file_beside_the_store_that_goes(path: Path, tmp_path: Path, end: str, how: str) -> None:
    """Nothing is acknowledged from then on, nobody else gets in, and nothing that was acknowledged is lost."""
    beside = path.with_name(path.name + end)
    with clew.open(path) as store:
        session = say(store, *[f"said {n}" for n in range(20)])
        before = beside.read_bytes()
        beside.rename(tmp_path / "away")
        if how == "deleted":
            (tmp_path / "away").unlink()
        if how == "replaced":
            beside.write_bytes(before)
        for _ in range(3):
            with pytest.raises(clew.Unavailable, match=f"{end} was moved, deleted or replaced") as told:
                session.append(clew.user("lost"))
            assert "Close the store" in told.value.hint
        if how != "replaced":
            with pytest.raises(clew.Unavailable, match="another name"):
                clew.open(path, timeout=0.1)
    with clew.open(path) as store:
        kept = [node.text for node in store.sessions.get(session.id).path()]
        assert kept[:20] == [f"said {n}" for n in range(20)]
        assert store.verify().ok
        store.sessions.get(session.id).append(clew.user("again"))


def test_a_log_that_another_program_has_switched_off(path: Path) -> None:
    """It is switched on when the store is opened: without it readers and writers would be in each other's way."""
    with clew.open(path) as store:
        id = say(store, "one").id
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    with clew.open(path) as store:
        store.sessions.get(id).append(clew.user("two"))
        assert path.with_name("chats.db-wal").exists()
        assert len(store.sessions.get(id).path()) == 2


@pytest.mark.parametrize("given", [None, b"w" * 32], ids=["no key", "wrong key"])
def test_a_log_that_is_off_stays_off_without_the_key(path: Path, given: bytes | None) -> None:
    """P7: whoever does not have the key changes no byte, also if the log would be switched on for others."""
    with clew.open(path, key=b"k" * 32) as store:
        id = say(store, "one").id
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA journal_mode = DELETE")
    before = path.read_bytes()
    with pytest.raises(clew.Sealed):
        clew.open(path, key=given)
    assert path.read_bytes() == before
    with clew.open(path, key=b"k" * 32) as store:
        store.sessions.get(id).append(clew.user("two"))
        assert path.with_name("chats.db-wal").exists()
        assert store.verify().ok


def test_a_log_that_is_deleted_before_the_writer_is_killed(path: Path) -> None:
    """What was acknowledged is brought into the file as soon as the loss is noticed."""
    script = (
        "import os, sys, clew\nstore = clew.open(sys.argv[1])\nsession = store.sessions.create()\n"
        "for n in range(20): session.append(clew.user(f'said {n}'))\n"
        "os.unlink(sys.argv[1] + '-wal')\n"
        "try: session.append(clew.user('lost'))\n"
        "except clew.Unavailable: print(session.id, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    id = python(script, path).communicate(timeout=60)[0].strip()
    with clew.open(path) as store:
        kept = [node.text for node in store.sessions.get(id).path()]
        assert kept[:20] == [f"said {n}" for n in range(20)]
        assert store.verify().ok


def test_a_log_that_goes_inside_a_transaction(path: Path) -> None:
    """What was committed is looked at after the commit: the caller is not told that it is stored."""
    with clew.open(path) as store:
        session = say(store, "before")
        with pytest.raises(clew.Unavailable, match="-wal was moved, deleted or replaced"), store.transaction():
            session.append(clew.user("meanwhile"))
            path.with_name("chats.db-wal").unlink()


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_lock_file_that_goes(path: Path, how: str) -> None:
    """Who writes next queues at the lock file that is there now, with all others; nothing is lost."""
    lock = path.with_name("chats.db-lock")
    with clew.open(path, timeout=0.3) as store, clew.open(path, timeout=0.3) as other:
        session = say(store, "one")
        again = other.sessions.get(session.id)
        again.append(clew.user("two"))
        lock.unlink()
        if how == "replaced":
            lock.touch()
        session.append(clew.user("three"))
        with other.transaction(), pytest.raises(clew.Unavailable, match="held the write lock"):
            session.append(clew.user("in the queue"))
        assert lock.exists()
        assert len(again.path()) == 3


@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
def test_a_search_index_that_goes(path: Path, end: str) -> None:
    """A search finds everything, in an index that is made anew, and a purge clears the one that is there."""
    word = canary(random.Random(3))
    with clew.open(path) as store:
        session = say(store, word)
        assert len(store.search(word)) == 1
        path.with_name(f"chats.db-search{end}").unlink()
        session.append(clew.user(word))
        assert len(store.search(word)) == 2
        assert path.with_name("chats.db-search").exists()
        assert store.sessions.purge(session.id, reason="user-requested").pending == ()
    assert words(path.parent, by=word) == []


# -- forked processes

HOLDER = """
import os, sys, time, clew
store = clew.open(sys.argv[1])
session = store.sessions.create()
held = store.transaction()
held.__enter__()
session.append(clew.user("lost"))
child = os.fork()
if not child:
    time.sleep(60)
    os._exit(0)
print(child, flush=True)
time.sleep(60)
"""


def child_of(process: subprocess.Popen[str]) -> int:
    """The id of the child that a process has made, once the process is killed."""
    with process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
    return child


def test_a_forked_child_that_idles_keeps_no_lock(path: Path) -> None:
    """When a writer is killed its lock goes with it, though a child that it forked lives on."""
    with clew.open(path, timeout=2) as store:
        session = say(store, "before")
        child = child_of(python(HOLDER, path))
        try:
            session.append(clew.user("after"))
            assert [node.text for node in session.path()] == ["before", "after"]
        finally:
            os.kill(child, signal.SIGKILL)


WAITER = """
import os, sys, time, clew
store = clew.open(sys.argv[1], timeout=0.2)
session = store.sessions.get(sys.argv[2])
try: session.append(clew.user("too late"))
except clew.Unavailable: pass
child = os.fork()
if not child:
    time.sleep(60)
    os._exit(0)
print(child, flush=True)
sys.stdin.readline()
"""


def test_a_child_of_one_who_gave_up_waiting(path: Path) -> None:
    """A lock that is granted after its asker has gone is given back, though a forked child has the descriptor too."""
    with clew.open(path, timeout=2) as store:
        session = say(store, "before")
        with python(WAITER, path, session.id) as process:
            assert process.stdout is not None
            with store.transaction():
                child = int(process.stdout.readline())
            try:
                time.sleep(0.2)
                session.append(clew.user("after"))
                assert [node.text for node in session.path()] == ["before", "after"]
            finally:
                os.kill(child, signal.SIGKILL)
