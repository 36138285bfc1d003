"""P10: old stores open, newer ones are refused unchanged, and a store is made once however many make it."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import clew
from clew.backends import FORMAT
from clew.errors import ClewError, Invalid, NotAStore, SchemaTooNew, Sealed, WrongKey
from clew.store.parts import Parts
from clew.store.session import delete_session
from clew.store.store import Store
from tests import made_up_migration
from tests.reliability import sample
from tests.reliability.tools import ROOT, need_strace, output, python

FIXTURES = ROOT / "tests" / "fixtures"


@pytest.fixture(params=range(1, FORMAT + 1))
def frozen(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the frozen store of a format, with its readings beside it."""
    for end in ("db", "json"):
        shutil.copy(FIXTURES / f"format-{request.param}.{end}", tmp_path / f"frozen.{end}")
    shutil.copytree(FIXTURES / f"format-{request.param}-objects", tmp_path / "objects")
    return tmp_path / "frozen.db"


def thawed(frozen: Path) -> Store:
    return clew.open(frozen, blobs=frozen.with_name("objects").as_uri())


def test_an_old_store_reads_equal(frozen: Path) -> None:
    """Everything in a frozen store is sound and reads as it did when it was written."""
    expected = json.loads(frozen.with_suffix(".json").read_text(encoding="utf-8"))
    with thawed(frozen) as store:
        assert store.verify().damage == [], "has the format changed? See tests/fixtures/make_format_1.py"
        assert json.loads(json.dumps(sample.readings(store))) == expected


def test_an_old_store_goes_on(frozen: Path) -> None:
    """A frozen store can be written: continued, forked, searched, deleted from."""
    with thawed(frozen) as store:
        session = store.sessions.latest("/src/app")
        node = session.append(clew.user("and another thing"))
        fork = session.fork(at=session.path()[0].id)
        fork.append(clew.assistant("from the start"))
        assert [hit.node.id for hit in store.search("another thing")] == [node.id]
        delete_session(store.sessions.list(limit=50).items[-1])
        assert store.verify().ok


