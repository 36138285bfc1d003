"""A store on a read-only file system can be read; nothing beside it is created, and nothing is missing from it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.cli.permissions import obey, unenforced
from tests.crash import disk
from tests.reliability import sample

READ = """
import json, sys, clew
key = bytes.fromhex(sys.argv[2]) or None
with clew.open(sys.argv[1], key=key, read_only=True, immutable=True) as store:
    store.ping()
    (session,) = store.sessions.list().items
    print(json.dumps({
        "texts": [node.text for node in session.path()],
        "found": [hit.node.text for hit in store.search("needle")],
        "verified": store.verify().ok,
    }))
"""


def made(path: Path, key: bytes | None = None) -> Path:
    """A closed store of one session."""
    with clew.open(path, key=key) as store:
        session = store.sessions.create(title="Read me")
        session.append([clew.user("hay"), clew.user("a needle")])
        session.append(clew.user("look", session.attach(b"x" * 300_000, mime_type="image/png", modality="image")))
    return path


@pytest.fixture
def image(tmp_path: Path) -> Iterator[disk.Disk]:
    with disk.mounted(tmp_path / "image", "16m") as made:
        yield made


def open_immutable(path: Path, **options: Any) -> clew.Store:
    return clew.open(path, read_only=True, immutable=True, **options)


@pytest.mark.parametrize("key", [None, b"k" * 32])
def test_a_store_on_a_read_only_disk(image: disk.Disk, key: bytes | None) -> None:
    """Conversations, attachments, search and verify, plain and sealed; the error without the option names it."""
    path = made(image.folder / "chats.db", key)
    before = {file.name: file.read_bytes() for file in image.folder.iterdir() if file.name != "chats.db-search"}
    image.read_only(on=True)
    try:
        with pytest.raises(clew.ReadOnly) as told:
            clew.open(path, key=key)
        assert "immutable=True" in told.value.hint
        with open_immutable(path, key=key) as store:
            (session,) = store.sessions.list().items
            assert [node.text for node in session.path()][:2] == ["hay", "a needle"]
            assert [hit.node.text for hit in store.search("needle")] == ["a needle"]
            assert [hit.node.text for hit in store.search("eedl", mode="substring")] == ["a needle"]
            assert store.verify().ok
            with pytest.raises(clew.ReadOnly, match="opened read-only"):
                session.append("more")
    finally:
        image.read_only(on=False)
    assert {file.name: file.read_bytes() for file in image.folder.iterdir()} == before


@pytest.mark.skipif(bool(unenforced()), reason=unenforced() or "permissions count here")
@pytest.mark.parametrize("key", [None, b"k" * 32])
def test_a_store_in_a_folder_that_cannot_be_written(tmp_path: Path, key: bytes | None) -> None:
    """By a program that may only read it: no file appears, not even in the moment."""
    (tmp_path / "layer").mkdir()
    path = made(tmp_path / "layer" / "chats.db", key)
    for file in path.parent.iterdir():
        file.chmod(0o400)
    path.parent.chmod(0o500)
    names = sorted(os.listdir(path.parent))
    try:
        done = subprocess.run(
            [sys.executable, "-c", READ, path, (key or b"").hex()],
            preexec_fn=obey, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert (told["texts"][:2], told["found"], told["verified"]) == (["hay", "a needle"], ["a needle"], True)
        assert sorted(os.listdir(path.parent)) == names
    finally:
        path.parent.chmod(0o700)


def test_everything_is_as_it_was_written(tmp_path: Path) -> None:
    """The whole content, read as of a store that can be written."""
    path = tmp_path / "chats.db"
    with clew.open(path) as store:
        sample.fill(store, words=5)
        expected = sample.readings(store)
    with open_immutable(path) as store:
        assert sample.readings(store) == expected


def test_a_log_that_is_not_empty_is_refused(path: Path, tmp_path: Path) -> None:
    """Its messages would be missing: of a killed program, or of one that has the store open."""
    with clew.open(path) as store:
        store.sessions.create().append("in the log")
        with pytest.raises(clew.Unavailable, match=r"chats\.db-wal is not empty") as told:
            open_immutable(path)
        assert "clew backup" in told.value.hint
        shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-copy")
    with pytest.raises(clew.Unavailable, match="is not empty"):
        open_immutable(tmp_path.parent / f"{tmp_path.name}-copy" / path.name)
    with open_immutable(path) as store:  # closed meanwhile, which empties the log
        assert len(store.sessions.list().items) == 1


def test_a_journal_that_is_not_empty_is_refused(path: Path) -> None:
    """Of a migration that was cut short."""
    made(path)
    Path(f"{path}-journal").write_bytes(b"begun")
    with pytest.raises(clew.Unavailable, match=r"chats\.db-journal is not empty"):
        open_immutable(path)


def test_every_write_is_refused(path: Path, tmp_path: Path) -> None:
    """Also those of the store as a whole; and closing it changes nothing."""
    made(path)
    before = path.read_bytes()
    with open_immutable(path) as store:
        (session,) = store.sessions.list().items
        for write in (
            lambda: store.sessions.create(),
            lambda: session.append("x"),
            lambda: session.rename("x"),
            lambda: store.sessions.delete(session.id),
            lambda: store.write(lambda unit: None),
            lambda: store.seal(b"k" * 32),
            lambda: store.transaction().__enter__(),
        ):
            with pytest.raises(clew.ReadOnly):
                write()
        (failure,) = store.sessions.purge(session.id).failures
        assert "opened read-only" in failure.error
        store.backup(tmp_path / "backup.db")
        assert session.path()
    assert path.read_bytes() == before
    assert len(clew.open(tmp_path / "backup.db").sessions.list().items) == 1


def test_a_store_that_is_only_read_sees_the_writers(path: Path) -> None:
    """Without `immutable` it follows the log; it has no search index in a file."""
    made(path)
    with clew.open(path) as writer, clew.open(path, read_only=True) as reader:
        (session,) = reader.sessions.list().items
        writer.sessions.get(session.id).append("a new needle")
        assert [node.text for node in session.refresh().path()][-1] == "a new needle"
        assert len(reader.search("needle")) == 2
        with pytest.raises(clew.ReadOnly):
            session.append("more")
    assert not Path(f"{path}-search").exists()


@pytest.mark.parametrize(
    "options",
    [{"immutable": True}, {"read_only": True, "audit": True}],
)
def test_options_that_do_not_fit(path: Path, options: dict[str, bool]) -> None:
    """Are refused, with what they mean."""
    made(path)
    with pytest.raises(clew.Invalid):
        clew.open(path, **options)  # type: ignore[arg-type]
    with pytest.raises(clew.Invalid, match="files"):
        clew.open("postgresql://clew@127.0.0.1:1/none", read_only=True)


def test_nothing_is_created(tmp_path: Path) -> None:
    """A store that does not exist is not found, and an empty file stays empty."""
    with pytest.raises(clew.NotFound):
        open_immutable(tmp_path / "none.db")
    (tmp_path / "empty.db").touch()
    with pytest.raises(clew.NotFound):
        open_immutable(tmp_path / "empty.db")
    assert os.listdir(tmp_path) == ["empty.db"]
    assert (tmp_path / "empty.db").read_bytes() == b""
