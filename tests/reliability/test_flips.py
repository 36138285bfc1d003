"""P6, the first half: a flipped bit is found and located, or changes nothing that can be read."""

from __future__ import annotations

import random
import signal
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.engine.node import node_row
from clew.errors import ClewError
from tests.reliability import sample

Row = tuple[Any, ...]
Places = dict[int, tuple[set[str | None], int]]


class Original:
    """A sound store: its bytes, what is read from it, and where each node stands."""

    def __init__(self, path: Path, key: bytes | None) -> None:
        sample.make(str(path), words=80, blob=8000, key=key)  # most of the file is messages
        self.bytes = path.read_bytes()
        self.rows = node_rows(path)
        with sample.opened(path) as store:
            assert store.verify().ok
            self.read = sample.readings(store)
            self.places = places(store)


def node_rows(path: Path) -> dict[int, Row | None]:
    """Every node's row by position, each read by itself; None where the file is too broken for it."""
    conn = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    found: dict[int, Row | None] = {}
    try:
        for (pos,) in conn.execute("SELECT pos FROM nodes INDEXED BY nodes_ord").fetchall():
            try:
                found[pos] = conn.execute("SELECT * FROM nodes WHERE pos = ?", (pos,)).fetchone()
            except (sqlite3.Error, OverflowError):
                found[pos] = None
    except sqlite3.Error:
        pass
    finally:
        conn.close()
    return found


def places(store: clew.Store) -> Places:
    """The sessions that show each node, and its position; a node on a branch belongs to the branch's session."""
    found: Places = {node_row(node)[0]: ({None}, node.depth) for node in store.nodes.list(limit=10_000).items}
    sessions = store.sessions.list(limit=100).items + store.sessions.list(limit=100, subagents=True).items
    for session in sessions:
        shown = list(session.history())
        for branch in session.branches():
            shown += store.nodes.path(branch.head_id)
        for node in shown:
            found[node_row(node)[0]][0].add(session.id)
    for sessions_there, _ in found.values():
        if len(sessions_there) > 1:
            sessions_there.discard(None)
    return found


def flip(original: Original, path: Path, bit: int, *, thorough: bool) -> str:
    """What one flipped bit does: refused, found, located, or nothing. Fails if it goes unseen.

    Thorough: what is found damaged is read as well, to see that nothing hangs.
    """
    damaged = bytearray(original.bytes)
    damaged[bit >> 3] ^= 1 << (bit & 7)
    path.write_bytes(damaged)
    try:
        store = sample.opened(path)
    except ClewError:
        return "refused"
    with store:
        report = store.verify()
        read = sample.readings(store) if thorough or report.ok else None
    assert path.read_bytes() == damaged, f"bit {bit}: reading has changed the file"
    told = {(one.session, one.position) for one in report.damage}
    if report.ok:
        assert read == original.read, f"bit {bit} changed what is read, and was not seen"
    rows = node_rows(path)
    changed = [pos for pos, row in original.rows.items() if rows.get(pos, row) != row]
    if len(changed) == 1:
        sessions, position = original.places[changed[0]]
        # A row that is nowhere may be told together with those above it: so many are missing from that one on.
        first = 0 if rows.get(changed[0]) is None else position
        assert any((session, at) in told for session in sessions for at in range(first, position + 1)), (
            f"bit {bit}: {sessions} {position} not in {told}"
        )
        return "located"
    return "nothing" if report.ok else "found"


def flips(folder: Path, kept: str, count: int, seed: int, *, thorough: bool = False) -> Counter[str]:
    original = Original(folder / f"{kept}.db", sample.KEYS[kept])
    chance = random.Random(seed)
    done: Counter[str] = Counter()
    for number in range(count):
        path = folder / f"{kept}{number}.db"
        signal.alarm(60)  # a damaged file must not lead anything in circles
        done[flip(original, path, chance.randrange(len(original.bytes) * 8), thorough=thorough)] += 1
        signal.alarm(0)
        for left in folder.glob(f"{path.name}*"):
            left.unlink()
    print(dict(done))
    return done


@pytest.mark.parametrize("kept", sample.KEYS)
def test_a_flipped_bit_is_found_or_changes_nothing(tmp_path: Path, kept: str) -> None:
    """Of 200 flipped bits each is reported, or everything is read as before; those in a message are located."""
    done = flips(tmp_path, kept, 200, seed=1)
    assert done["located"] > 60


@pytest.mark.soak
@pytest.mark.parametrize("kept", sample.KEYS)
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_flipped_bits(tmp_path: Path, kept: str, seed: int) -> None:
    """2,000 flipped bits of either."""
    assert flips(tmp_path, kept, 500, seed, thorough=True)["located"] > 150
