"""P16: files that are damaged or made to harm have a clear outcome, and leave a sound store."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.redaction import Rules, builtin
from clew.sources import find, import_all, records
from clew.sources import items as items_module
from clew.sources import lines as lines_module
from tests.sources.made import SESSION, an_id, claude_line, jsonl
from tests.sources.test_exports import TREE

GOOD = claude_line(1, None, "user", "Hello")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[clew.Store]:
    with clew.open(tmp_path / "s.db") as store:
        yield store
        assert store.verify().damage == []


def outcome(store: clew.Store, path: Path) -> Any:
    (one,) = import_all(store, find([str(path)]))
    return one


def log_file(tmp_path: Path, *lines: bytes) -> Path:
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(jsonl([GOOD]) + b"".join(lines))
    return path


def line(text: str, number: int = 2) -> bytes:
    """A line whose text is given as JSON."""
    return jsonl([claude_line(number, 1, "assistant", "TEXT")]).replace(b'"TEXT"', text.encode())


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("[" * 5000 + "]" * 5000, 1),
        ('{"a":' * 300 + "1" + "}" * 300, 1),
        ('"' + "9" * 100 + '"', 2),
        ("9" * 5000, 2),
        ("1e999", 2),
        (r'"\ud800 alone"', 2),
        (r'"a\u0000b"', 2),
        (r'"\u001b[2J\u202e title"', 2),
        ('"one","content":"two"', 2),
    ],
    ids=["deep", "deep objects", "digits", "huge number", "infinite", "surrogate", "nul", "escape", "duplicate key"],
)
def test_strange_json(store: clew.Store, tmp_path: Path, text: str, messages: int) -> None:
    """A line is a message, or is kept as a record, or is skipped with its number; the others are imported."""
    path = log_file(tmp_path, line(text), jsonl([claude_line(3, 1, "user", "Still here")]))
    done = outcome(store, path)
    assert done.state == "imported"
    assert done.messages == messages + 1
    kept = b"".join(records(store.sessions.get(SESSION), store))
    assert kept == path.read_bytes() or ["line 2" in why for why in done.skipped] == [True]
    assert store.sessions.get(SESSION).path()[-1].text == "Still here"


def test_a_line_beyond_the_limit(store: clew.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is skipped with its size, and what follows is imported."""
    monkeypatch.setattr(lines_module, "LONGEST", 10_000)
    path = log_file(tmp_path, line(json.dumps("x" * 20_000)), jsonl([claude_line(3, 1, "user", "After")]))
    done = outcome(store, path)
    assert "bytes, more than" in done.skipped[0]
    assert done.messages == 2


def test_bytes_that_are_no_text(store: clew.Store, tmp_path: Path) -> None:
    """A line that is not UTF-8 does not stop the others."""
    broken = line('"?"').replace(b'"?"', b'"\xff"')
    path = log_file(tmp_path, broken, jsonl([claude_line(3, 1, "user", "On")]))
    done = outcome(store, path)
    assert done.messages == 2
    assert store.sessions.get(SESSION).path()[-1].text == "On"


def test_cycles_and_missing_parents(store: clew.Store, tmp_path: Path) -> None:
    """A message that names itself or an unknown one as its parent becomes a root, with a note."""
    path = log_file(tmp_path, jsonl([claude_line(5, 5, "user", "Loop"), claude_line(7, 99, "user", "Lost")]))
    done = outcome(store, path)
    assert done.messages == 3
    assert len(done.notes) == 2


