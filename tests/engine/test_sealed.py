"""The sealed format: known answers, what must be refused, and what a sealed store shows to whoever has no key."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import clew
from clew import keys
from clew.backends import BlobRow, RefRow, RunRow
from clew.base.buckets import Bucket
from clew.engine.engine import Engine
from clew.engine.sealing.envelope import (
    NO_ID,
    blob_fields,
    blob_owner,
    chunk_context,
    log_context,
    node_place,
    pack_facts,
    ref_context,
    ref_fields,
    ref_owner,
    run_fields,
    run_owner,
)
from clew.engine.sealing.header import Secrets, pack, unpack
from clew.engine.sealing.sealed import SealedBox, SealedSeal
from clew.errors import Corrupted, Invalid, Sealed, WrongKey, install_hint
from clew.store.parts import Parts
from clew.store.session import row_of
from tests.fixtures.make_format_1 import WORDS
from tests.reliability import sample
from tests.reliability.test_tampering import columns

HERE = Path(__file__).parents[1]
FIXTURES = HERE / "fixtures"
KEY, OTHER = b"k" * 32, b"o" * 32


def nothing() -> None:
    """Stands for looking at the store again, where there is no store."""


# -- known answers


def from_hex(value: Any) -> Any:
    """JSON in which every text of hex digits is bytes again."""
    match value:
        case str() if len(value) % 2 == 0 and re.fullmatch("[0-9a-f]*", value):
            return bytes.fromhex(value)
        case dict():
            return {name: from_hex(one) for name, one in value.items()}
        case list():
            return [from_hex(one) for one in value]
    return value


@cache
def good() -> dict[str, Any]:
    """What an implementation that shares no code with clew has made by the words of docs/format.md."""
    return from_hex(json.loads((FIXTURES / "envelopes.json").read_text(encoding="utf-8")))  # type: ignore[no-any-return]


@cache
def bad() -> dict[str, Any]:
    """What it has made, and damaged."""
    return from_hex(json.loads((FIXTURES / "bad-envelopes.json").read_text(encoding="utf-8")))  # type: ignore[no-any-return]


def known_seal(*held: bytes) -> SealedSeal:
    """The seal of the known answers, with these store keys, or both."""
    answers = good()
    return SealedSeal(answers["store"], known_secrets("sealed", *held), nothing)


def known_secrets(state: Any, *held: bytes) -> Secrets:
    """The secrets of the known answers in a state, with these store keys, or both."""
    answers = good()
    return Secrets(answers["lookup"], [answers["mac"]], list(held or answers["keys"]), state, 0, [])


def test_key_ids_are_known() -> None:
    """A key's id is what the format says, whatever the key."""
    for one in good()["key ids"]:
        assert keys.key_id(one["key"]) == one["id"]


@pytest.mark.parametrize("state", ["sealed", "rotating", "sealing", "unsealing"])
def test_secrets_are_known(state: Any) -> None:
    """The secrets of a store open with each of its keys, and what clew packs is of the same length."""
    answers = good()
    (one,) = [one for one in answers["secrets"] if one["name"] == state]
    for key in one["keys"]:
        found = unpack(one["packed"], answers["store"], [key], "chats.db")
        assert found == Secrets(answers["lookup"], one["macs"], one["keys"], state, one["change"], one["held"])
    assert len(pack(found, answers["store"])) == len(one["packed"])
    assert unpack(pack(found, answers["store"]), answers["store"], one["keys"][-1:], "chats.db") == found


@pytest.mark.parametrize("number", range(7))
def test_bodies_are_known(number: int) -> None:
    """A body opens with the data key of its owner; what clew closes opens again, and has the same head and length."""
    one = good()["bodies"][number]
    box = known_seal().box(one["wrapped"], one["owner"])
    assert box.open(one["envelope"], one["context"]) == one["payload"], one["name"]
    again = box.close(one["payload"], one["context"])
    assert len(again) == len(one["envelope"])
    assert again[:9] == b"\x02" + one["wrapped"][9:17]
    assert box.open(again, one["context"]) == one["payload"]


def test_contexts_are_known() -> None:
    """What a body is bound to is made of its row byte for byte as the format says."""
    for one in good()["contexts"]:
        row, context = one["row"], one["context"]
        match one["of"]:
            case "node":
                tree, id, parent, depth, *told = row.values()
                assert node_place(tree, id, parent or NO_ID, depth) + pack_facts(*told) == context
            case "ref":
                assert ref_context(ref_row(row)) == context
            case "log":
                assert log_context(row["pos"], row["created_at"], row["id"]) == context
            case "chunk":
                assert chunk_context(row["pos"]) == context
            case other:
                pytest.fail(other)


def test_owners_are_known() -> None:
    """So is whose a data key is."""
    makers: dict[str, Callable[..., bytes]] = {"run": run_owner, "ref": ref_owner, "blob": blob_owner}
    for one in good()["owners"]:
        assert makers[one["of"]](**one["row"]) == one["owner"]


