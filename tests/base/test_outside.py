"""Files that are named from outside: a store's own files are never opened."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import clew
from clew import sources
from clew.base.outside import ENDINGS, close_fd, is_of_store, open_fd, open_outside, open_regular
from clew.checkpoints import Checkpoints
from clew.cli.chat.attachments import read
from clew.errors import Invalid
from tests.sources.made import SESSION, claude_line, jsonl

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/locks")


def locks(path: Path) -> int:
    """How many locks this process has on the files of a store."""
    inodes = {str(os.stat(f"{path}{ending}").st_ino) for ending in ENDINGS if os.path.exists(f"{path}{ending}")}
    mine = [line.split() for line in Path("/proc/locks").read_text().splitlines() if str(os.getpid()) in line.split()]
    return sum(line[5].split(":")[-1] in inodes for line in mine if line[1] == "POSIX")


@linux
def test_looking_for_histories_keeps_locks(tmp_path: Path) -> None:
    """A search for histories in the store's folder keeps the store's locks, and finds the histories alone."""
    path = tmp_path / "chats.db"
    (tmp_path / f"{SESSION}.jsonl").write_bytes(jsonl([claude_line(1, None, "user", "hello")]))
    with clew.open(path) as store:
        session = store.sessions.create()
        session.append(clew.user("kept"))
        list(store.search("kept"))
        before = locks(path)
        assert before
        found = list(sources.find([str(tmp_path)]))
        assert locks(path) == before
        assert [os.path.basename(one.item.path) for one in found] == [f"{SESSION}.jsonl"]
        session.append(clew.user("still works"))


@linux
@pytest.mark.parametrize("how", ["name", "link", "hard link", "renamed"])
def test_no_file_of_an_open_store_is_opened(tmp_path: Path, how: str) -> None:
    """Each file of an open store is refused under any name, and can be opened once the store is closed."""
    path = tmp_path / "chats.db"
    with clew.open(path) as store:
        session = store.sessions.create()
        session.append(clew.user("kept"))
        list(store.search("kept"))
        before = locks(path)
        for ending in ENDINGS:
            name = Path(f"{path}{ending}")
            if not name.exists():
                continue
            other = name
            if how in ("link", "hard link"):
                other = tmp_path / f"other{ending}"
                (other.symlink_to if how == "link" else other.hardlink_to)(name)
            elif how == "renamed" and ending in ("", "-wal", "-shm"):
                other = tmp_path / f"renamed{ending}"
                name.rename(other)
            for opener in (open_regular, open_outside, open_fd, read):
                with pytest.raises(Invalid, match="store that is open"):
                    opener(str(other))
            if other != name and how == "renamed":
                other.rename(name)
            elif other != name:
                other.unlink()
        assert locks(path) == before
    with open_regular(str(path)) as file:
        assert file.read(6) == b"SQLite"


@linux
def test_a_store_opened_while_its_file_is_read(tmp_path: Path) -> None:
    """A file that was opened before a store uses it is not closed while the store is open."""
    path = tmp_path / "chats.db"
    clew.open(path).close()
    file = open_regular(str(path))
    fd = open_fd(str(path))
    with clew.open(path) as store:
        store.sessions.create().append(clew.user("kept"))
        before = locks(path)
        file.close()
        close_fd(fd)
        assert locks(path) == before > 0
        assert is_of_store(os.fstat(fd))
    os.close(fd)


@linux
def test_a_checkpoint_of_the_stores_folder(tmp_path: Path) -> None:
    """A checkpoint of a folder with another open store keeps that store's locks, and leaves its files out."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("text")
    with clew.open(work / "other.db") as other, clew.open(tmp_path / "chats.db") as store:
        other.sessions.create().append(clew.user("kept"))
        before = locks(work / "other.db")
        session = store.sessions.create()
        node = session.append(clew.user("change it"))
        Checkpoints(session, work).capture_tree(node)
        assert locks(work / "other.db") == before > 0


def test_appends_while_searching(tmp_path: Path) -> None:
    """Messages acknowledged while threads search the store's folder and other processes open the store are kept."""
    path = tmp_path / "chats.db"
    other = """
import sys, clew
for n in range(15):
    with clew.open(sys.argv[1]) as store:
        store.sessions.get(sys.argv[2]).append(clew.user(str(n)))
"""
    acknowledged: list[str] = []
    with clew.open(path) as store:
        mine, *theirs = [store.sessions.create() for _ in range(3)]
        done = threading.Event()

        def search() -> None:
            while not done.is_set():
                list(sources.find([str(tmp_path)]))

        thread = threading.Thread(target=search)
        thread.start()
        others = [subprocess.Popen([sys.executable, "-c", other, str(path), one.id]) for one in theirs]
        while any(one.poll() is None for one in others):
            acknowledged.append(mine.append(clew.user(str(len(acknowledged)))).id)
        done.set()
        thread.join()
        assert [one.returncode for one in others] == [0, 0]
    with clew.open(path) as store:
        assert [node.id for node in store.sessions.get(mine.id).path()] == acknowledged
        assert [len(store.sessions.get(one.id).path()) for one in theirs] == [15, 15]


