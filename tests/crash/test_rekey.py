"""P9: sealing, unsealing and an exchange of keys survive a crash anywhere."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import ClewError, Sealed, WrongKey
from clew.keys import key_id
from clew.store.parts import Parts
from clew.store.store import Store
from tests.crash import lab
from tests.crash.images import Recording
from tests.reliability.canaries import canary, content, found
from tests.reliability.test_rekey import EXCHANGES, NEW, OLD, Exchange

SECRET = {"said": canary(random.Random(11))}

RUN = """
import sys, clew
from clew.upkeep import rekey
from tests.reliability.test_rekey import EXCHANGES
rekey.BATCH, rekey.BYTES = int(sys.argv[3]), 200_000
exchange = EXCHANGES[sys.argv[2]]
with clew.open(sys.argv[1], key=exchange.before) as store:
    exchange.run(store, None)
"""


def fill(store: Store, runs: int) -> None:
    """So many runs of messages, four in a session; logs, labels, and a blob for every ten."""
    for number in range(0, runs, 4):
        session = store.sessions.create(title=f"{number} {SECRET['said']}", labels=["x"], cwd="/src")
        first = session.append([clew.user(f"{number} {SECRET['said']}"), clew.assistant("yes")])[0]
        for branch in range(3):
            session.rewind(to=first.id)
            session.append([clew.user(f"{branch} {SECRET['said']}"), clew.assistant("no")])
        if number % 10 == 0:
            session.log.append([SECRET["said"].encode(), b"two"])
            shown = session.attach(f"{SECRET['said']} {number}".encode() * 100, mime_type="x/y")
            session.append(clew.user("look", shown))


def readings(store: Store) -> list[Any]:
    """Everything that the store says."""
    nodes = store.nodes.list(limit=100_000).items
    said: list[Any] = [[node.id, node.text] for node in nodes]
    for one in store.sessions.list(limit=10_000).items:
        said.append([one.id, one.title, one.labels, one.head_id, [entry.data for entry in one.log.read()]])
        last = one.path(last=1)[0].message.blocks[-1]
        if isinstance(last, clew.Media) and last.blob:
            said.append(one.blobs.get(last.blob))
    assert store.sessions.latest(cwd="/src")
    return said


def accepted(path: Path, expected: list[Any]) -> list[bytes | None]:
    """The keys that open the store, `None` for no key; whoever it lets in reads everything."""
    found = []
    for key in (None, OLD, NEW):
        try:
            store = clew.open(path, key=key, create=False)
        except (Sealed, WrongKey):
            continue
        except ClewError as error:
            if key is None or "is not sealed" not in error.message:
                raise
            continue
        found.append(key)
        assert readings(store) == expected
        Parts.of(store).engine.close()  # nothing that closing a store would finish
    return found


def done(store: Store, exchange: Exchange) -> bool:
    """True if nothing is left of the exchange but traces that closing the store clears."""
    status = store.key_status()
    after = () if exchange.after is None else (key_id(exchange.after).hex(),)
    return (status.state, status.key_ids) == ("sealed" if after else "plain", after)


def resume(path: Path, exchange: Exchange, key: bytes | None, expected: list[Any]) -> None:
    """The same call again, by one with this key, comes to the end; the old key is no good then, nor is a trace left."""
    with clew.open(path, key=key) as store:
        if not done(store, exchange):
            exchange.run(store, None)
        assert done(store, exchange)
    assert accepted(path, expected) == [exchange.after]
    with clew.open(path, key=exchange.after) as store:
        assert store.verify().damage == []
    if exchange.after is not None:
        assert found(SECRET, content(path)) == []


def crashes(folder: Path, how: str, runs: int, batch: int, *, torn: float, resumed: int) -> int:
    """How many images the crashes of an exchange left, all of them readable; every so many-th was resumed."""
    exchange, chance, count = EXCHANGES[how], random.Random(how), 0
    work = folder / "store"
    work.mkdir()
    with clew.open(work / "s.db", key=exchange.before) as store:
        fill(store, runs)
        expected = readings(store)
    keys: list[list[bytes | None]] = []
    for image in Recording(work, RUN, str(work / "s.db"), how, str(batch)).images(chance, torn=torn):
        good = accepted(image.folder / "s.db", expected)
        assert good, f"no key opens what event {image.event} of {image.events} left"
        keys.append(good)
        if count % resumed == 0:
            resume(image.folder / "s.db", exchange, chance.choice(good), expected)
        count += 1
    amid = [OLD, NEW] if how in ("rotate", "deep") else [exchange.before or exchange.after]
    for those in ([exchange.before], amid, [exchange.after]):
        assert those in keys
    return count


@pytest.mark.parametrize("how", EXCHANGES)
def test_a_crash_anywhere(tmp_path: Path, how: str) -> None:
    """20 runs: after a crash at any event all is readable with the old or the new key, and the call goes on."""
    assert crashes(tmp_path, how, 20, 7, torn=0.1, resumed=15) > 60


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("how", EXCHANGES)
def test_a_crash_anywhere_in_a_larger_store(tmp_path: Path, how: str) -> None:
    """500 runs, and every tenth image is resumed."""
    assert crashes(tmp_path, how, 500, 50, torn=0.3, resumed=10) > 200


SEAL = """
import sys, clew
with clew.open(sys.argv[1]) as store:
    try:
        print(store.seal(bytes(range(32))).state)
    except clew.ClewError as error:
        print(type(error).__name__)
"""


def lost_answers(folder: Path, choose: Callable[[int], Iterable[int]]) -> None:
    """Seals a store while one sync fails; the syncs are chosen from how many there are."""
    made = folder / "made"
    made.mkdir()
    with clew.open(made / "s.db") as store:
        store.sessions.create(title="first").append(clew.user("said"))
    work = Path(shutil.copytree(made, folder / "recorded"))
    syncs = sum(event.kind == "S" for event in Recording(work, SEAL, str(work / "s.db")).events)
    assert syncs > 10
    for nth in choose(syncs):
        work = Path(shutil.copytree(made, folder / str(nth)))
        env = {**os.environ, "LD_PRELOAD": str(lab.shim()), "PC_ROOT": str(work), "PC_LOG": str(folder / "log")}
        env |= {"PC_FAULT": f"sync,EIO,{nth}", "PYTHONPATH": str(Path(clew.__file__).parents[1])}
        done = subprocess.run([sys.executable, "-c", SEAL, work / "s.db"], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        with closing(sqlite3.connect(work / "s.db")) as conn:
            (state,) = conn.execute("SELECT state FROM epoch").fetchone()
        assert (done.stdout == "sealed\n") == (state == "sealed"), (nth, done.stdout, state)
        if state == "sealed":
            with clew.open(work / "s.db", key=bytes(range(32))) as store:
                assert len(list(store.audit.read(kind="seal"))) == 1
                assert store.verify().ok


def test_a_seal_whose_last_answer_is_lost(tmp_path: Path) -> None:
    """If a sync fails in the last steps of a seal that is done all the same, it returns and does not raise."""
    lost_answers(tmp_path, lambda syncs: range(syncs - 9, syncs + 1))


@pytest.mark.soak
def test_a_seal_whose_answer_is_lost_anywhere(tmp_path: Path) -> None:
    """The same for every sync: what raises is not sealed, and what is sealed does not raise."""
    lost_answers(tmp_path, lambda syncs: range(1, syncs + 1))