def test_signatures_are_known() -> None:
    """So is the signature of a row."""
    seal = known_seal()
    for one in good()["signatures"]:
        row = one["row"]
        match one["of"]:
            case "run":
                fields = run_fields(RunRow(**row, wrapped_key=one["wrapped"], mac=b""), one["tip"])
            case "ref":
                fields = ref_fields(ref_row(row))
            case _:
                fields = blob_fields(BlobRow(**row, wrapped_key=None, mac=b""))
        assert seal.sign(fields, b"a data key") == one["mac"], one["of"]


def test_look_ups_are_known(path: Path) -> None:
    """The keyed hash of a look-up is what the format says, for the store's own look-up key."""
    with clew.open(path, key=KEY) as store:
        for one in good()["looks"]:
            Parts.of(store).engine._lookup_key = good()["lookup"]
            assert Parts.of(store).engine.lookup_hash(one["domain"], one["value"]) == one["look"]


def ref_row(fields: dict[str, Any]) -> RefRow:
    """A ref's row with these fields, the others empty."""
    return RefRow(**{**dict.fromkeys(RefRow._fields), **fields})


# -- what must be refused


def cases(of: str) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in bad()["cases"] if case["of"] == of]


def test_the_sound_one_opens() -> None:
    """What the cases below damage is sound: else they would prove nothing."""
    sound = bad()["sound"]
    box = known_seal(bad()["key"]).box(sound["wrapped"], sound["owner"])
    assert box.open(sound["envelope"], sound["context"]) == sound["payload"]


@pytest.mark.parametrize("case", cases("body"))
def test_a_bad_body_does_not_open(case: dict[str, Any]) -> None:
    """An envelope that is not exactly the one that was closed, for exactly its place, opens as nothing."""
    case = bad()["sound"] | case
    box = known_seal(bad()["key"]).box(case["wrapped"], case["owner"])
    assert box.open(case["envelope"], case["context"]) is None


@pytest.mark.parametrize("case", cases("key"))
def test_a_bad_data_key_opens_nothing(case: dict[str, Any]) -> None:
    """A data key that is not exactly the one that was wrapped, for exactly its owner, is none: nothing is closed."""
    case = bad()["sound"] | case
    seal = known_seal(bad()["key"])
    box = seal.box(case["wrapped"], case["owner"])
    assert box.open(case["envelope"], case["context"]) is None
    with pytest.raises(Corrupted):
        box.close(b"something", case["context"])
    with pytest.raises(Corrupted):
        seal.rewrap(case["wrapped"], case["owner"])


@pytest.mark.parametrize("case", cases("secrets"))
def test_bad_secrets_are_refused(case: dict[str, Any]) -> None:
    """Secrets under another key are WrongKey, everything else that is not as it was packed is Corrupted."""
    error = {"WrongKey": WrongKey, "Corrupted": Corrupted}[case["error"]]
    with pytest.raises(error) as caught:
        unpack(case["packed"], bad()["store"], [bad()["key"]], "chats.db")
    assert type(caught.value) is error


@pytest.mark.parametrize("value", ["text", 5, 1.5, None])
def test_values_that_are_not_bytes(value: Any) -> None:
    """Damage may make a column something else than bytes: it opens as nothing, too."""
    sound, seal = bad()["sound"], known_seal(bad()["key"])
    assert seal.box(sound["wrapped"], sound["owner"]).open(value, sound["context"]) is None
    assert seal.box(value, sound["owner"]).open(sound["envelope"], sound["context"]) is None
    with pytest.raises(Corrupted):
        unpack(value, bad()["store"], [bad()["key"]], "chats.db")


# -- the seal itself


@given(payload=st.binary(max_size=2000), context=st.binary(max_size=200), owner=st.binary(max_size=40))
def test_what_is_closed_opens(payload: bytes, context: bytes, owner: bytes) -> None:
    """Any payload comes back, under its own context alone, and does not show in its envelope."""
    seal = known_seal()
    box, wrapped = seal.new_box(owner)
    assert wrapped is not None
    envelope = box.close(payload, context)
    assert box.open(envelope, context) == payload
    assert box.open(envelope, context + b"x") is None
    assert len(envelope) == len(payload) + 37
    assert len(payload) < 8 or payload not in envelope
    again = known_seal().box(wrapped, owner)
    assert again.open(envelope, context) == payload
    other, _ = seal.new_box(owner)
    assert other.open(envelope, context) is None


