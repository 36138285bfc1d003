"""`clew import --watch`: what another program writes is in the store soon after."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

import clew
from clew.sources import watching
from tests.sources.made import SESSION, an_id, claude_line, jsonl

PATIENCE = 20.0


def until(true: Callable[[], bool]) -> None:
    """Waits for something, within reason."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


@contextmanager
def watcher(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program that watches, from the moment on at which it says so."""
    command = [sys.executable, "-m", "clew", "import", "--watch", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stderr is not None
            assert "Watching" in running.stderr.readline()
            yield running
        finally:
            running.kill()


def is_stored(db: str, id: str, key: bytes | None = None) -> bool:
    with clew.open(db, key=key) as store:
        try:
            return bool(store.nodes.get(id))
        except clew.NotFound:
            return False


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_new_message_is_in_the_store(tmp_path, db):
    """Old and new messages are imported, a torn line waits for its end, and Ctrl-C ends it with exit code 0."""
    folder = tmp_path / "projects" / "p"
    folder.mkdir(parents=True)
    log = folder / f"{SESSION}.jsonl"
    log.write_bytes(jsonl([claude_line(1, None, "user", "Why lint?")]))
    with watcher(str(tmp_path / "projects"), "--jsonl") as running:
        assert is_stored(db, an_id(1))
        line = jsonl([claude_line(3, 2, "user", "Thanks.")])
        append(log, jsonl([claude_line(2, 1, "assistant", "Unused.")]) + line[:40])
        until(lambda: is_stored(db, an_id(2)))
        append(log, line[40:])
        until(lambda: is_stored(db, an_id(3)))
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=PATIENCE)
    assert (running.returncode, "Traceback" in err, "Undo with" in err) == (0, False, True)
    told = [json.loads(one) for one in out.splitlines()]
    assert [each["messages"] for one in told for each in one["conversations"]] == [1, 1, 1]


def test_a_sealed_store(tmp_path, db, monkeypatch):
    """With a key, a large log is followed line by line, and no word is in the files."""
    key = clew.keys.from_file(tmp_path / "store.key", create=True)
    assert isinstance(key, bytes)
    monkeypatch.setenv("CLEW_KEY_FILE", str(tmp_path / "store.key"))
    log = tmp_path / "projects" / f"{SESSION}.jsonl"
    log.parent.mkdir()
    log.write_bytes(jsonl(claude_line(n, n - 1 or None, "user", f"Why lint? {n} " + "x" * 2000) for n in range(1, 600)))
    with watcher(str(log.parent)) as running:
        for number in (600, 601):
            append(log, jsonl([claude_line(number, number - 1, "user", "Unused import.")]))
            until(partial(is_stored, db, an_id(number), key))
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=PATIENCE)
    with clew.open(db, key=key) as store:
        assert [node.id for node in store.sessions.get(SESSION).path()] == [an_id(n) for n in range(1, 602)]
        assert store.verify().damage == []
    raw = b"".join(file.read_bytes() for file in Path(db).parent.glob("chats.db*"))
    assert not any(word in raw for word in (b"Why lint", b"Unused import", an_id(300).encode()))


def test_the_histories_on_this_machine(tmp_path, db):
    """Without a path, what is found at home is watched, new folders too, and each change is one line."""
    folder = tmp_path / "home" / ".claude" / "projects" / "p"
    folder.parent.mkdir(parents=True)
    with watcher("--from", "claude-code") as running:
        folder.mkdir()
        (folder / f"{SESSION}.jsonl").write_bytes(jsonl([claude_line(1, None, "user", "Why lint?")]))
        until(lambda: is_stored(db, an_id(1)))
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=PATIENCE)
    first, change = out.splitlines()
    assert first == "0 new messages in 0 conversations imported"
    assert change.endswith("1 new message  Why lint?")


@pytest.mark.parametrize("given", [["--json"], ["--dry-run"], ["--again"]])
def test_options_that_do_not_fit(clew_cli, tmp_path, given):
    """A watch has no end at which one document could be printed, and stores what it reads."""
    assert clew_cli("import", "--watch", str(tmp_path), *given).code == 2


@pytest.mark.parametrize("polling", [True, False])
def test_what_is_noticed(tmp_path, monkeypatch, polling):
    """New files, files that grow, a database that is written through its log, places that appear; nothing else."""
    monkeypatch.setattr(watching, "POLL", 0.05)
    monkeypatch.setattr(watching, "STEP", 50)
    monkeypatch.setattr(watching, "LOOK", 0.1)
    folder, late, beside = tmp_path / "logs", tmp_path / "late", tmp_path / "data"
    folder.mkdir()
    beside.mkdir()
    base = beside / "chat.db"
    with closing(sqlite3.connect(base)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("CREATE TABLE t (x)")
        writer.commit()
        wanted = [str(folder), str(base), str(late)]
        end = time.monotonic() + PATIENCE

        def places() -> list[str]:
            return [path for path in wanted if os.path.exists(path)]

        seen = watching.watch(places, stop=lambda: time.monotonic() > end, polling=polling)

        def notice(*expected: Path) -> None:
            for paths in seen:
                if paths == [str(path) for path in expected]:
                    return
                assert set(paths) <= {str(folder / "a.jsonl"), str(base)}, "an earlier change, told in two parts"
            raise AssertionError(f"{expected} was not noticed")

        notice(folder, base)
        (folder / "a.jsonl").write_text("1\n")
        notice(folder / "a.jsonl")
        append(folder / "a.jsonl", b"2\n")
        notice(folder / "a.jsonl")
        (beside / "other.db").write_text("x")
        writer.execute("INSERT INTO t VALUES (1)")
        writer.commit()
        notice(base)
        late.mkdir()
        notice(folder, base, late)


def test_without_the_package(tmp_path, monkeypatch):
    """Where watchfiles is missing, files are looked at instead."""
    monkeypatch.setattr(watching, "POLL", 0.05)
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    end = time.monotonic() + PATIENCE
    seen = watching.watch(lambda: [str(tmp_path)], stop=lambda: time.monotonic() > end)
    next(seen)
    (tmp_path / "a.jsonl").write_text("1\n")
    assert next(paths for paths in seen if paths) == [str(tmp_path / "a.jsonl")]
