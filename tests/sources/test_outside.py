"""An import reads the history and nothing else: no links, pipes or devices, and no file found by walking."""

from __future__ import annotations

import json
import os
import random
import resource
import socket
import sqlite3
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.base.outside import open_regular
from clew.errors import ClewError
from clew.sources import find, import_all
from clew.sources.chatgpt import ChatGPT
from tests.sources.made import SESSION, an_id, claude_line, jsonl
from tests.sources.test_exports import TREE

SECRET = "the words of another file"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[clew.Store]:
    (tmp_path / "store").mkdir()
    with clew.open(tmp_path / "store" / "chats.db") as opened:
        yield opened


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A folder for a history, which is itself reached through a link."""
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "history").symlink_to(tmp_path / "dotfiles")
    return tmp_path / "history"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A folder with a file that no history has."""
    folder = tmp_path / "secret"
    folder.mkdir()
    (folder / "file.txt").write_text(SECRET)
    (folder / "m.json").write_text(json.dumps({"id": "m", "role": "user", "text": SECRET}))
    return folder


def imported(store: clew.Store, path: Path) -> list[Any]:
    return list(import_all(store, find([str(path)])))


def stored(store: clew.Store, tmp_path: Path) -> bytes:
    """All bytes of the store's files."""
    store.close()
    return b"".join(path.read_bytes() for path in (tmp_path / "store").iterdir())