def test_no_two_envelopes_share_a_nonce() -> None:
    """Whatever is closed or wrapped gets a nonce of its own, and a data key is never given twice."""
    seal = known_seal()
    box, _ = seal.new_box(b"run")
    bodies = [box.close(b"same", b"") for _ in range(2000)]
    wraps = [seal.new_key(b"run") for _ in range(500)]
    again = [seal.rewrap(wraps[0], b"run") for _ in range(500)]
    packed = [pack(seal.secrets, b"s" * 16) for _ in range(200)]
    nonces = [one[9:21] for one in bodies] + [one[17:29] for one in wraps + again]
    assert len({*nonces}) == len(nonces)
    assert len({*bodies}) == len(bodies)
    assert len({*packed}) == len(packed)
    assert len({key for one in wraps for _, key in seal._unwrap(one, b"run")}) == len(wraps)


def test_every_nonce_of_a_store_is_another(path: Path) -> None:
    """In a whole store, after a rotation too, no nonce comes twice, neither of bodies nor of data keys."""
    with clew.open(path, key=KEY) as store:
        sample.fill(store, words=2, blob=300_000)
        before = nonces(path)
        store.rotate(OTHER, deep=True)
    after = nonces(path)
    assert len(before) == len({*before}) > 130
    assert len(after) == len({*after}) > 130
    assert not {*before} & {*after}


def nonces(path: Path) -> list[bytes]:
    """Every nonce in a store's rows."""
    with closing(sqlite3.connect(path)) as conn:
        bodies = (("nodes", "body"), ("refs", "data"), ("log", "body"), ("chunks", "body"))
        found = [row[0][9:21] for table, column in bodies for row in conn.execute(f"SELECT {column} FROM {table}")]
        for table in ("runs", "refs", "blobs"):
            found += [row[0][17:29] for row in conn.execute(f"SELECT wrapped_key FROM {table}")]
    return found


def test_rewrapping_keeps_the_data_keys() -> None:
    """Rewrapped, a data key opens what it opened, under the newest store key; of two the newest is kept by itself."""
    old, new = good()["keys"][1], good()["keys"][0]
    before = known_seal(old)
    box, wrapped = before.new_box(b"run")
    assert wrapped is not None
    envelope = box.close(b"payload", b"")
    both = known_seal(new, old)
    assert not both.current(wrapped)
    again = both.rewrap(wrapped, b"run")
    assert both.current(again)
    assert known_seal(new).box(again, b"run").open(envelope, b"") == b"payload"
    two = both.new_key(b"run") + again
    assert not both.current(two)
    assert both.box(two, b"run").open(envelope, b"") == b"payload"
    newer = both.box(two, b"run").close(b"payload", b"")
    alone = both.box(both.newest(two), b"run")
    assert alone.open(newer, b"") == b"payload"
    assert alone.open(envelope, b"") is None
    assert len(both.rewrap(two, b"run")) == len(two)


def test_a_plain_body_opens_only_while_both_may_be_met() -> None:
    """In a sealed store a plain body, or a row without a data key, is damage; while it is being sealed it is not."""
    answers = good()
    mixed, sealed = SealedSeal(answers["store"], known_secrets("sealing"), nothing), known_seal()
    plain = mixed._plain.box(None, b"run").close(b"payload", b"context")
    for seal, expected in ((mixed, b"payload"), (sealed, None)):
        assert seal.box(None, b"run").open(plain, b"context") == expected
        wrapped = seal.new_key(b"run")
        assert seal.box(wrapped, b"run").open(plain, b"context") == expected
        assert seal.box(wrapped, b"run").open(plain[:-1] + b"?", b"context") is None
    assert mixed.sign(b"fields", None) == mixed._plain.sign(b"fields", None) != b""
    assert sealed.sign(b"fields", None) == b""
    with pytest.raises(Corrupted):
        sealed.box(None, b"run").close(b"payload", b"context")


def test_while_it_is_unsealed_what_is_closed_is_plain() -> None:
    """A box of a store that is being unsealed opens what is sealed, and closes plainly; new things get no key."""
    answers = good()
    sealed, unsealing = known_seal(), SealedSeal(answers["store"], known_secrets("unsealing"), nothing)
    unsealing.write_clear()
    wrapped = sealed.new_key(b"run")
    envelope = sealed.box(wrapped, b"run").close(b"payload", b"context")
    box = unsealing.box(wrapped, b"run")
    assert box.open(envelope, b"context") == b"payload"
    plain = box.close(b"payload", b"context")
    assert plain[:1] == b"\x01"
    assert box.open(plain, b"context") == b"payload"
    fresh, key = unsealing.new_box(b"run")
    assert key is None
    assert fresh.close(b"payload", b"context") == plain
    with pytest.raises(Corrupted):  # one that is damaged closes nothing
        unsealing.box(b"damaged", b"run").close(b"payload", b"context")


def test_data_keys_at_hand_are_bounded() -> None:
    """However many runs are read, only some of their data keys stay in memory."""
    seal = known_seal()
    wraps = [seal.new_key(b"run") for _ in range(600)]
    boxes = [seal.box(one, b"run") for one in wraps]
    assert len(seal._boxes) <= 256
    assert seal.box(wraps[-1], b"run") is boxes[-1]
    assert all(isinstance(box, SealedBox) for box in boxes)