def test_a_zip_bomb(store: clew.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that would unpack to a thousand times its size is skipped with the reason."""
    monkeypatch.setattr(items_module, "BLOCK", 1 << 16)
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr("conversations.json", b"[" + b" " * 30_000_000 + b"]")
    monkeypatch.setattr(items_module, "RATIO", 100)
    done = outcome(store, path)
    assert (done.state, "would unpack" in done.skipped[0]) == ("skipped", True)


def test_paths_in_an_archive_lead_nowhere(store: clew.Store, tmp_path: Path) -> None:
    """Members with `..`, absolute names or as links are read as data, and nothing is written or followed."""
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps([TREE]))
    path = tmp_path / "inner" / "export.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../evil.json", json.dumps([TREE]))
        link = zipfile.ZipInfo("link.json")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, str(secret))
    before = sorted(os.listdir(tmp_path))
    (done,) = import_all(store, find([str(path)]))
    assert done.messages == 4
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("damage", [slice(0, 200), slice(50, None)])
def test_a_damaged_archive(store: clew.Store, tmp_path: Path, damage: slice) -> None:
    """An archive that was cut is skipped with the reason."""
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps([TREE]))
    path.write_bytes(path.read_bytes()[damage])
    done = outcome(store, path)
    assert (done.state, done.skipped != ()) == ("skipped", True)


def test_links_and_pipes_in_a_folder(store: clew.Store, tmp_path: Path) -> None:
    """Below a folder, links are not followed and a pipe is not waited for."""
    folder = tmp_path / "projects"
    folder.mkdir()
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "link.jsonl").symlink_to(log_file(tmp_path))
    assert list(import_all(store, find([str(folder)]))) == []


def test_redaction_comes_first(tmp_path: Path) -> None:
    """What the rules find is in no message, record or title, and the import is still known the second time."""
    secret = "ada.lovelace@example.com"
    record = {"type": "queue-operation", "content": secret, "sessionId": SESSION}
    path = log_file(tmp_path, jsonl([claude_line(2, 1, "assistant", secret), record]))
    path.write_bytes(path.read_bytes() + jsonl([{"type": "custom-title", "customTitle": secret, "sessionId": SESSION}]))
    with clew.open(tmp_path / "r.db", redact=Rules(builtin("email"))) as store:
        assert outcome(store, path).messages == 2
        (again,) = import_all(store, find([str(path)]), again=True)
        assert [(one.messages, one.known, one.records) for one in again.conversations] == [(0, 2, 0)]
        session = store.sessions.get(SESSION)
        assert secret not in (session.title or "") + session.path()[-1].text
        assert secret.encode() not in b"".join(records(session, store))
    assert secret.encode() not in b"".join(one.read_bytes() for one in tmp_path.glob("r.db*"))


def test_two_orders(tmp_path: Path) -> None:
    """A file and its forked copy give the same conversations, whichever is imported first."""
    own = log_file(tmp_path, jsonl([claude_line(2, 1, "assistant", "Yes"), claude_line(3, 2, "user", "Two")]))
    other = own.with_name(f"{an_id(998)}.jsonl")
    copied = [{**one, "sessionId": an_id(998)} for one in (GOOD, claude_line(2, 1, "assistant", "Yes"))]
    other.write_bytes(jsonl([*copied, claude_line(8, 2, "user", "Else", sessionId=an_id(998))]))
    seen = []
    for order in ((own, other), (other, own)):
        with clew.open(":memory:") as store:
            for path in order:
                outcome(store, path)
            seen.append([
                ([node.id for node in session.path()], b"".join(records(session, store)))
                for session in map(store.sessions.get, (SESSION, an_id(998)))
            ])  # fmt: skip
    assert seen[0] == seen[1]
    assert [data for _, data in seen[0]] == [own.read_bytes(), other.read_bytes()]


def test_a_name_that_is_not_text(store: clew.Store, tmp_path: Path) -> None:
    """A file whose name is not UTF-8, and a title with a NUL, give a conversation like any other."""
    path = os.path.join(os.fsencode(tmp_path), b"trace-\xff.jsonl")
    header = {"type": "session", "harness": "x", "name": "a\0b"}
    with open(path, "wb") as file:
        file.write(jsonl([header, {"type": "message", "message": {"role": "user", "content": "Hello"}}]))
    (done,) = import_all(store, find([os.fsdecode(path)]))
    assert (done.state, done.messages) == ("imported", 1)
    (session,) = store.sessions.list()
    assert (session.title, session.path()[-1].text) == ("a\ufffdb", "Hello")
    assert [one.state for one in import_all(store, find([os.fsdecode(path)]))] == ["unchanged"]


def test_an_archive_is_opened_once(tmp_path: Path, store: clew.Store) -> None:
    """The list of its members is read once, however many there are: they can be read after it was deleted."""
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps([TREE]))
        archive.writestr("more/conversations-001.json", json.dumps([{**TREE, "conversation_id": "c2"}]))
    members = list(items_module.items(str(path)))
    path.unlink()
    for member, name in zip(members, ("c1", "c2"), strict=True):
        with member.open() as file:
            assert json.load(file)[0]["conversation_id"] == name


def test_a_compressed_log_that_is_a_bomb(tmp_path: Path, store: clew.Store) -> None:
    """A log that unpacks to more than a thousand times its size is skipped with the reason, as a member of a zip is."""
    zstandard = pytest.importorskip("zstandard")
    path = tmp_path / f"rollout-2026-11-18T00-39-47-{an_id(1)}.jsonl.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(b" " * (50 << 20)))
    done = outcome(store, path)
    assert done.state == "skipped"
    assert "unpacks to more than" in done.skipped[0]


def test_an_export_that_ends_in_the_middle(tmp_path: Path, store: clew.Store) -> None:
    """What is whole is imported, and the rest is reported: wherever it was cut, nothing is lost without a word."""
    whole = json.dumps([TREE, {**TREE, "conversation_id": "c2"}]).encode()
    second = whole.index(b', {"title"') + 2
    for cut in (second - 1, second, second + 50, len(whole) - 1):
        path = tmp_path / str(cut) / "conversations.json"
        path.parent.mkdir()
        path.write_bytes(whole[:cut])
        done = outcome(store, path)
        assert done.state == "imported"
        assert done.skipped and "ends in the middle" in done.skipped[-1]
    assert len(store.sessions.list()) == 2  # of the last one, only the bracket is missing


def test_a_log_in_which_all_is_odd(tmp_path: Path, store: clew.Store) -> None:
    """Half a character in every line does not hide the format; a message that cannot be read is kept, with a note."""
    odd = jsonl([claude_line(1, None, "user", "a\ud800b", cwd="/a\udfff")])
    (tmp_path / f"{SESSION}.jsonl").write_bytes(
        odd + jsonl([claude_line(2, 1, "user", "TEXT")]).replace(b"TEXT", b"\xe9")
    )
    done = outcome(store, tmp_path / f"{SESSION}.jsonl")
    assert (done.state, done.messages) == ("imported", 1)
    assert any("its message cannot be read" in note for note in done.notes)
    deep = log_file(tmp_path, line("[" * 100_000 + "]" * 100_000))
    assert "nested too deeply" in outcome(store, deep).skipped[0]