def write_claude(folder: Path, *extra: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    named = f"See {SESSION}/tool-results/file.txt"
    path = folder / f"{SESSION}.jsonl"
    path.write_bytes(jsonl([claude_line(1, None, "user", named)]) + b"".join(extra))
    return path


def test_a_linked_folder_of_results(store: clew.Store, history: Path, secret: Path, tmp_path: Path) -> None:
    """Claude Code: a linked folder of results is not read; a real one is."""
    write_claude(history / "project")
    (history / "project" / SESSION).mkdir()
    (history / "project" / SESSION / "tool-results").symlink_to(secret)
    (done,) = imported(store, history)
    assert done.messages == 1
    assert "link" in done.notes[0]
    assert SECRET.encode() not in stored(store, tmp_path)


def test_a_real_folder_of_results(store: clew.Store, history: Path, tmp_path: Path) -> None:
    """Claude Code: results are read where the program keeps them, if the history itself is reached by a link."""
    write_claude(history / "project")
    (history / "project" / SESSION / "tool-results").mkdir(parents=True)
    (history / "project" / SESSION / "tool-results" / "file.txt").write_text(SECRET)
    (done,) = imported(store, history)
    assert (done.messages, done.notes) == (1, ())
    assert SECRET.encode() in stored(store, tmp_path)


def test_linked_files_of_opencode(store: clew.Store, history: Path, secret: Path, tmp_path: Path) -> None:
    """opencode: a linked folder of messages is not read."""
    folder = history / "storage" / "session" / "project"
    folder.mkdir(parents=True)
    (folder / "ses_1.json").write_text(json.dumps({"id": "ses_1", "projectID": "p", "directory": "/x", "title": "t"}))
    (history / "storage" / "message").mkdir()
    (history / "storage" / "message" / "ses_1").symlink_to(secret)
    imported(store, history)
    assert SECRET.encode() not in stored(store, tmp_path)


def test_a_session_of_opencode_elsewhere(store: clew.Store, tmp_path: Path) -> None:
    """opencode: the folders around a session that is not in opencode's own folders are not read."""
    folder = tmp_path / "home" / "downloads" / "new"
    folder.mkdir(parents=True)
    (folder / "ses_1.json").write_text(json.dumps({"id": "ses_1", "projectID": "p", "directory": "/x", "title": "t"}))
    for place, made in (("message/ses_1", {"role": "user"}), ("part/m", {"type": "text", "text": SECRET})):
        (tmp_path / "home" / place).mkdir(parents=True)
        (tmp_path / "home" / place / "m.json").write_text(json.dumps({"id": "m", "time": {"created": 1}, **made}))
    imported(store, folder)
    assert SECRET.encode() not in stored(store, tmp_path)


def test_a_rollout_of_codex_elsewhere(store: clew.Store, tmp_path: Path) -> None:
    """Codex: a rollout that is not in Codex's own folders continues no other in the folders below its own."""
    old, new = an_id(901), an_id(902)
    meta: dict[str, Any] = {"cwd": "/x", "timestamp": "2026-11-01T10:00:00Z", "originator": "codex_cli"}

    def rollout(id: str, text: str, **more: Any) -> bytes:
        said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        lines = [("session_meta", {"id": id, **meta, **more}), ("response_item", said)]
        return jsonl([{"timestamp": meta["timestamp"], "type": kind, "payload": body} for kind, body in lines])

    below = tmp_path / "home" / "private"
    below.mkdir(parents=True)
    (below / f"rollout-2026-11-01T09-00-00-{old}.jsonl").write_bytes(rollout(old, SECRET))
    path = tmp_path / "home" / f"rollout-2026-11-01T10-00-00-{new}.jsonl"
    path.write_bytes(rollout(new, "mine", history_base={"thread_id": old, "end_ordinal_exclusive": 9}))
    (done,) = imported(store, path)
    assert (done.messages, any("missing" in note for note in done.notes)) == (1, True)
    assert SECRET.encode() not in stored(store, tmp_path)


def test_linked_files_of_cline(store: clew.Store, history: Path, secret: Path, tmp_path: Path) -> None:
    """Cline: a linked file beside the history is not read."""
    folder = history / "tasks" / "1"
    folder.mkdir(parents=True)
    (folder / "api_conversation_history.json").write_text(json.dumps([{"role": "user", "content": "hello"}]))
    (folder / "ui_messages.json").symlink_to(secret / "file.txt")
    (done,) = imported(store, history)
    assert done.messages == 1
    assert SECRET.encode() not in stored(store, tmp_path)


def test_files_of_others_near_an_export(store: clew.Store, history: Path, tmp_path: Path) -> None:
    """ChatGPT: a file is attached only if it is where an export has it, under the name that it has there."""
    node = {
        "id": "n",
        "message": {
            "author": {"role": "user"},
            "content": {"content_type": "text", "parts": ["x"]},
            "metadata": {"attachments": [{"id": "file-production", "name": "a"}, {"id": "file-inside1", "name": "b"}]},
        },
    }
    tree = {"conversation_id": "c", "current_node": "n", "mapping": {"n": node}}
    (history / "conversations.json").write_text(json.dumps([tree]))
    (history / "Documents" / "keys").mkdir(parents=True)
    (history / "Documents" / "keys" / "file-production.pem").write_text(SECRET)
    (history / "keyfile-production.pem").write_text(SECRET)
    (history / "file-inside1-b.txt").write_text("the attached words")
    imported(store, history / "conversations.json")
    found = stored(store, tmp_path)
    assert SECRET.encode() not in found
    assert b"the attached words" in found


def test_a_link_made_while_watching(history: Path, secret: Path) -> None:
    """A file that a watch names below its folder is found as in the folder: a link is not followed."""
    write_claude(secret)
    (history / "a.jsonl").symlink_to(secret / f"{SESSION}.jsonl")
    assert not [one for one in find([str(history / "a.jsonl")], roots=[str(history)]) if one.source is not None]
    assert [one for one in find([str(history / "a.jsonl")]) if one.source is not None]


@pytest.mark.parametrize("seed", range(60))
def test_links_and_other_kinds_in_every_component(tmp_path: Path, seed: int) -> None:
    """A file below a folder is opened if, and only if, it is a regular file and no name below the folder is a link."""
    chance = random.Random(seed)
    root, away = tmp_path / "root", tmp_path / "away"
    (tmp_path / "real").mkdir()
    root.symlink_to(tmp_path / "real")
    away.mkdir()
    at, plain, depth = root, True, chance.randrange(4)
    for number in range(depth):
        target = at / f"d{number}"
        if chance.random() < 0.3:
            (away / str(number)).mkdir()
            target.symlink_to(away / str(number))
            plain = False
        else:
            target.mkdir()
        at = target
    path, kind = at / "file", chance.choice(["file", "file", "link", "fifo", "socket", "folder", "device", "missing"])
    if kind == "file":
        path.write_bytes(b"bytes")
    elif kind == "link":
        (away / "file").write_bytes(b"bytes")
        path.symlink_to(away / "file")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as opened:
            here = os.getcwd()
            os.chdir(at)
            try:
                opened.bind("file")
            finally:
                os.chdir(here)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path = Path("/dev/null")
    if plain and kind == "file":
        with open_regular(str(path), str(root)) as file:
            assert file.read() == b"bytes"
    else:
        with pytest.raises(ClewError):
            open_regular(str(path), str(root))


# -- files that change, and odd values


def test_a_file_rewritten_in_place(tmp_path: Path) -> None:
    """A JSON file that another program cuts off and writes again, while it is read, does not end the program."""
    program = """
import sys, threading, clew
from clew.sources import find, import_all
path, done = sys.argv[1], threading.Event()
def rewrite():
    whole = open(path, "rb").read()
    while not done.is_set():
        with open(path, "r+b") as file:
            file.truncate(0)
            file.write(whole)
thread = threading.Thread(target=rewrite)
thread.start()
with clew.open(":memory:") as store:
    for _ in range(5):
        list(import_all(store, find([path]), again=True))
done.set()
thread.join()
"""
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([{**TREE, "conversation_id": f"c{n}", "title": "x" * 100_000} for n in range(120)]))
    done = subprocess.run([sys.executable, "-c", program, str(path)], check=False, timeout=300)
    assert done.returncode == 0