# -- opening


def test_a_new_store_takes_the_key(path: Path) -> None:
    """A store that is made with a key opens with it and with no other, and says which key it wants."""
    with clew.open(path, key=KEY) as store:
        assert Parts.of(store).engine.keyed
        store.sessions.create(title="secret").append(clew.user("hello"))
    with clew.open(path, key=KEY) as store:
        assert [node.text for node in store.sessions.latest().path()] == ["hello"]
    with pytest.raises(WrongKey) as caught:
        clew.open(path, key=OTHER)
    assert caught.value.expected == (keys.key_id(KEY),)
    assert caught.value.given == keys.key_id(OTHER)
    assert keys.key_id(KEY).hex() in caught.value.message
    assert KEY.hex() not in str(caught.value)
    with pytest.raises(Sealed) as missing:
        clew.open(path)
    assert type(missing.value) is Sealed
    assert "key" in missing.value.hint
    with pytest.raises(WrongKey):
        clew.open(path, key=keys.from_passphrase("words"))


def test_an_empty_store_takes_the_key_later(path: Path) -> None:
    """A plain store in which nothing is yet takes the key; of two that open it at once both get the same store."""
    clew.open(path).close()
    with clew.open(path, key=KEY) as one, clew.open(path, key=KEY) as other:
        one.sessions.create(title="a")
        assert other.sessions.latest().title == "a"
    with pytest.raises(WrongKey):
        clew.open(path, key=OTHER)


