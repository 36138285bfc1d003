"""Snapshots as values: their document, their versions, and messages that are taken apart without being read."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew import chat
from clew.convert import convert, convert_session
from clew.errors import Invalid, NotFound, SchemaTooNew
from clew.snapshots import FileStore, Messages, ObjectStore, Snapshot, ToolSnapshot, new_snapshot
from clew.snapshots.media import LARGE, TOKENS_OF_MEDIA, count_tokens, cut_media, put_back
from clew.snapshots.raw_json import elements, frame, join, members
from clew.snapshots.types import Document
from clew.testing.snapshots import ODD, sample

FIELDS = {
    "id": "7d444840-9dc0-41d1-b245-5ffdce74fad2",
    "provider": "claude",
    "messages": [],
    "created_at": "2026-03-26T10:00:00Z",
    "version": 1,
}


def document(**changes: Any) -> bytes:
    return json.dumps({**FIELDS, **changes}).encode()


def offline() -> chat.Client:
    """A client that needs no key."""
    made = chat.connect(provider="offline", system="Be brief.")
    assert isinstance(made, chat.Client)
    return made


def test_a_newer_version() -> None:
    """A document of a newer version is refused, and says which."""
    with pytest.raises(SchemaTooNew) as caught:
        Snapshot.from_json(document(version=2))
    assert (caught.value.found, caught.value.known) == (2, 1)


@pytest.mark.checklist("A15")
def test_an_older_version() -> None:
    """A document of an older version goes through the migrations, one after the other; without them it is Invalid."""

    def zero(fields: Document) -> Document:
        return {**fields, "system_prompt": fields["system"], "version": b"1"}

    def before(fields: Document) -> Document:
        return {**fields, "system": b'"old"', "version": b"0"}

    old = document(version=-1, messages=[12345678901234567890123])
    snapshot = Snapshot.from_json(old, migrations={0: zero, -1: before})
    assert (snapshot.system_prompt, snapshot.version) == ("old", 1)
    assert snapshot.messages == b"[12345678901234567890123]"
    with pytest.raises(Invalid, match="no version -1"):
        Snapshot.from_json(old)
    with pytest.raises(Invalid, match="leads nowhere"):
        Snapshot.from_json(old, migrations={-1: lambda fields: fields})


@pytest.mark.parametrize(
    "bad",
    [
        b"", b"[]", b"{}", b"\xff", b'{"version":"1"}', b'{"version":1.5}', document(id="x"), document(id=None),
        document(created_at="yesterday"), document(created_at="2026-03-26T10:00:00"), document(tools=[{}]),
        document(metadata={"a": 1}), document(provider=7), document()[:-1],
        json.dumps({key: value for key, value in FIELDS.items() if key != "messages"}).encode(),
        b"[" * 100_000, b'{"a":' * 100_000,
    ],
)  # fmt: skip
def test_no_snapshots(bad: bytes) -> None:
    """Anything but a snapshot's document is Invalid."""
    with pytest.raises(Invalid):
        Snapshot.from_json(bad)


def test_nulls_of_the_original() -> None:
    """Empty fields may be null, and unknown fields are ignored."""
    snapshot = Snapshot.from_json(document(tools=None, metadata=None, messages=None, later={"a": 1}))
    assert (snapshot.tools, snapshot.metadata, snapshot.messages) == ((), {}, b"null")
    assert (snapshot.message_count, list(snapshot.parts)) == (0, [])
    offline().restore(snapshot.replace(provider="offline"))


@pytest.mark.parametrize(
    "changes",
    [
        {"messages": b"not json"}, {"messages": b"[1"}, {"messages": b'"\xff"'}, {"messages": b"1 2"},
        {"metadata": {"a": 7}}, {"metadata": {"a": "\ud800"}}, {"tools": [ToolSnapshot("a", "b", {"n": float("nan")})]},
        {"system_prompt": "a\0b"}, {"model": None}, {"provider": b"x"}, {"tools": ["look"]},
    ],
)  # fmt: skip
def test_what_cannot_be_written(changes: dict[str, Any]) -> None:
    """A value that would not be read back unchanged is refused before anything is written."""
    with pytest.raises(Invalid):
        sample(**changes).to_json()


@pytest.mark.parametrize(
    "wrong",
    [
        {"messages": None}, {"messages": 5}, {"messages": {}}, {"messages": '["\ud800"]'}, {"tools": None},
        {"tools": 5}, {"metadata": "x"}, {"metadata": 5}, {"id": None}, {"created_at": "today"},
    ],
)  # fmt: skip
def test_what_a_snapshot_is_not_made_of(wrong: dict[str, Any]) -> None:
    """It is refused at once."""
    with pytest.raises(Invalid):
        sample().replace(**wrong)


@pytest.mark.parametrize("wrong", [None, 5, "{}", {}, b"{}"])
def test_what_is_no_snapshot(wrong: Any, tmp_path: Path) -> None:
    """Every method that takes a snapshot refuses other values, and changes nothing."""
    client = offline()
    with clew.open(tmp_path / "a.db") as store:
        takes: list[Callable[[Any], object]] = [
            FileStore(tmp_path / "talks").save, ObjectStore("memory:///").save, store.snapshots.save, client.restore,
            lambda given: convert(given, "openai"), lambda given: convert_session(store, given, to="openai"),
        ]  # fmt: skip
        for take in takes:
            with pytest.raises((Invalid, NotFound)):
                take(wrong)
        assert store.snapshots.list() == []
    assert len(client.history) == 1
    with pytest.raises(Invalid):
        Snapshot.from_json(wrong)
    assert not (tmp_path / "talks").exists()