def test_one_odd_value(store: clew.Store, tmp_path: Path) -> None:
    """A date of minus 10^400 in one file does not keep the others from being imported."""
    folder = tmp_path / "conversations"
    folder.mkdir()
    odd = {
        "name": "x",
        "createdAt": 0,
        "messages": [
            {
                "versions": [{"type": "singleStep", "role": "user", "content": [{"type": "text", "text": "hi"}]}],
                "currentlySelected": 0,
            }
        ],
    }
    text = json.dumps(odd).replace('"createdAt": 0', '"createdAt": -1' + "0" * 400)
    (folder / "1.conversation.json").write_text(text)
    write_claude(folder)
    states = [one.state for one in imported(store, folder)]
    assert "imported" in states
    assert len(store.sessions.list()) >= 1


def test_an_error_of_a_source(store: clew.Store, tmp_path: Path) -> None:
    """Any error of a source is a skip with its reason, and what was read before it is kept."""

    class Odd(ChatGPT):
        def read(self, item: Any) -> Iterator[Any]:
            from clew.sources import About, Entry

            yield About(conversation="c", title="t")
            yield Entry(conversation="c", raw=b"{}", key="1", id=an_id(1), message=clew.user("kept"))
            raise TypeError("a key that is not text")

    first, second = write_claude(tmp_path / "a"), write_claude(tmp_path / "b")
    found = [next(iter(find([str(first)])))._replace(source=Odd()), *find([str(second)])]
    odd, good = import_all(store, found)
    assert odd.skipped == ("the rest cannot be read (TypeError)",)
    assert (odd.messages, good.state) == (1, "imported")


def test_two_members_of_one_name(store: clew.Store, tmp_path: Path) -> None:
    """Both members of an archive that have the same name are imported."""
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps([{**TREE, "conversation_id": "c1"}]))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("conversations.json", json.dumps([{**TREE, "conversation_id": "c2"}]))
    imported(store, path)
    assert len(store.sessions.list()) == 2


def test_a_member_with_the_name_of_a_file(store: clew.Store, tmp_path: Path) -> None:
    """A database is not opened because a member of an archive has its path as a name."""
    target = tmp_path / "real.db"
    with sqlite3.connect(target) as conn:
        conn.execute("CREATE TABLE agent_sessions (session_id TEXT)")
        conn.execute("CREATE TABLE agent_messages (id INTEGER, session_id TEXT, message_data TEXT)")
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(str(target), b"SQLite format 3\0" + bytes(100))
    assert not [one for one in find([str(path)]) if one.source is not None]