def test_two_take_an_empty_store_with_different_keys(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes second is told that the store has another key; the first one's stays."""
    clew.open(path).close()
    write = Engine.__init__.__globals__["Engine"].renew
    first = True

    def renew(self: Engine, tx: Any) -> str:
        nonlocal first
        state: str = write(self, tx)
        if first:
            first = False
            clew.open(path, key=OTHER).close()  # between the look and the taking
        return state

    monkeypatch.setattr(Engine, "renew", renew)
    with pytest.raises(WrongKey):
        clew.open(path, key=KEY)
    with clew.open(path, key=OTHER) as store:
        assert Parts.of(store).engine.keyed


def test_a_plain_store_with_content_refuses_a_key(path: Path) -> None:
    """A key for a store that has something and is not sealed is Invalid: it stays plain, and not a byte changes."""
    with clew.open(path) as store:
        store.sessions.create(title="hello")
    before = path.read_bytes()
    with pytest.raises(Invalid, match="not sealed") as caught:
        clew.open(path, key=KEY)
    assert "clew key seal" in caught.value.hint
    assert path.read_bytes() == before
    with clew.open(path) as store:
        assert store.sessions.latest().title == "hello"


@pytest.mark.parametrize("key", ["words", b"", b"short", b"x" * 31, b"x" * 33, bytearray(32), 5, ["k"], "k" * 32])
@pytest.mark.parametrize("kind", ["new", "plain", "sealed"])
def test_what_is_no_key(path: Path, key: Any, kind: str) -> None:
    """A key of another type or length is Invalid whatever the store, and no file is made or changed for it."""
    if kind != "new":
        with clew.open(path, key=KEY if kind == "sealed" else None) as store:
            store.sessions.create(title="hello")
    before = {file: file.read_bytes() for file in path.parent.iterdir()}
    with pytest.raises(Invalid):
        clew.open(path, key=key)
    assert {file: file.read_bytes() for file in path.parent.iterdir()} == before


def test_a_store_without_its_secrets(path: Path) -> None:
    """A sealed store whose secrets, or how its key is derived, are damaged says so, and never makes new ones."""
    with clew.open(path, key=keys.from_passphrase(WORDS)) as store:
        store.sessions.create(title="hello")
    for name, value in (("secrets", b"\x90"), ("kdf", b"{}"), ("secrets", None)):
        with closing(sqlite3.connect(path)) as conn:
            if value is None:
                conn.execute("DELETE FROM header WHERE name = ?", (name,))
            else:
                conn.execute("UPDATE header SET value = ? WHERE name LIKE ?", (value, f"{name}%"))
            conn.commit()
            conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = path.read_bytes()
        for key in (keys.from_passphrase(WORDS), KEY):
            with pytest.raises((Corrupted, WrongKey)):
                clew.open(path, key=key)
        assert path.read_bytes() == before
    with pytest.raises(Corrupted, match="incomplete"):
        clew.open(path, key=KEY)


def test_a_passphrase_opens_a_store(path: Path) -> None:
    """The same words open it again, other words do not, and so does the key that they gave, from the paper."""
    with clew.open(path, key=keys.from_passphrase(WORDS)) as store:
        store.sessions.create(title="hello")
        assert store.key_status().passphrase
        (derived,) = Parts.of(store).engine.seal.secrets.keys  # type: ignore[attr-defined]
    with clew.open(path, key=keys.from_passphrase(WORDS)) as store:
        assert store.sessions.latest().title == "hello"
    with clew.open(path, key=keys.from_recovery(keys.recovery(derived))) as store:
        assert store.sessions.latest().title == "hello"
    with pytest.raises(WrongKey):
        clew.open(path, key=keys.from_passphrase(f"{WORDS} "))


# -- stores of each format, frozen


@pytest.fixture(params=[1])
def frozen(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the frozen sealed store of a format, with its objects."""
    name = f"format-{request.param}-sealed"
    shutil.copytree(FIXTURES / f"{name}-objects", tmp_path / "objects")
    shutil.copy(FIXTURES / f"{name}.json", tmp_path / "frozen.json")
    return Path(shutil.copy(FIXTURES / f"{name}.db", tmp_path / "frozen.db"))


def thawed(frozen: Path, key: Any) -> clew.Store:
    return clew.open(frozen, key=key, blobs=frozen.with_name("objects").as_uri())


def frozen_readings(frozen: Path) -> dict[str, Any]:
    return json.loads(frozen.with_suffix(".json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


@pytest.mark.parametrize("by", ["key", "words"])
def test_a_frozen_store_reads_equal(frozen: Path, by: str) -> None:
    """Everything in it is sound and reads as when it was written, opened with the words or with the key itself."""
    expected = dict(frozen_readings(frozen))
    key = bytes.fromhex(expected.pop("key"))
    with thawed(frozen, key if by == "key" else keys.from_passphrase(WORDS)) as store:
        assert store.verify().damage == [], "has the format changed? See tests/fixtures/make_format_1.py"
        assert json.loads(json.dumps(sample.readings(store))) == expected


def test_a_frozen_store_goes_on(frozen: Path) -> None:
    """It can be written, searched, purged from, and given another key."""
    key = bytes.fromhex(frozen_readings(frozen)["key"])
    with thawed(frozen, key) as store:
        session = store.sessions.latest("/src/app")
        node = session.append(clew.user("and another thing"))
        assert [hit.node.id for hit in store.search("another thing")] == [node.id]
        assert store.sessions.purge(store.sessions.list(limit=50).items[-1].id).finished_at is not None
        store.rotate(KEY, deep=True)
        assert store.verify().ok
    with thawed(frozen, KEY) as store:
        assert [node.text for node in store.sessions.latest("/src/app").path(last=1)] == ["and another thing"]


# -- every field of every row


class Original:
    """A small sealed store with something of everything: its bytes, its rows, and all that is read from it."""

    def __init__(self, path: Path) -> None:
        with clew.open(path, key=KEY, clock=sample.clock(), ids=sample.id_source()) as store:
            self._fill(store)
            assert store.verify().ok
            self.read = sample.readings(store)
        assert not sample.errors(self.read)
        self.bytes = path.read_bytes()
        with closing(sqlite3.connect(path)) as conn:
            self.rows = {
                table: [dict(zip([one[0] for one in found.description], row, strict=True)) for row in found.fetchall()]
                for table, found in ((table, conn.execute(f"SELECT * FROM {table}")) for table in TABLES)
            }

    def _fill(self, store: clew.Store) -> None:
        main = store.sessions.create(title="Build fails", cwd="/src/app", labels=["bug"], extra={"n": 1})
        usage = clew.Usage(input=3, output=4, cost=5)
        main.append([clew.user("a"), clew.assistant("b", usage=usage), clew.user("c")])
        main.append(clew.user("look", main.attach(b"picture" * 50, mime_type="image/png")))
        main.log.append([b"started", b"stopped"])
        fork = main.fork(at=main.path()[1].id, title="Other idea")
        fork.append([clew.user("d"), clew.assistant("e")])
        main.rewind(to=main.path()[2].id)
        main.append(clew.user("f"))
        main.compact(clew.system("In short."))
        main.append(clew.user("g"))
        store.sessions.create(agent="searcher", owner=main, title="trace").append(clew.user("h"))
        other = store.sessions.create(title="Another", cwd="/src/lib", labels=["bulk"])
        other.append([clew.user("i"), clew.assistant("j")])
        other.hold("Audit")
        saved = store.nodes.save([clew.user("k"), clew.user("l")])
        store.nodes.save([clew.user("m")], parent=saved[0].id)


TABLES = ("nodes", "refs", "runs", "blobs", "log", "chunks")
FIELDS = [name for name in columns() if name.partition(".")[0] in TABLES]
KEYS = {"nodes": "pos", "refs": "ref", "runs": "run", "blobs": "blob", "log": "pos", "chunks": "pos"}
NOT_NOTICED = {
    "nodes.ord": "a later one cannot be told from the right one at a leaf",
    "refs.ref": "of one that has no log, labels or branches any number is as good",
}
CONTENT = ("data", "forked", "row", "path", "last", "log", "blobs")
"""Readings of a session that must be right or Corrupted; others only say what there is."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    return Original(tmp_path_factory.mktemp("original") / "chats.db")


def other_values(value: Any, same_column: list[Any]) -> st.SearchStrategy[Any]:
    """Values that damage, or someone with a database tool, may put in the place of one."""
    numbers = st.sampled_from([0, 1, -1, 2**31, 2**62, -(2**63), 2**63 - 1])
    anything = [st.sampled_from(same_column), numbers, st.sampled_from([None, "", "text", b"", b"\x02", 1.5])]
    match value:
        case int():
            near = st.integers(0, 62).map(lambda bit: value ^ 1 << bit)
            return st.one_of(near, st.sampled_from([value + 1, value - 1]), *anything)
        case bytes() if value:
            flip = st.integers(0, len(value) * 8 - 1).map(
                lambda bit: (int.from_bytes(value, "big") ^ 1 << bit).to_bytes(len(value), "big")
            )
            cut = st.integers(0, len(value) - 1).map(lambda size: value[:size])
            return st.one_of(flip, cut, st.binary(min_size=1, max_size=4).map(lambda more: value + more), *anything)
        case str():
            return st.one_of(st.just(f"{value}x"), st.just("branch"), *anything)
    return st.one_of(*anything)


def believed(field: str, name: str, shown: Any, known: Any) -> bool:
    """True if a reading is right, or Corrupted."""
    if shown in (known, "error: Corrupted"):
        return True
    if name.endswith(" log"):
        return (
            field in ("log.pos", "refs.ref") and known[: len(shown)] == shown
        )  # the end of a log can be cut off: see the limits
    if name.startswith("node ") and field == "runs.carried":  # by itself it does not know what is before its path
        shown[5][0] = known[5][0]
    return bool(shown == known)


def change(field: str, data: st.DataObject, original: Original, tmp_path: Path) -> None:
    """Puts something else into a field of a row, and reads everything."""
    table, _, column = field.partition(".")
    rows = original.rows[table]
    row = data.draw(st.sampled_from(rows))
    value = data.draw(other_values(row[column], [one[column] for one in rows]))
    assume(value != row[column] or type(value) is not type(row[column]))
    assume((column, row[column], value) != ("look", None, b""))  # there is nothing to look up either way
    copy = tmp_path / f"{os.urandom(6).hex()}.db"
    copy.write_bytes(original.bytes)
    with closing(sqlite3.connect(copy, isolation_level=None)) as conn:
        try:
            conn.execute(f"UPDATE {table} SET {column} = ? WHERE {KEYS[table]} = ?", (value, row[KEYS[table]]))
        except sqlite3.IntegrityError:
            assume(False)  # not even SQLite takes it
        (kept,) = conn.execute(f"SELECT count(*) FROM {table} WHERE {column} IS ?", (row[column],)).fetchone()
        was = sum(one[column] == row[column] and type(one[column]) is type(row[column]) for one in rows)
        assume(kept < was)  # SQLite may have made the old value of it again
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with clew.open(copy, key=KEY) as store:
        read = sample.readings(store)
        report = store.verify()
    assert sample.errors(read) <= {"Corrupted", "NotFound", "Ambiguous"}, (
        value,
        {n: v for n, v in read.items() if "error" in str(v)},
    )
    for name, shown in read.items():
        known = original.read.get(name)
        if (known is not None and name.split()[-1] in CONTENT) or (name.startswith("node ") and name in original.read):
            assert believed(field, name, shown, known), (name, value, shown, known)
    assert not report.ok or field in NOT_NOTICED, (
        f"{field} of {row[KEYS[table]]} was {row[column]!r}, is {value!r}, and nobody noticed"
    )
    copy.unlink()


FUZZ = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much]


@pytest.mark.parametrize("field", FIELDS)
@settings(max_examples=6, suppress_health_check=FUZZ)
@given(data=st.data())
def test_a_changed_field_is_never_believed(field: str, data: st.DataObject, original: Original, tmp_path: Path) -> None:
    """Whatever is put into whichever field, content is read as it was written or is Corrupted, and verify names it."""
    change(field, data, original, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("field", FIELDS)
@settings(max_examples=150, suppress_health_check=FUZZ)
@given(data=st.data())
def test_many_changed_fields(field: str, data: st.DataObject, original: Original, tmp_path: Path) -> None:
    """The same, for longer."""
    change(field, data, original, tmp_path)


# -- what stays clear

PAGE = HERE.parent / "docs" / "threat-model.md"
MARKS = {
    "title": "Zebrafish", "cwd": "/quokka/wombat", "model": "axolotl-9", "label": "capybara", "extra": "narwhal",
    "agent": "platypus", "hold": "okapi hearing", "text": "pangolin", "tool": "tapir_tool", "argument": "echidna",
    "name": "numbat.png", "blob": "kakapo" * 50, "log": "aardwolf", "native": "cassowary", "thinking": "manatee",
    "message label": "dugong", "branch": "ocelot", "summary": "bandicoot", "small blob": "tuatara",
}  # fmt: skip
"""Words that are nowhere else, one for each place where content may be."""


def documented(heading: str) -> dict[str, str]:
    """How a column, or a value of the header, is kept: the table of the page that follows a heading."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n{heading}\n")[2]
    rows = re.findall(r"^\| `([\w.]+)` \| ([\w ]+) \|", text.partition("\n## ")[0].partition("\n### ")[0], re.MULTILINE)
    assert len({name for name, _ in rows}) == len(rows)
    return dict(rows)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sealed store in which every place for content holds a word of its own."""
    path = tmp_path_factory.mktemp("told") / "chats.db"
    bucket = Bucket((path.parent / "objects").as_uri(), over=200)
    with clew.open(path, key=keys.from_passphrase(WORDS), workspace="ws", blobs=bucket) as store:
        main = store.sessions.create(
            title=MARKS["title"], cwd=MARKS["cwd"], model=MARKS["model"], labels=[MARKS["label"]],
            extra={MARKS["extra"]: [MARKS["extra"]]},
        )  # fmt: skip
        call = clew.ToolCall(id="c", name=MARKS["tool"], arguments={"a": MARKS["argument"]})
        main.append([clew.user(MARKS["text"]), clew.assistant(clew.Thinking(text=MARKS["thinking"]), call)])
        main.append(clew.user("see", main.attach(MARKS["blob"].encode(), mime_type="image/png", name=MARKS["name"])))
        main.append(clew.user("too", main.attach(MARKS["small blob"].encode(), mime_type="image/png")))
        main.append(clew.native("anthropic", b'{"role":"user","content":"%s"}' % MARKS["native"].encode()))
        main.append(clew.Message("user", (clew.Text(text="hi"),), label=MARKS["message label"]))
        main.log.append(MARKS["log"].encode())
        main.append(clew.user(MARKS["branch"]))
        main.rewind(to=main.path()[1].id)
        main.compact(clew.system(MARKS["summary"]))
        store.sessions.create(agent=MARKS["agent"], owner=main).append(clew.user("trace"))
        main.fork().append(clew.user("fork"))
        main.append(clew.user("beside the fork"))
        main.hold(MARKS["hold"])
        gone = store.sessions.create(title="gone")
        gone.append(clew.user("gone"))
        store.sessions.purge(gone.id)
        store.sessions.create(title="trashed", cwd=MARKS["cwd"]).trash()
        store.nodes.save(clew.user("saved"))
        assert store.search(MARKS["text"])
        for word in (MARKS["native"], MARKS["tool"]):
            assert store.search(word)
        shutil.copy(f"{path}-wal", f"{path}-kept")
    return path


def dump(path: Path) -> Iterator[tuple[str, Any]]:
    """Every value of every column of every table."""
    with closing(sqlite3.connect(path)) as conn:
        for name in columns():
            table, _, column = name.partition(".")
            for (value,) in conn.execute(f"SELECT {column} FROM {table}"):
                yield name, value


def test_every_column_is_in_the_list() -> None:
    """The page says of each column of the schema, and of no other, how it is kept."""
    assert set(documented("## What stays clear")) == set(columns())
    assert {*documented("## What stays clear").values()} == {"clear", "sealed", "keyed hash"}


def test_every_value_of_the_header_is_in_the_list(path: Path) -> None:
    """So it does of the values in the header, in every state of a store."""
    listed = documented("### The header")
    seen: set[str] = set()
    with clew.open(path, key=keys.from_passphrase(WORDS)) as store:
        store.sessions.create(title="a").append(clew.user("b"))

        def look(*_: int) -> None:
            seen.update(Parts.of(store).engine.read(lambda tx: tx.maintenance.headers("")))

        store.rotate(KEY, progress=look)
        look()
        store.rotate(keys.from_passphrase("other words"), deep=True, progress=look)
        store.unseal(progress=look)
    assert {name.split()[0] for name in seen} - {"lookup_key"} == {*listed} == {
        "store_id", "created_at", "secrets", "kdf", "rekey", "unclean",
    }  # fmt: skip


def test_columns_hold_what_the_list_says(told: Path) -> None:
    """A sealed column holds envelopes or wrapped keys, a keyed hash is one, and what is clear is a number or a name."""
    kept = documented("## What stays clear")
    names = {
        "ws", "session", "subagent", "branch", "purged", "receipts", "audit", "sealed", "store_id",
        "created_at", "secrets", "",
    }  # fmt: skip
    seen: dict[str, int] = dict.fromkeys(kept, 0)
    for column, value in dump(told):
        seen[column] += value is not None
        if value is None or column == "header.value":
            continue
        match kept[column]:
            case "sealed" if column.endswith("wrapped_key"):
                assert value[:1] == b"\x01", column
                assert len(value) == 77, column
            case "sealed":
                assert value[:1] == b"\x02", column
                assert len(value) >= 37, column
            case "keyed hash":
                assert isinstance(value, bytes), column
                assert len(value) == 16, column
            case _ if isinstance(value, str):
                assert value in names or value.startswith("kdf "), column
            case _ if isinstance(value, bytes):
                assert len(value) == {"epoch.key_id": 8, "nodes.facts": 43, "objects.name": 32}.get(column, 16), column
            case _:
                assert isinstance(value, int), column
    empty = {column for column, count in seen.items() if not count}
    unused = {column for column in seen if column.startswith("quarantine.")}  # nothing in this store is damaged
    assert empty == {"refs.expires_at"} | unused, "the store shows nothing of these columns"


def test_no_word_shows(told: Path) -> None:
    """None of the words, however it may be written, is in a column, in the file, or in the write-ahead log."""
    values = b"\n".join(
        value if isinstance(value, bytes) else str(value).encode() for _, value in dump(told) if value is not None
    )
    objects = [one for one in (told.parent / "objects").rglob("*") if one.is_file()]
    assert len(objects) == 2
    files = [told.read_bytes(), Path(f"{told}-kept").read_bytes(), *(one.read_bytes() for one in objects)]
    files += [str(one.relative_to(told.parent)).encode() for one in objects]
    assert all(map(len, files))
    for place, word in MARKS.items():
        for seen in (values, *files):
            low = seen.lower()
            for form in (
                word.encode(),
                word.encode("utf-16-le"),
                word.encode("utf-16-be"),
                word.encode().hex().encode(),
            ):
                assert form.lower() not in low, place
    assert {one.name for one in told.parent.iterdir()} == {
        "chats.db",
        "chats.db-lock",
        "chats.db-reserve",
        "chats.db-kept",
        "objects",
    }


def test_look_ups_are_no_plain_hashes(told: Path) -> None:
    """A look-up hash is found with the store's own look-up key, and not without it."""
    with clew.open(told, key=keys.from_passphrase(WORDS), workspace="ws") as store:
        expected = Parts.of(store).engine.lookup_hash("cwd", MARKS["cwd"].encode())
        session = store.sessions.latest(MARKS["cwd"])
        assert row_of(session).look == expected
    guesses = [blake2b(MARKS["cwd"].encode(), key=key, digest_size=16, person=b"cwd").digest() for key in (b"", KEY)]
    shown = {value for column, value in dump(told) if column in ("refs.look", "labels.look", "blobs.look")}
    assert expected in shown
    assert not shown & {*guesses}
    with clew.open(told.with_name("other.db"), key=KEY) as other:
        assert Parts.of(other).engine.lookup_hash("cwd", MARKS["cwd"].encode()) != expected


WITHOUT_CRYPTOGRAPHY = """
import sys
sys.modules["cryptography"] = None
import clew
try:
    clew.open(sys.argv[1], key=b"k" * 32)
except clew.errors.Unavailable as error:
    print(error)
"""


def test_a_machine_without_cryptography_says_what_to_install(tmp_path: Path) -> None:
    """A sealed store cannot be opened there; the error names the package, and the file stays as it is."""
    path = tmp_path / "chats.db"
    with clew.open(path, key=KEY) as store:
        store.sessions.create().append(clew.user("a word"))
    before = path.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_CRYPTOGRAPHY, str(path)], capture_output=True, text=True, timeout=60
    )
    assert "pip install cryptography" in done.stdout, done.stderr
    assert path.read_bytes() == before


def test_without_cryptography_no_file_is_begun(tmp_path: Path) -> None:
    """A store that was to be sealed is not left behind as a plain one."""
    path = tmp_path / "chats.db"
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_CRYPTOGRAPHY, str(path)], capture_output=True, text=True, timeout=60
    )
    assert "pip install cryptography" in done.stdout, done.stderr
    assert list(tmp_path.iterdir()) == []


PLAIN_WITHOUT_CRYPTOGRAPHY = """
import sys
sys.modules["cryptography"] = None
import clew
with clew.open(sys.argv[1]) as store:
    store.sessions.create().append(clew.user("a word"))
    print(store.key_status().state, store.verify().ok)
    try:
        store.seal(b"k" * 32)
    except clew.errors.Unavailable as error:
        print(error.hint, store.key_status().state)
"""


def test_a_plain_store_does_without_cryptography(tmp_path: Path) -> None:
    """How it is kept can be asked, and sealing it says what to install and changes nothing."""
    done = subprocess.run(
        [sys.executable, "-c", PLAIN_WITHOUT_CRYPTOGRAPHY, str(tmp_path / "chats.db")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == ["plain True", f"{install_hint('cryptography')} plain"], done.stderr
