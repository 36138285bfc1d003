"""Imports together with what else a store can be: sealed, redacted, on a server, with attachments in a bucket.

Each is compared with an import into a plain store in a file.
"""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew import exports
from clew.adapters.transcripts import MirroredTranscript
from clew.cli.agent_hook.transcript import TranscriptImport
from clew.redaction import Rule, Rules
from clew.sources import find, import_all, undo
from clew.sources.import_log import ImportRecorder
from tests.backends.postgres.conftest import server, url  # noqa: F401 (fixtures)
from tests.engine.objects.server import NodeLocation
from tests.sources.made import SESSION, an_id, claude_line, jsonl
from tests.sources.test_every_format import contents
from tests.sources.test_exports import chatgpt, node
from tests.sources.test_growing import random_log
from tests.sources.test_native_export import conversation

KEY = bytes(range(32))


def histories(folder: Path, seed: int = 1) -> Path:
    """A generated log that grows later, and an archive with conversations and pictures."""
    folder.mkdir()
    chance = random.Random(seed)
    (folder / f"{SESSION}.jsonl").write_bytes(jsonl(random_log(chance, 40)))
    picture = {"content_type": "multimodal_text", "parts": [
        {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-abcdef", "size_bytes": 70_000},
    ]}  # fmt: skip
    shown = chatgpt(node("p", None, "user", ""), conversation_id="pictures", title="Pictures", current_node="p")
    shown["mapping"]["p"]["message"]["content"] = picture
    with zipfile.ZipFile(folder / "export.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps([conversation(1), shown, conversation(2)], indent=1))
        archive.writestr("file-abcdef-picture.png", chance.randbytes(70_000))
    return folder


def take(store: clew.Store, folder: Path, **options: Any) -> list[Any]:
    done = list(import_all(store, find([str(folder)]), **options))
    assert all(one.state in ("imported", "unchanged") and not one.skipped for one in done)
    return done


def blobs(store: clew.Store) -> list[bytes]:
    """The attachments of all messages."""
    found = []
    for session in store.sessions.list():
        for one in session.history():
            for said in (one.said.extra or {}).get("clew.attached", {}).values():
                found.append(session.blobs.get(said["blob"]))
    return sorted(found)


def compare(other: clew.Store, folder: Path, tmp_path: Path) -> None:
    """Imports into another kind of store, twice and after growth, and compares it with a plain one."""
    with clew.open(tmp_path / "plain.db") as plain:
        for growth in (b"", jsonl([claude_line(900, 1, "user", "And another thing")])):
            with (folder / f"{SESSION}.jsonl").open("ab") as file:
                file.write(growth)
            for store in (plain, other):
                take(store, folder)
                take(store, folder, again=True)
            assert contents(other) == contents(plain)
            assert blobs(other) == blobs(plain)
            assert native(other, tmp_path / f"o{len(growth)}") == native(plain, tmp_path / f"p{len(growth)}")
        assert len(blobs(plain)) == 1
        assert other.verify().damage == []


def native(store: clew.Store, folder: Path) -> dict[str, bytes]:
    done = exports.write(store, f"{folder}/", form="native")
    return {Path(name).name: Path(name).read_bytes() for name in done.files}


def test_into_a_sealed_store(tmp_path: Path) -> None:
    """A sealed store has the same conversations, and no word of them in its files."""
    folder = histories(tmp_path / "in")
    with clew.open(tmp_path / "s.db", key=KEY) as store:
        compare(store, folder, tmp_path)
    raw = b"".join(file.read_bytes() for file in tmp_path.glob("s.db*"))
    for word in (b"Answer 1", b"And another thing", b"Title 2", SESSION.encode(), b"conversations.json"):
        assert word not in raw


def test_with_attachments_in_a_bucket(tmp_path: Path, place: NodeLocation) -> None:
    """Pictures of an export are objects of the bucket; an undone import leaves none behind."""
    folder = histories(tmp_path / "in")
    with clew.open(tmp_path / "s.db", blobs=place.open()) as store:
        compare(store, folder, tmp_path)
        assert place.names()
    with clew.open(tmp_path / "u.db", blobs=place.open(prefix="undone")) as store:
        before = set(place.names())
        this = ImportRecorder(store)
        take(store, folder, recorder=this)
        assert set(place.names()) > before
        assert not undo(store, this.id).left
        assert set(place.names()) == before


def test_into_a_sealed_store_with_a_bucket(tmp_path: Path, place: NodeLocation) -> None:
    """The same with a key."""
    with clew.open(tmp_path / "s.db", key=KEY, blobs=place.open()) as store:
        compare(store, histories(tmp_path / "in"), tmp_path)


def test_into_postgresql(url: str, tmp_path: Path) -> None:  # noqa: F811
    """A server has the same conversations, attachments and files."""
    with clew.open(url) as store:
        compare(store, histories(tmp_path / "in"), tmp_path)


SECRET = "hunter2-{}"


@pytest.fixture(params=["file", "sealed", "postgresql"])
def redacting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[clew.Store]:
    """A store that replaces secrets before it writes."""
    rules = Rules((Rule(id="pass", pattern=r"hunter2-\d+"),))
    where = request.getfixturevalue("url") if request.param == "postgresql" else tmp_path / "r.db"
    with clew.open(where, redact=rules, key=KEY if request.param == "sealed" else None) as store:
        yield store


def test_redaction_before_writing(redacting: clew.Store, tmp_path: Path) -> None:
    """Secrets in messages, records, titles, frames and marks are nowhere: not in the store, not in an export of it."""
    folder = tmp_path / "in"
    folder.mkdir()
    talk = conversation(1)
    talk["title"] = SECRET.format(1)
    talk["unknown"] = {"field": SECRET.format(2)}
    talk["mapping"]["a"]["message"]["content"]["parts"] = [SECRET.format(3)]
    (folder / "conversations.json").write_text(json.dumps([talk, conversation(2), {"id": "f", "x": SECRET.format(4)}]))
    lines = [claude_line(1, None, "user", SECRET.format(5)), {"type": "ai-title", "aiTitle": SECRET.format(6)}]
    more = [claude_line(n, n - 1, "user", "x" * 3000) for n in range(2, 400)]
    (folder / f"{SESSION}.jsonl").write_bytes(jsonl([*lines, *more]))
    for _ in range(2):
        list(import_all(redacting, find([str(folder)])))
        with (folder / f"{SESSION}.jsonl").open("ab") as file:
            file.write(jsonl([claude_line(900, 399, "user", SECRET.format(7))]))
    list(import_all(redacting, find([str(folder)])))
    assert redacting.sessions.get(SESSION).head_id == an_id(900)
    exports.write(redacting, tmp_path / "all.jsonl")
    out = native(redacting, tmp_path / "out")
    assert set(out) == {"conversations.json", f"{SESSION}.jsonl"}
    written = [*out.values(), (tmp_path / "all.jsonl").read_bytes(), *(f.read_bytes() for f in tmp_path.glob("r.db*"))]
    assert not any(b"hunter2" in data for data in written)
    assert json.loads(out["conversations.json"])[1] == conversation(2)
    assert redacting.verify().damage == []


WAYS = ("import", "again", "hook", "other process", "mirror")


def follow(way: str, store: clew.Store, path: Path, mirror: MirroredTranscript, new: list[dict[str, Any]]) -> None:
    """Takes over what is new in a log, in one of the ways that clew has."""
    if way == "hook":
        assert TranscriptImport(store).take(str(path)) == []
    elif way == "mirror":  # the SDK sends each entry once, and does not write the file
        with store.transaction():
            mirror.catch_up(store.read(lambda unit: unit.session(SESSION)))
            mirror.append(new)
    elif way == "other process":
        with clew.open(store.path) as other:
            take(other, path)
    else:
        take(store, path, again=way == "again")


@pytest.mark.parametrize("seed", range(12))
def test_a_log_that_is_followed_in_several_ways(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Imports, hooks, a watch in another process and the SDK's mirror of one log store what one import of it does."""
    monkeypatch.setattr("clew.sources.lines.LARGE", 1)
    chance = random.Random(seed)
    lines = random_log(chance, 60)
    path = tmp_path / f"{SESSION}.jsonl"
    with clew.open(tmp_path / "s.db") as store:
        mirror = MirroredTranscript(store, SESSION, "")
        left, sent = list(lines), 0
        while left:
            size = chance.randint(1, 12)
            some, left = left[:size], left[size:]
            with path.open("ab") as file:
                file.write(jsonl(some))
            seen = len(lines) - len(left)
            for way in chance.sample(WAYS, chance.randint(1, 3)):
                follow(way, store, path, mirror, lines[sent:seen])
                sent = seen if way == "mirror" else sent
        take(store, path)
        with clew.open(tmp_path / "plain.db") as plain:
            take(plain, path)
            mine, whole = contents(store)[SESSION], contents(plain)[SESSION]
            assert {node[0] for node in mine[5]} == {node[0] for node in whole[5]}
            assert mine == whole
        assert store.verify().damage == []