def test_times_have_a_zone() -> None:
    """A time without its zone is refused; one in another zone is turned into UTC."""
    with pytest.raises(Invalid):
        sample().replace(created_at=datetime(2026, 3, 26))
    assert Snapshot.from_json(document(created_at="2026-03-26T10:00:00+02:00")).created_at == datetime(
        2026, 3, 26, 8, tzinfo=UTC
    )
    with pytest.raises(Invalid):
        Snapshot.from_json(document(created_at="0001-01-01T00:00:00+05:00"))


def test_messages_are_checked_as_they_come() -> None:
    """A client's messages are JSON values, each whole, or Invalid."""
    messages = Messages([b"{}"])
    for bad in (b"", b"{", b"1 2", b"\xff", "text", b"[" * 100_000):
        with pytest.raises(Invalid):
            messages.append(bad)  # type: ignore[arg-type]
    messages.append(b'"\\ud800"')
    assert list(messages) == [b"{}", b'"\\ud800"']
    assert repr(messages) == "<Messages: 2>"
    assert messages[-1:] == [b'"\\ud800"']


def test_messages_are_written_out_late() -> None:
    """A snapshot of a client costs nothing until its bytes are asked for."""
    snapshot = new_snapshot(provider="claude", messages=Messages([b"1", b"2"]))
    assert snapshot.lazy and snapshot.replace(model="m").lazy
    assert snapshot.parts[0] == b"1" and snapshot.parts[-1:] == [b"2"]
    assert snapshot.messages == b"[1,2]"
    assert not snapshot.lazy
    assert snapshot.replace(model="m").messages == b"[1,2]"
    with pytest.raises(IndexError):
        snapshot.parts[2]


def test_snapshots_are_compared_by_content() -> None:
    """Two are equal if everything in them is; there is no content in the repr."""
    one = sample()
    assert one == one.replace()
    assert one != one.replace(model="other") and one != one.replace(messages=b"[]") and one != "text"
    assert repr(one) == f"<Snapshot {one.id} claude>"
    with pytest.raises(TypeError):
        hash(one)


def test_elements() -> None:
    """An array is cut into the bytes of its elements, also where a strict reader gives up."""
    assert elements(ODD)[1] == b'{"z":0,"a":1}'
    assert len(elements(ODD)) == 2
    assert elements(b'["\\ud800", [1,"]"] ,{"a":"\\\\"}]') == [b'"\\ud800"', b'[1,"]"]', b'{"a":"\\\\"}']
    assert elements(b'["\\ud83d\\ude00"]') == [b'"\\ud83d\\ude00"']
    for bad in (b'["\\ud800"', b'{"a":"\\ud800"}', b'["\\ud80"]'):
        with pytest.raises(Invalid):
            elements(bad)


def test_members() -> None:
    """So is an object."""
    assert members(b'{"a" : "\\ud800" , "b":[1, 2]}') == {"a": b'"\\ud800"', "b": b"[1, 2]"}
    with pytest.raises(Invalid):
        members(b'["\\ud800"]')


@pytest.mark.parametrize(
    "array",
    [b"[]", b"[ ]", b"[1]", b"[ 1]", b"[1,2]", b"[1, 2]", b"[1, 2, 3]", b"[1 ,2, 3 ]", b"[[],[[]]\n,[ ]]", ODD],
)  # fmt: skip
def test_frames(array: bytes) -> None:
    """An array is put together again byte for byte."""
    parts = elements(array)
    told = frame(array, parts)
    assert join(told, parts) == array
    assert (told is None) == (array == b"[" + b",".join(parts) + b"]")
    assert msgspec.json.decode(msgspec.json.encode(told)) == (None if told is None else list(told))


def test_a_uniform_frame_is_short() -> None:
    """Equal separators between elements are stored once."""
    array = json.dumps([1] * 1_000, indent=2).encode()
    told = frame(array, elements(array))
    assert told is not None and len(told) == 3
    assert join(told, elements(array)) == array


def test_tokens() -> None:
    """About four characters per token; a medium has a fixed number, whatever its size."""
    assert count_tokens(b"") == 0
    assert count_tokens(b"x" * 400) == 100
    small, large = (count_tokens(b'["%s"]' % (b"QUJD" * size)) for size in (10_000, 100_000))
    assert small == large
    assert TOKENS_OF_MEDIA <= small <= TOKENS_OF_MEDIA + 2
    prose = b"several words " * 10_000
    assert count_tokens(prose) == len(prose) // 4


def test_media_are_cut_out_and_put_back() -> None:
    """Only media that decode and encode to the same text are removed; the rest stays."""
    good, bad = b"QUJD" * (LARGE // 4), b"QUJD" * (LARGE // 4) + b"QUJ="[:3]
    messages = b'{"a":"%s","b":"data:image/png;base64,%s","c":"%s","d":"%s"}' % (good, good, bad, good[4:])
    cut = cut_media(messages, lambda content: str(len(content)))
    assert len(cut.spans) == 2
    assert cut.rest == b'{"a":"","b":"data:image/png;base64,","c":"%s","d":"%s"}' % (bad, good[4:])
    assert put_back(cut.rest, cut.spans, cut.media.__getitem__) == messages
    assert cut_media(b"{}", str).spans == ()
