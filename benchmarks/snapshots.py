"""What saving after each answer costs when the talk is long, and how fast a folder of snapshots is listed."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import clew
from benchmarks.bench import Bench, texts
from benchmarks.measure import Block, Figure, Side, each, interleave, once, ratio
from clew.chat.recording import autosave as saved_as_it_goes
from clew.snapshots import FileStore, Messages, Snapshot
from clew.snapshots.file_format import Form

KEY = bytes(range(32))


class Talk:
    """A client that answers at once."""

    def __init__(self, turns: int = 0) -> None:
        self._id = str(uuid.uuid4())
        self._messages = Messages(said for _ in range(turns) for said in _TURN)

    def chat(self, _: object) -> None:
        self._messages.extend(_TURN)

    def save(self) -> Snapshot:
        return Snapshot(id=self._id, provider="claude", messages=self._messages, created_at=datetime.now(UTC))


_TURN = [b'{"role":"%s","content":"%s"}' % (role, texts(1)[0].encode()) for role in (b"user", b"assistant")]


def autosave(bench: Bench) -> Iterator[Figure]:
    """A turn that is saved to a store, at turn 5,000 of a talk against at turn 5."""
    sizes, late = bench.sizes, bench.sizes.long // 20
    for place, name in ((bench.disk, "on disk"), (bench.memory, "software path")):
        with clew.open(bench.file(place)) as young, clew.open(bench.file(place)) as old:
            talk = _begun(old, late)
            sides: dict[str, Side] = {
                "early": lambda store=young: _turns(_begun(store, 5), sizes.ops),  # type: ignore[misc]
                "late": lambda talk=talk: _turns(talk, sizes.ops),  # type: ignore[misc]
            }
            times = interleave(sides, rounds=sizes.blocks)
        yield ratio(f"autosave at turn {late:,} against 5, {name}", times, side="late", base="early", at_most=1.2)


def _begun(store: clew.Store, turns: int) -> Talk:
    """A talk of so many turns, saved as it goes from now on."""
    talk = saved_as_it_goes(Talk(turns), store.snapshots)
    store.snapshots.save(talk.save())
    return talk


def _turns(talk: Talk, ops: int) -> Block:
    return each(talk.chat, range(ops))


def listing(bench: Bench) -> Iterator[Figure]:
    """Ten thousand snapshots in a folder, listed, against opening the same files and reading 4 KB of each."""
    count = bench.sizes.path
    for label, key in (("plain", None), ("encrypted", KEY)):
        folder = tempfile.mkdtemp(dir=bench.memory)
        try:
            _fill(folder, count, Form(key))
            store = FileStore(folder, key)
            assert len(store.list()) == count
            sides: dict[str, Side] = {"floor": once(_reader(folder)), "clew": once(store.list)}
            times = interleave(sides, rounds=bench.sizes.rounds)
        finally:
            shutil.rmtree(folder)
        yield ratio(f"listing {count:,} snapshots, {label}", times, at_most=2.0)


def _fill(folder: str, count: int, form: Form) -> None:
    """The files that a FileStore writes, without waiting for the disk."""
    for _ in range(count):
        snapshot = Talk(10).save()
        with open(os.path.join(folder, f"{snapshot.id}.json"), "wb") as file:
            file.write(form.pack(snapshot).data)


def _reader(folder: str) -> Callable[[], None]:
    def read() -> None:
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as file:
                file.read(4096)

    return read