ALLOWED = {
    "backends/": "the store's own files, which SQLite and the store's locks need",
    "testing/": "files that tests make",
    "base/outside.py": "the one place that opens files by a name from outside",
    "base/files.py": "new files, folders, and a file of the system",
    "checkpoints/root.py": "folders, and new files under names of its own",
    "agents/cpe/reader.py": "SQLite opens what `open_outside` has opened before",
    "agents/cpe/writer.py": "a new file in a new folder",
    "agents/store.py": "its own function `open`, for stores",
    "agents/files.py": "a new file (O_EXCL)",
    "exports/to_files.py": "a file that was just made in a new folder",
    "exports/to_html.py": "a file of the package",
    "providers/prices.py": "a file of the package",
    "web/site.py": "a file of the package",
    "web/downloads.py": "an archive that is written to a pipe",
    "sources/items.py": "members of an archive that `open_regular` has opened, and a map of a private copy",
    "sources/chatgpt.py": "names an error of zipfile",
    "sources/documents.py": "names the type of a map",
    "sources/sqlite.py": "SQLite opens what was compared before; private copies",
    "cli/commands/hook.py": "/dev/null",
    "cli/chat/slash_commands.py": "a new file (mode x); a temporary file of its own",
    "cli/root.py": "/dev/null",
    "cli/setup/ask.py": "/dev/tty",
    "cli/setup/installation.py": "a file of the installation",
}
"""Modules that open files in another way, each with the reason."""
METHODS = {"read_bytes", "read_text", "write_bytes", "write_text", "copyfile", "copy", "copy2", "copytree", "move"}
MODULES = {"mmap", "zipfile", "tarfile", "gzip", "bz2", "lzma", "fileinput", "linecache", "shelve", "dbm"}


def openers(code: str) -> set[str]:
    """The ways to open a file that a module uses."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {node.module or ""} if isinstance(node, ast.ImportFrom) else {one.name for one in node.names}
            found |= names & MODULES
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in ("open", "FileIO"):
            found.add(called.id)
        elif isinstance(called, ast.Attribute):
            owner = called.value.id if isinstance(called.value, ast.Name) else ""
            if (owner, called.attr) in {("os", "open"), ("io", "open"), ("io", "FileIO"), ("sqlite3", "connect")}:
                memory = node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == ":memory:"
                found |= set() if memory else {f"{owner}.{called.attr}"}
            elif called.attr in METHODS and (owner == "shutil" or called.attr.startswith(("read_", "write_"))):
                found.add(called.attr)
    return found


def test_files_are_opened_in_one_place() -> None:
    """No other module opens a file by a path, except those listed with their reasons; each of these still does."""
    root = Path(clew.__file__).parent
    modules = {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*.py")}
    found = {name: ways for name, code in modules.items() if (ways := openers(code))}
    others = {name: ways for name, ways in found.items() if not name.startswith(tuple(ALLOWED))}
    assert not others
    assert [name for name in ALLOWED if not any(one.startswith(name) for one in found)] == []


def test_a_watch_of_the_stores_folder(tmp_path: Path) -> None:
    """`clew import --watch` imports the lines of a log in the folder in which the store is."""
    log = tmp_path / f"{SESSION}.jsonl"
    log.write_bytes(jsonl([claude_line(1, None, "user", "first")]))
    command = [sys.executable, "-m", "clew", "--db", str(tmp_path / "chats.db"), "import", str(tmp_path), "--watch"]
    env = {**os.environ, "HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "home")}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watch:
        assert watch.stderr is not None
        while b"Watching" not in (line := watch.stderr.readline()):
            assert line, "the watch has ended"
        for number in range(2, 6):
            with log.open("ab") as file:
                file.write(jsonl([claude_line(number, number - 1, "user", f"line {number}")]))
        until = time.monotonic() + 60
        while time.monotonic() < until and _messages(tmp_path / "chats.db") < 5:
            time.sleep(0.3)
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=60)
    assert _messages(tmp_path / "chats.db") == 5


def _messages(path: Path) -> int:
    with clew.open(path) as store:
        return sum(len(one.path()) for one in store.sessions.list())