def test_byte_order_marks(store: clew.Store, tmp_path: Path) -> None:
    """Files that begin with a byte order mark are read as others are."""
    mark = b"\xef\xbb\xbf"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "conversations.json").write_bytes(mark + json.dumps([TREE]).encode())
    log = write_claude(tmp_path / "in")
    log.write_bytes(mark + log.read_bytes())
    done = imported(store, tmp_path / "in")
    assert [one.skipped for one in done] == [(), ()]
    assert len(store.sessions.list()) == 2


def test_lines_that_end_with_cr(store: clew.Store, tmp_path: Path) -> None:
    """A log whose lines end with CR alone is skipped with a reason."""
    log = write_claude(tmp_path / "in", jsonl([claude_line(2, 1, "user", "again")]))
    log.write_bytes(log.read_bytes().replace(b"\n", b"\r"))
    (done,) = imported(store, log)
    assert done.skipped


@pytest.mark.parametrize(("size", "limit"), [(10_000, 8), (30_000, 150)], ids=["short", "long"])
def test_time_grows_with_the_size(store: clew.Store, tmp_path: Path, size: int, limit: int) -> None:
    """A cut-off text with quotes, and a tree of empty nodes, take as many steps as they have bytes."""
    cut = tmp_path / "cut" / "conversations.json"
    cut.parent.mkdir()
    cut.write_bytes(b'[{"mapping": {}, "current_node": "' + b'\\"' * size * 70)
    nodes: dict[str, Any] = {str(n): {"id": str(n), "parent": str(n - 1) if n else None} for n in range(size)}
    for n in range(size):
        message = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["x"]}}
        nodes[f"m{n}"] = {"id": f"m{n}", "parent": str(size - 1), "message": message}
    tree = tmp_path / "tree" / "conversations.json"
    tree.parent.mkdir()
    tree.write_text(json.dumps([{"conversation_id": "c", "current_node": "m0", "mapping": nodes}]))
    resource.setrlimit(resource.RLIMIT_CPU, (_cpu() + limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    try:
        (done,) = imported(store, cut)
        assert "ends in the middle" in done.skipped[0]
        (found,) = find([str(tree)])
        assert found.source is not None
        assert sum(1 for _ in found.source.read(found.item)) > size
    finally:
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))


def _cpu() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return int(used.ru_utime + used.ru_stime)


# -- databases


AGENTS = (
    "CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TEXT, updated_at TEXT{0})",
    "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT, created_at TEXT{1})",
)


def database(path: Path, sessions: str = "", messages: str = "", rows: int = 1) -> None:
    """A database of OpenAI Agents with more columns."""
    with sqlite3.connect(path) as conn:
        for table in AGENTS:
            conn.execute(table.format(sessions, messages))
        conn.execute("INSERT INTO agent_sessions (session_id) VALUES ('s')")
        data = json.dumps({"role": "user", "content": "hello"})
        conn.executemany(
            "INSERT INTO agent_messages (session_id, message_data) VALUES ('s', ?)", [(data,) for _ in range(rows)]
        )
    conn.close()


def test_a_column_named_as_the_row_number(store: clew.Store, tmp_path: Path) -> None:
    """A column that has the name of clew's own does not make an import endless."""
    path = tmp_path / "agents.db"
    database(path, ", clew_rowid INTEGER DEFAULT -1", ", clew_rowid INTEGER DEFAULT -1, rowid INTEGER", rows=500)
    (done,) = imported(store, path)
    assert done.state in ("imported", "skipped")
    assert done.messages <= 500


def test_a_generated_column(store: clew.Store, tmp_path: Path) -> None:
    """The values of a generated column are not computed."""
    path = tmp_path / "agents.db"
    column = ", large BLOB GENERATED ALWAYS AS (zeroblob(200000000)) VIRTUAL"
    database(path, column, column, rows=50)
    limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, limit[1]))
    try:
        (done,) = imported(store, path)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)
    assert (done.state, done.messages) == ("imported", 50)


