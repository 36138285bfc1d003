"""Units of work by several processes, and a check that they could have run one after the other.

Each item is a list, to which units add their own number: a path, the values of a document, an index, the documents of a
session. So each read is a beginning of the final list. It says which units it saw, and which came after it. If these
relations, and the times at which units began and ended, contain no cycle, there is an order in which the units have the
same results one after the other.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Any

import clew
from clew.backends import Call
from clew.base import ids
from clew.store.parts import Parts
from clew.store.unit import Unit

SESSIONS = [ids.text(bytes([number]) * 16) for number in (1, 2, 3)]
OWNERS = [0, 1, None, None]
"""The session that owns a note, by the remainder of its number."""
INDEX = b"i" * 16
BORN = bytes([99]) * 16
"""A session that is created and deleted again and again."""
LOCKED = ("born", "trash", "rename")
ITEMS = [*[f"path {n}" for n in range(3)], "index", *[f"owned {n}" for n in range(3)]]
PAUSE = 0.004
"""Seconds at most between two steps of a unit, so that others come between."""


def chosen(chance: random.Random) -> str:
    """An item. Twenty times a second there are other notes, which do not exist yet."""
    if chance.random() < 0.5:
        return f"note {int(time.monotonic() * 20) * 4 + chance.randrange(4)}"
    return chance.choice(ITEMS)


def note_key(number: str) -> bytes:
    return int(number).to_bytes(16, "big")


def read(unit: Unit, item: str) -> list[str]:
    """The list of an item."""
    kind, _, number = item.partition(" ")
    if kind == "index":
        found = unit.documents("indexed", index=INDEX, limit=100_000)
        return [json.loads(one.data) for one in reversed(found)]
    if kind == "note":
        note = unit.document("note", note_key(number))
        return [] if note is None else json.loads(note.data)
    session = unit.session(SESSIONS[int(number)])
    assert session is not None
    if kind == "owned":
        return [json.loads(one.data) for one in unit.documents("owned", owner=session)]
    return [node.text for node in unit.path(session)]


def add(unit: Unit, item: str, name: str) -> None:
    """Adds the name of a unit to an item. Most reads come before, but not all."""
    kind, _, number = item.partition(" ")
    if kind == "index":
        unit.put("indexed", ids.new_id(), json.dumps(name).encode(), index=INDEX, new=True)
    elif kind == "note":
        owner = OWNERS[int(number) % 4]
        above = None if owner is None else unit.session(SESSIONS[owner])
        note = unit.document("note", note_key(number))
        values = [] if note is None else json.loads(note.data)
        unit.put("note", note_key(number), json.dumps([*values, name]).encode(), owner=above)
    else:
        session = unit.session(SESSIONS[int(number)])
        assert session is not None
        if kind == "owned":
            unit.put("owned", ids.new_id(), json.dumps(name).encode(), owner=session, new=True)
        else:
            unit.append(session, [clew.user(name)])


def change_life(unit: Unit, name: str) -> None:
    """Creates the session that is not there, or deletes the one that is; a note has all that was done."""
    born = unit.session(BORN)
    if born is None:
        first = unit.session(SESSIONS[0])
        assert first is not None
        unit.create(first.data, BORN)
    else:
        unit.delete(born)
    note = unit.document("life", BORN)
    done = [] if note is None else json.loads(note.data)
    unit.put("life", BORN, json.dumps([*done, "created" if born is None else "deleted"]).encode())


def play(url: str, seed: int, seconds: float) -> list[dict[str, Any]]:
    """Runs random units; returns what each has read and written, and when."""
    chance, done = random.Random(seed), list[dict[str, Any]]()
    with clew.open(url) as store:
        sessions = [store.sessions.get(one) for one in SESSIONS]
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            name = f"{seed}.{len(done)}"
            steps = {chosen(chance): chance.random() < 0.5 for _ in range(chance.randint(1, 4))}
            reads: dict[str, list[str]] = {}
            writes: list[str] = []
            how = chance.random()
            begun = time.monotonic()
            if how < 0.25:
                number = chance.randrange(3)
                sessions[number].append(clew.user(name))
                writes.append(f"path {number}")
            elif how < 0.3:
                other = chance.choice(LOCKED)
                if other == "born":
                    store.write(lambda unit: change_life(unit, name))
                elif other == "trash":
                    made = store.sessions.create()
                    made.trash()
                    store.sessions.purge(made.id)
                else:
                    sessions[chance.randrange(3)].refresh().rename(name)
            else:

                def work(unit: Unit) -> None:
                    reads.clear()
                    writes.clear()
                    for item, adds in steps.items():
                        if adds:
                            add(unit, item, name)
                            writes.append(item)
                        else:
                            reads[item] = read(unit, item)
                        time.sleep(chance.random() * PAUSE)

                if how < 0.8:
                    store.write(work)
                else:
                    call = Call(lambda: store.write(work))
                    aside = Call(lambda: sessions[0].refresh())
                    Parts.of(store).engine.backend.batch([call, aside])
                    if call.error is not None:
                        raise call.error
            done.append({"name": name, "reads": reads, "writes": writes, "begun": begun, "ended": time.monotonic()})
    return done


def together(url: str, processes: int, seconds: float) -> list[dict[str, Any]]:
    """`play` in several processes."""
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", "tests.backends.postgres.units", url]
    crew = [
        subprocess.Popen([*command, str(seed), str(seconds)], stdout=subprocess.PIPE, cwd=root)
        for seed in range(processes)
    ]
    found = [one.communicate()[0] for one in crew]
    assert [one.returncode for one in crew] == [0] * processes
    return [unit for out in found for unit in json.loads(out)]


def prepare(store: clew.Store) -> None:
    """Creates the sessions."""
    for one in SESSIONS:
        store.sessions.create(id=one)


def final(store: clew.Store, done: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    """The list of each item that was used."""
    items = {*ITEMS, *[item for unit in done for item in (*unit["reads"], *unit["writes"])]}
    return store.read(lambda unit: {item: read(unit, item) for item in items})


def check(units: Iterable[dict[str, Any]], lists: dict[str, list[str]]) -> None:
    """Fails unless there is an order of the units in which each reads what it has read."""
    units = list(units)
    written = {(item, unit["name"]) for unit in units for item in unit["writes"]}
    assert written == {(item, name) for item, names in lists.items() for name in names}
    before: dict[str, set[str]] = {unit["name"]: set() for unit in units}
    for names in lists.values():
        assert len(names) == len(set(names))
        for one, other in pairwise(names):
            before[other].add(one)
    for unit in units:
        for item, seen in unit["reads"].items():
            names = lists[item]
            assert seen == names[: len(seen)], f"{unit['name']} has read {seen[-3:]} of {item}"
            if seen:
                before[unit["name"]].add(seen[-1])
            if len(seen) < len(names) and names[len(seen)] != unit["name"]:
                before[names[len(seen)]].add(unit["name"])
    # A unit that ended before another began comes before it: a chain of clock marks, one after the other.
    marks = sorted(unit["ended"] for unit in units)
    for number, mark in enumerate(marks[1:], 1):
        before[f"mark {mark}"] = {f"mark {marks[number - 1]}"}
    before[f"mark {marks[0]}"] = before.get(f"mark {marks[0]}", set())
    begun = sorted(units, key=lambda unit: unit["begun"])
    at = 0
    for unit in begun:
        while at < len(marks) and marks[at] < unit["begun"]:
            at += 1
        if at:
            before[unit["name"]].add(f"mark {marks[at - 1]}")
    for unit in units:
        before[f"mark {unit['ended']}"].add(unit["name"])
    try:
        tuple(TopologicalSorter(before).static_order())
    except CycleError as error:
        raise AssertionError(f"no order explains {error.args[1]}") from None


if __name__ == "__main__":
    print(json.dumps(play(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
