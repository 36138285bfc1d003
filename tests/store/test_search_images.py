"""Images of a sealed store's search index: a new process loads them, and they keep what sealing and purging promise."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.backends.fts_images import Images
from clew.backends.fts_tables import FtsTables
from clew.store.parts import Parts
from clew.store.search.index import Index

KEY, OTHER = bytes(range(32)), bytes(32)
KILLED = """
import os, signal, sys
import clew
from clew.backends import fts_tables
from clew.backends.fts_images import Images
fts_tables.PART = 10
put = Images.put
def killed(self, image):
    put(self, image)
    if image.part.low == 21 and image.body:
        os.kill(os.getpid(), signal.SIGKILL)
Images.put = killed
clew.open(sys.argv[1], key=bytes(range(32))).search("word")
"""


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten messages in a part, and an image of every ten new ones."""
    monkeypatch.setattr("clew.backends.fts_tables.PART", 10)
    monkeypatch.setattr("clew.store.search.index.NEW_MESSAGES", 10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A sealed store with 95 messages, of which the 46th to the 50th are another session's."""
    with clew.open(tmp_path / "s.db", key=KEY) as store:
        one, two = store.sessions.create(title="one"), store.sessions.create(title="two")
        for session, numbers in ((one, range(45)), (two, range(45, 50)), (one, range(50, 95))):
            session.append([clew.user(f"word zanzibar{n} {'needle ' * (n % 5)}") for n in numbers])
    return tmp_path / "s.db"


@pytest.fixture
def indexed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of all messages that are read to be indexed."""
    found: list[int] = []
    fill = FtsTables.fill

    def noted(self: FtsTables, part: Any, last: int, batches: Any) -> None:
        def read() -> Iterator[Any]:
            for batch in batches:
                found.extend(ord for ord, _, _ in batch)
                yield batch

        fill(self, part, last, read())

    monkeypatch.setattr(FtsTables, "fill", noted)
    return found


_IMAGES = "SELECT mode, low, wrapped_key, body FROM images WHERE length(body) > 0 ORDER BY mode DESC, low"


def search(path: Path, key: bytes = KEY, limit: int = 200) -> dict[str, float]:
    """The texts that a new opening finds, with their scores; words and substrings agree."""
    with clew.open(path, key=key) as store:
        found = {hit.node.text: hit.score for hit in store.search("word", limit=limit)}
        assert {hit.node.text for hit in store.search("ord zan", mode="substring", limit=limit)} == set(found)
        assert len(store.search("zanzibar7")) == 1
        return found


def images(path: Path) -> list[tuple[str, int, bytes, bytes]]:
    """Mode, first number, data key and body of all images."""
    with closing(sqlite3.connect(f"{path}-search")) as conn:
        return conn.execute(_IMAGES).fetchall()


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(f"{path}-search", isolation_level=None)) as conn:
        conn.execute(statement)


def everything(path: Path) -> bytes:
    """The bytes of all files."""
    return b"\n".join(file.read_bytes() for file in path.parent.iterdir())


def test_another_opening_loads_the_images(path: Path, indexed: list[int]) -> None:
    """Only the first search indexes all messages; the next opening finds the same with the same scores."""
    found = search(path)
    assert len(found) == 95
    assert len(indexed) == 2 * 95
    assert search(path) == found
    assert len(indexed) - 2 * 95 < 2 * 10
    with clew.open(path, key=KEY) as store:
        store.sessions.latest().append([clew.user(f"word zanzibar{n}") for n in range(95, 130)])
    assert len(search(path)) == 130
    count = len(indexed)
    assert len(search(path)) == 130
    assert len(indexed) - count < 2 * 10
    with clew.open(path, key=KEY) as store:
        assert store.verify().ok


def test_no_word_of_an_image_is_readable(path: Path) -> None:
    """P4: while images are written, and after, no file has a word of the messages."""
    with clew.open(path, key=KEY) as store:
        store.search("word")
        store.search("zanzi", mode="substring")
        assert len(images(path)) == 2 * 9
        found = everything(path).lower()
        assert not [word for word in (b"zanzi", b"needle") if word in found]
        assert (path.parent / "s.db-search").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("searched", [False, True])
def test_a_purge_removes_images_with_its_words(path: Path, searched: bool, indexed: list[int]) -> None:
    """P5: after a purge neither the image nor its data key is in any file; the images of other parts remain."""
    search(path)
    before = {image[:2]: image[2:] for image in images(path)}
    with clew.open(path, key=KEY) as store:
        if searched:
            store.search("word")
        (two,) = store.sessions.list(title="two").items
        assert store.sessions.purge(two.id).pending == ()
        left = everything(path)
        for (mode, low), (wrapped, body) in before.items():
            pieces = [wrapped[-48:], *(body[at : at + 64] for at in range(0, len(body) - 64, 512))]
            assert [piece in left for piece in pieces] == [low != 41] * len(pieces), (mode, low)
    del indexed[:]
    found = search(path)
    assert len(found) == 90
    assert len(indexed) <= 2 * 15
    assert len(images(path)) == 2 * 9
    assert search(path) == found


def test_no_image_is_made_of_what_was_purged_meanwhile(path: Path) -> None:
    """P5: a process that indexed a message before another one purged it does not save its words."""
    with clew.open(path, key=KEY) as one, clew.open(path, key=KEY) as two:
        assert len(one.search("word", limit=200)) == 95
        two.sessions.purge(two.sessions.list(title="two").items[0].id)
        assert 41 not in {low for _, low, _, _ in images(path)}
        index = Parts.of(one).search.index
        assert isinstance(index, Index)
        assert index.images is not None
        index.images.save(FtsTables(index.open()), "words")
        assert 41 not in {low for _, low, _, _ in images(path)}
        assert len(one.search("word", limit=200)) == 90


def test_rotating_the_key_removes_the_images(path: Path) -> None:
    """After a rotation no image of the old key is left, and one that is put back is not used."""
    found = search(path)
    old = Path(f"{path}-search").read_bytes()
    before = images(path)
    with clew.open(path, key=KEY) as store:
        store.search("word")
        store.rotate(OTHER)
        store.search("word")
    assert not {image[2] for image in before} & {image[2] for image in images(path)}
    assert search(path, OTHER) == found
    Path(f"{path}-search").write_bytes(old)
    change(path, "UPDATE images SET high = high")  # in place, without a log of the other file
    assert search(path, OTHER) == found
    with pytest.raises(clew.WrongKey):
        clew.open(path, key=KEY)


def garbage(path: Path) -> None:
    Path(f"{path}-search").write_bytes(os.urandom(8192))


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: change(path, "UPDATE images SET body = x'02' || randomblob(length(body) - 1)"),
        lambda path: change(path, "UPDATE images SET wrapped_key = randomblob(93) WHERE low < 50"),
        lambda path: change(path, "UPDATE images SET body = 'text', wrapped_key = 7 WHERE low = 21"),
        lambda path: change(path, "UPDATE images SET done = done - 1"),
        lambda path: change(path, "UPDATE images SET body = (SELECT body FROM images WHERE low = 1)"),
        lambda path: change(path, "DROP TABLE images"),
        garbage,
    ],
    ids=["body", "key", "types", "numbers", "swapped", "table", "file"],
)
def test_damaged_images_change_no_result(path: Path, damage: Callable[[Path], object]) -> None:
    """Damage to the images only costs time."""
    found = search(path)
    damage(path)
    assert search(path) == found
    assert search(path) == found


@pytest.mark.parametrize(
    "damage",
    [
        "body = CAST(x'02' || randomblob(length(body) - 1) AS BLOB)",
        "wrapped_key = randomblob(93)",
        "body = 'text', wrapped_key = 7",
    ],
)
def test_an_image_that_does_not_open_is_made_again(path: Path, damage: str, indexed: list[int]) -> None:
    """The first process that cannot open the image of a full part replaces it; the next one loads it."""
    found = search(path)
    change(path, f"UPDATE images SET {damage} WHERE low = 21")
    indexed.clear()
    assert search(path) == found
    again = [number for number in indexed if 21 <= number <= 30]
    assert len(again) == 2 * 10
    indexed.clear()
    assert search(path) == found
    assert not [number for number in indexed if 21 <= number <= 30]


def test_an_image_of_another_layout_is_made_again(
    path: Path, indexed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version of clew with another layout replaces each image once."""
    found = search(path)
    monkeypatch.setattr("clew.backends.fts_tables._IMAGE", b"\x7f")
    assert search(path) == found
    indexed.clear()
    assert search(path) == found
    assert len(indexed) < 2 * 10


def test_a_process_killed_while_it_writes_leaves_whole_images(path: Path, indexed: list[int]) -> None:
    """A process that is killed while it writes an image leaves those before it, and none of that part."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert [low for _, low, _, _ in images(path)] == [1, 11]
    assert len(search(path)) == 95
    assert len(images(path)) == 2 * 9


def test_two_write_images_at_once(path: Path) -> None:
    """Openings that index at the same time leave one image of each part, which the next one uses."""
    ready = threading.Barrier(3)

    def run() -> None:
        ready.wait()
        assert len(search(path)) == 95

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [image[:2] for image in images(path)]
    assert sorted(found) == sorted({(mode, low) for mode in ("words", "substring") for low in range(1, 91, 10)})
    assert len(search(path)) == 95


def test_a_search_that_cannot_write_uses_images(
    path: Path, monkeypatch: pytest.MonkeyPatch, indexed: list[int]
) -> None:
    """If the file cannot be written, its images are read, and none is added."""
    found = search(path)
    with clew.open(path, key=KEY) as store:
        store.sessions.latest().append([clew.user(f"word zanzibar{n}") for n in range(95, 130)])
    before = images(path)

    def refuse(self: Images, image: Any) -> None:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr(Images, "put", refuse)
    del indexed[:]
    assert found.keys() < search(path).keys()
    assert len(indexed) < 2 * 60
    assert images(path) == before


def test_a_restored_backup_has_its_own_messages(path: Path, tmp_path: Path) -> None:
    """A backup has no images, and those of a later state of the store are not used for it."""
    with clew.open(path, key=KEY) as store:
        (tmp_path / "copy").mkdir()
        store.backup(tmp_path / "copy" / "s.db")
        store.sessions.latest().append([clew.user(f"word zanzibar{n}") for n in range(95, 150)])
    assert len(search(path)) == 150
    assert not (tmp_path / "copy" / "s.db-search").exists()
    for end in ("", "-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    (tmp_path / "copy" / "s.db").rename(path)
    with clew.open(path, key=KEY) as store:
        store.sessions.latest().append([clew.user(f"word zanzibar of another history {n}") for n in range(60)])
    assert len(search(path)) == 155


def test_an_unsealed_store_has_a_plain_index(path: Path) -> None:
    """Unsealing and sealing replace images and index by each other."""
    search(path)
    with clew.open(path, key=KEY) as store:
        store.unseal()
        assert len(store.search("word", limit=200)) == 95
        store.seal(OTHER)
        assert not Path(f"{path}-search").exists()
        assert len(store.search("word", limit=200)) == 95
    assert b"zanzi" not in everything(path)
    assert images(path)