@pytest.mark.parametrize("side", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("kind", ["fifo", "link", "folder", "store"])
def test_files_beside_a_database(store: clew.Store, tmp_path: Path, side: str, kind: str) -> None:
    """A database is skipped if a file that SQLite would open beside it is not a file of its own."""
    path = tmp_path / "agents.db"
    database(path)
    other = Path(f"{path}{side}")
    if kind == "fifo":
        os.mkfifo(other)
    elif kind == "link":
        other.symlink_to(tmp_path / "store" / "chats.db-shm")
    elif kind == "folder":
        other.mkdir()
    else:
        other.hardlink_to(tmp_path / "store" / "chats.db-shm")
    found = list(find([str(path)]))
    assert not [one for one in found if one.source is not None]


@pytest.mark.parametrize("gap", [" ", "/**/", "--\n", "\n", "\t"])
def test_virtual_tables(tmp_path: Path, gap: str) -> None:
    """A virtual table is not taken for a table, however its definition is spelled."""
    from clew.sources.items import Item
    from clew.sources.sqlite import open_database, tables

    path = tmp_path / "x.db"
    with sqlite3.connect(path) as conn:
        conn.execute("CREATE TABLE plain (a)")
        conn.execute("CREATE VIEW seen AS SELECT randomblob(1000000000) AS a")
        conn.execute("PRAGMA writable_schema = 1")
        sql = f"CREATE{gap}VIRTUAL TABLE forged USING fts5(a)"
        conn.execute("INSERT INTO sqlite_master VALUES ('table', 'forged', 'forged', 0, ?)", (sql,))
    conn.close()
    with open_database(Item(str(path), 0, 0)) as connection:
        assert list(tables(connection)) == ["plain"]
        with pytest.raises(sqlite3.DatabaseError, match=r"prohibited|not authorized"):
            connection.execute("SELECT * FROM seen").fetchall()


MAGIC = bytes.fromhex("d9d505f920a163d7")


def test_a_journal_that_names_another_file(store: clew.Store, tmp_path: Path) -> None:
    """A journal that would have SQLite open and delete a file, when it is rolled back, is not rolled back."""
    path, other = tmp_path / "agents.db", tmp_path / "precious.txt"
    database(path)
    other.write_text(SECRET)
    page, name = path.read_bytes()[:4096], bytes(other)
    pages, last = path.stat().st_size // 4096, (1 << 30) // 4096 + 1
    header = (MAGIC + struct.pack(">5I", 1, 7, pages, 512, 4096)).ljust(512, b"\0")
    checked = 7 + sum(page[at] for at in range(4096 - 200, 0, -200))
    record = struct.pack(">I", 1) + page + struct.pack(">I", checked)
    end = struct.pack(">I", last) + name + struct.pack(">2I", len(name), sum(name)) + MAGIC
    Path(f"{path}-journal").write_bytes(header + record + end)
    list(import_all(store, find([str(path)])))
    assert other.read_text() == SECRET


def test_rows_in_a_circle(tmp_path: Path) -> None:
    """A page whose rows are not in the order of their numbers ends with an error, and is not read again and again."""
    from clew.sources.items import Item
    from clew.sources.sqlite import open_database, scan

    path = tmp_path / "x.db"
    with sqlite3.connect(path) as conn:
        conn.execute("CREATE TABLE t (a)")
        conn.executemany("INSERT INTO t VALUES (?)", [(number,) for number in range(9)])
        (root,) = conn.execute("SELECT rootpage FROM sqlite_master").fetchone()
    conn.close()
    data, at = bytearray(path.read_bytes()), (root - 1) * 4096 + 8
    cells = [bytes(data[at + 2 * number : at + 2 * number + 2]) for number in range(9)]
    data[at : at + 18] = b"".join([*cells[5:], *cells[:5]])
    path.write_bytes(data)
    with pytest.raises(clew.Invalid, match="not in order"), open_database(Item(str(path), 0, 0)) as opened:
        assert len(list(islice(scan(opened, "t"), 100))) < 100


def test_keys_that_are_not_text(store: clew.Store, tmp_path: Path) -> None:
    """Cursor: keys that are not UTF-8 do not make an import endless, and the others are read."""
    path = tmp_path / "state.vscdb"
    says = json.dumps({"type": 1, "text": "hello", "bubbleId": "b"})
    lists = json.dumps({"composerId": "x", "fullConversationHeadersOnly": [{"bubbleId": "b"}]})
    keys = [b"composerData:a\xff", b"composerData:x", b"bubbleId:x:b", b"bubbleId:x:\xff"]
    with sqlite3.connect(path) as conn:
        conn.execute("CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        values = [lists, lists, says, says]
        conn.executemany("INSERT INTO cursorDiskKV VALUES (CAST(? AS TEXT), ?)", zip(keys, values, strict=True))
    conn.close()
    (done,) = imported(store, path)
    assert (done.state, done.messages) == ("imported", 1)


@pytest.mark.parametrize("column", ["checkpoint_ns", "rowid"])
def test_a_generated_column_in_a_query(store: clew.Store, tmp_path: Path, column: str) -> None:
    """A column that a query names, or the number of a row, is not computed."""
    path = tmp_path / "threads.db"
    stored = [name for name in ("thread_id", "checkpoint_ns", "checkpoint_id", "type", "checkpoint") if name != column]
    large = f"{column} TEXT AS (zeroblob(200000000))"
    with sqlite3.connect(path) as conn:
        conn.execute(f"CREATE TABLE checkpoints ({', '.join([*stored, large])})")
        conn.execute("INSERT INTO checkpoints (thread_id, checkpoint_id, type) VALUES ('t', '1', 'msgpack')")
    conn.close()
    limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (resource_size() + (150 << 20), limit[1]))
    try:
        (done,) = imported(store, path)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)
    assert done.state == "skipped"
    assert not [why for why in done.skipped if "MemoryError" in why]