def test_a_migration(frozen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of an older format is brought to the newest one when it is opened, and has everything it had."""
    expected = json.loads(frozen.with_suffix(".json").read_text(encoding="utf-8"))
    with thawed(frozen) as store:
        change = Parts.of(store).engine.read(lambda tx: tx.state()).change
    made_up_migration.install(monkeypatch)
    for _ in range(2):
        with thawed(frozen) as store:
            state = Parts.of(store).engine.read(lambda tx: tx.state())
            assert (state.format, state.change) == (made_up_migration.NEXT, change)
            assert store.verify().damage == []
            assert json.loads(json.dumps(sample.readings(store))) == expected
    monkeypatch.undo()
    with pytest.raises(SchemaTooNew):
        clew.open(frozen)


@pytest.mark.parametrize(
    ("sealed", "key", "refused"),
    [("-sealed", None, Sealed), ("-sealed", bytes(32), WrongKey), ("", bytes(32), Invalid)],
    ids=["no key", "another key", "a key for a plain store"],
)
def test_an_old_store_is_not_migrated_without_its_key(
    path: Path, monkeypatch: pytest.MonkeyPatch, sealed: str, key: bytes | None, refused: type[ClewError]
) -> None:
    """An older store that the key does not open is refused, and no byte of it changes."""
    shutil.copy(FIXTURES / f"format-{FORMAT}{sealed}.db", path)
    before = path.read_bytes()
    made_up_migration.install(monkeypatch)
    with pytest.raises(refused):
        clew.open(path, key=key)
    assert path.read_bytes() == before
    log = path.with_name(f"{path.name}-wal")
    assert not log.exists() or log.read_bytes() == b""
    if sealed:
        right = bytes.fromhex(json.loads((FIXTURES / f"format-{FORMAT}-sealed.json").read_text())["key"])
        clew.open(path, key=right).close()
        assert path.read_bytes() != before


@pytest.mark.parametrize("found", [FORMAT + 1, 255])
def test_a_newer_store_is_refused_unchanged(path: Path, found: int) -> None:
    """A store of a format that is not known yet is refused by number, and no byte of it changes."""
    sample.make(str(path), words=4)
    with closing(sqlite3.connect(path)) as conn:
        conn.execute(f"PRAGMA user_version = {found}")
    before = path.read_bytes()
    with pytest.raises(SchemaTooNew) as error:
        clew.open(path)
    assert (error.value.found, error.value.known) == (found, FORMAT)
    assert path.read_bytes() == before
    spared = (".db-shm", ".db-reserve")
    assert {one.name for one in path.parent.iterdir() if one.stat().st_size and one.suffix not in spared} == {path.name}


def test_a_newer_store_with_a_log_is_refused_unchanged(path: Path) -> None:
    """Also when the newer clew was killed: its write-ahead log is neither read into the file nor removed."""
    code = """
import os, sys, sqlite3, clew
store = clew.open(sys.argv[1])
store.sessions.create().append(clew.user("from the future"))
conn = sqlite3.connect(sys.argv[1])
conn.execute("PRAGMA user_version = 99")
os.kill(os.getpid(), 9)
"""
    process = python(code, path)
    process.communicate()
    wal = path.with_name(path.name + "-wal")
    before = path.read_bytes(), wal.read_bytes()
    assert before[1]
    with pytest.raises(SchemaTooNew):
        clew.open(path)
    assert (path.read_bytes(), wal.read_bytes()) == before


def test_a_store_that_becomes_newer_while_open(path: Path) -> None:
    """A format that another process has raised stops the next write, which leaves nothing."""
    with clew.open(path) as store:
        session = store.sessions.create()
        session.append(clew.user("before"))
        with closing(sqlite3.connect(path)) as conn:
            conn.execute(f"UPDATE epoch SET number = number + 1, format = {FORMAT + 1}")
            conn.execute(f"PRAGMA user_version = {FORMAT + 1}")
            conn.commit()
        with pytest.raises(SchemaTooNew):
            session.append(clew.user("after"))
        assert [node.text for node in session.path()] == ["before"]


def test_first_opens_from_many_processes(path: Path) -> None:
    """Twelve processes open a store that is not there yet, at once, and each writes: one store, twelve sessions."""
    code = """
import sys, clew
sys.stdin.readline()
with clew.open(sys.argv[1]) as store:
    session = store.sessions.create(title=sys.argv[2])
    session.append([clew.user("hello"), clew.assistant("hi")])
    print(session.id)
"""
    processes = [python(code, path, str(number)) for number in range(12)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    made = {output(process).strip() for process in processes}
    with clew.open(path) as store:
        assert store.verify().ok
        found = store.sessions.list(limit=50).items
        assert {one.id for one in found} == made
        assert {one.title for one in found} == {str(number) for number in range(12)}
        assert all(one.counters.messages == 2 for one in found)


CREATE = "import sys, clew\nclew.open(sys.argv[1]).close()"


def crash_while_creating(folder: Path, call: str, when: int) -> bool:
    """Kills a process at its n-th call while it creates a store, opens what it left, and says whether it was killed."""
    path = folder / f"{call}-{when}.db"
    strace = need_strace()
    inject = ("-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={when}")
    names = [str(path) + end for end in ("", "-wal", "-shm", "-journal", "-lock")]
    only = [word for name in names for word in ("-P", name)]
    command = [strace, "-f", "-qq", "-o", "/dev/null", *only, *inject, sys.executable, "-c", CREATE, str(path)]
    killed = subprocess.run(command, capture_output=True, check=False, timeout=60).returncode != 0
    with clew.open(path) as store:
        store.sessions.create().append(clew.user("after the crash"))
        report = store.verify()
        assert report.damage == [], f"{call} {when}"
        assert report.counts["nodes"] == 1
    return killed


@pytest.mark.parametrize(
    ("call", "points"), [("pwrite64", (1, 2, 3, 5, 9, 20, 40)), ("openat", (1, 2, 3)), ("fdatasync", (1, 2))]
)
def test_a_crash_while_creating(tmp_path: Path, call: str, points: tuple[int, ...]) -> None:
    """A process killed in the middle of creating a store leaves a file that the next open completes."""
    killed = [crash_while_creating(tmp_path, call, when) for when in points]
    assert killed[0], "the crash never happened"


@pytest.mark.soak
@pytest.mark.parametrize("call", ["pwrite64", "openat", "fdatasync", "fsync", "ftruncate", "unlink", "close"])
def test_a_crash_anywhere_while_creating(tmp_path: Path, call: str) -> None:
    """The same at every call of every kind, until one comes too late to hit anything."""
    when = 1
    while crash_while_creating(tmp_path, call, when):
        when += 1
    print(call, when - 1)


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 100, b"not a database at all" * 50, b"SQLite format 3\0" + b"\0" * 4080]
)
def test_files_that_are_no_store(path: Path, content: bytes) -> None:
    """An empty file becomes a store; anything else that is none is refused and left as it is."""
    path.write_bytes(content)
    if not content:
        with clew.open(path) as store:
            assert store.verify().ok
        return
    with pytest.raises(ClewError):
        clew.open(path)
    assert path.read_bytes() == content


def test_a_database_of_another_program(path: Path) -> None:
    """A database with tables of someone else's is refused unchanged."""
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("CREATE TABLE theirs (x)")
        conn.commit()
    before = path.read_bytes()
    with pytest.raises(NotAStore):
        clew.open(path)
    assert path.read_bytes() == before