def resource_size() -> int:
    """Bytes of addresses that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def test_many_small_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows count with the memory that they take: a forged table can have any number of small ones."""
    from clew.sources import sqlite as module
    from clew.sources.items import Item

    monkeypatch.setattr(module, "LONGEST_VALUE", 100_000)
    path = tmp_path / "agents.db"
    with sqlite3.connect(path) as conn:
        conn.execute("CREATE TABLE t (a, b)")
        conn.executemany("INSERT INTO t VALUES (1, ?)", [(number,) for number in range(1000)])
    conn.close()
    with pytest.raises(clew.Invalid, match="more than"), module.open_database(Item(str(path), 0, 0)) as opened:
        module.look_up(opened, "t", "a", 1)


def test_a_query_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that needs far more steps than it has bytes is skipped with the reason."""
    from clew.sources import sqlite as module
    from clew.sources.items import Item

    monkeypatch.setattr(module, "MOST_STEPS", 5)
    path = tmp_path / "agents.db"
    database(path, rows=3000)
    join = "SELECT count(*) FROM agent_messages a, agent_messages b, agent_messages c"
    with pytest.raises(clew.Invalid, match="takes too long"), module.open_database(Item(str(path), 0, 0)) as opened:
        opened.execute(join).fetchone()


@pytest.mark.parametrize("seed", range(12))
def test_random_bytes(store: clew.Store, tmp_path: Path, seed: int) -> None:
    """Samples with random bytes changed have an outcome each, and leave a sound store."""
    chance = random.Random(seed)
    folder = tmp_path / "in"
    log = write_claude(folder, jsonl([claude_line(2, 1, "user", "again")]))
    (folder / "conversations.json").write_text(json.dumps([TREE]))
    database(folder / "agents.db", rows=3)
    for path in (log, folder / "conversations.json", folder / "agents.db"):
        data = bytearray(path.read_bytes())
        for _ in range(chance.randrange(1, 30)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(bytes(data[: chance.choice([len(data), len(data) // 2])]))
    for one in imported(store, folder):
        assert one.state in ("imported", "skipped", "empty")
    assert store.verify().ok
