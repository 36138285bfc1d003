"""Appends that read nothing, among everything else that changes a conversation or its keys, against plain lists."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import clew
from clew.backends.sqlite import SQLiteBackend
from clew.base import ids
from clew.errors import Conflict, NotFound, Sealed, Unavailable, WrongKey
from clew.redaction import Rule, Rules
from clew.store.parts import Parts
from clew.store.redact_message import redact_message
from tests.reliability.canaries import canary

RULES = Rules([Rule("code", r"zq[a-z]{28}", replacement="[code]")])
STEPS = {
    "append": 40, "repeat": 4, "taken": 3, "beside": 4, "several": 2, "expected": 2, "rewind": 2, "fork": 2,
    "rename": 1, "redact": 4, "trash": 1, "purge": 1, "undone": 3, "undone_inside": 2, "undone_by_a_thread": 2,
    "threads": 2, "interrupted": 3, "reopen": 1, "other_process": 2, "change_key": 1,
}  # fmt: skip
"""How often each step is taken, relative to the others."""


class Pair:
    """Two programs with the same store, and what it should have: the ids and texts of each session."""

    def __init__(self, path: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.path = path
        self.key: bytes | None = clew.keys.generate() if seed % 2 else None
        self.stores = [self.opened(), self.opened()]
        self.first = 0
        """The program that appends; the other one is beside it."""
        self.model: dict[str, list[tuple[str, str]]] = {}
        self.trashed: set[str] = set()
        self.gone: list[str] = []
        """Words that no file may have."""
        self.make()

    def opened(self) -> clew.Store:
        return clew.open(self.path, key=self.key)

    def make(self) -> None:
        self.now = self.stores[self.first].sessions.create().id
        self.model[self.now] = []

    @property
    def said(self) -> list[tuple[str, str]]:
        """The messages of the current session."""
        return self.model[self.now]

    @property
    def any_store(self) -> clew.Store:
        return self.random.choice(self.stores)

    def session(self, store: clew.Store | None = None) -> clew.Session:
        return (store or self.stores[self.first]).sessions.get(self.now)

    def text(self) -> str:
        return f"message zq{canary(self.random)[2:]}"

    def append(self, session: clew.Session | None = None, **how: Any) -> None:
        text = self.text()
        self.said.append(((session or self.session()).append(clew.user(text), **how).id, text))

    def step(self, name: str) -> None:
        if self.now not in self.model or self.now in self.trashed:
            live = [one for one in self.model if one not in self.trashed]
            self.now = self.random.choice(live) if live else self.now
            if not live:
                self.make()
        if name not in {"append", "rename", "trash", "reopen", "other_process"} and not self.said:
            name = "append"
        getattr(self, f"do_{name}")()

    def check(self) -> None:
        """Both programs read what the model has."""
        for store in self.stores:
            for one, said in self.model.items():
                if one not in self.trashed:
                    assert [(node.id, node.text) for node in store.sessions.get(one).path()] == said

    def files(self) -> bytes:
        return b"".join(file.read_bytes() for file in self.path.parent.iterdir())

    def close(self) -> None:
        for store in self.stores:
            store.close()

    # -- steps

    def do_append(self) -> None:
        session = self.session()
        for _ in range(self.random.randint(1, 5)):
            self.append(session)
        assert self.any_store.sessions.list(limit=1).items[0].id == self.now  # it was active last

    def do_repeat(self) -> None:
        self.append(id=ids.text(ids.new_id()))
        id, text = self.random.choice([self.said[-1], self.random.choice(self.said)])
        if "zq" in text:
            assert self.session().append(clew.user(text), id=id).id == id

    def do_taken(self) -> None:
        every = sorted({one for said in self.model.values() for one, _ in said})
        with pytest.raises(Conflict):
            self.session().append(clew.user("another"), id=self.random.choice(every))

    def do_beside(self) -> None:
        self.append(self.session(self.stores[not self.first]))

    def do_several(self) -> None:
        texts = [self.text(), self.text()]
        nodes = self.session().append([clew.user(text) for text in texts])
        self.said.extend(zip([node.id for node in nodes], texts, strict=True))

    def do_expected(self) -> None:
        self.append(expect_head=self.said[-1][0])

    def do_rewind(self) -> None:
        left = self.random.randint(1, len(self.said))
        self.session(self.any_store).rewind(self.said[left - 1][0])
        del self.said[left:]

    def do_fork(self) -> None:
        fork = self.session(self.any_store).fork()
        self.model[fork.id] = list(self.said)
        if self.random.random() < 0.5:
            self.now = fork.id
            self.append(fork)

    def do_rename(self) -> None:
        self.session(self.any_store).rename(self.text())

    def do_redact(self) -> None:
        id, text = self.random.choice(self.said[-3:])
        if "zq" in text:
            store = self.any_store
            done = redact_message(store, store.nodes.get(id)[0], RULES)
            assert done.receipt is not None and not done.receipt.failures
            assert done.receipt.pending == ()
            self.gone.append(text.split()[-1])
            for said in self.model.values():
                said[:] = [(one, "message [code]" if one == id else other) for one, other in said]

    def do_trash(self) -> None:
        session = self.session()
        self.session(self.any_store).trash()
        with pytest.raises(NotFound):
            session.append(clew.user("into the trash"))
        if self.random.random() < 0.5:
            self.any_store.sessions.restore(self.now)
            self.append(session)
        else:
            self.trashed.add(self.now)

    def do_purge(self) -> None:
        session = self.session()
        assert self.session(self.any_store).purge().pending == ()
        with pytest.raises(NotFound):
            session.append(clew.user("after the purge"))
        gone = self.model.pop(self.now)
        left = {id for said in self.model.values() for id, _ in said}
        self.gone += [text.split()[-1] for id, text in gone if id not in left and "zq" in text]

    def do_undone(self) -> None:
        session = self.session()
        with pytest.raises(ZeroDivisionError), self.stores[self.first].transaction():
            session.append(clew.user("undone"))
            session.fork().append(clew.user("undone"))
            raise ZeroDivisionError
        self.append(session)

    def do_undone_inside(self) -> None:
        session, store = self.session(), self.stores[self.first]
        with store.transaction():
            self.append(session)
            with pytest.raises(ZeroDivisionError), store.transaction():
                session.append(clew.user("undone"))
                raise ZeroDivisionError
            self.append(session)
        self.append(session)

    def do_undone_by_a_thread(self) -> None:
        session = self.session()
        other = threading.Thread(target=self.do_undone_alone)
        other.start()
        self.append(session)
        other.join()
        self.append(session)

    def do_undone_alone(self) -> None:
        with pytest.raises(ZeroDivisionError), self.stores[self.first].transaction():
            self.session().append(clew.user("undone"))
            raise ZeroDivisionError

    def do_threads(self) -> None:
        added: list[tuple[str, str]] = []

        def work(store: clew.Store, name: str) -> None:
            for number in range(3):
                added.append((self.session(store).append(clew.user(f"{name} {number}")).id, f"{name} {number}"))

        threads = [threading.Thread(target=work, args=(self.stores[at % 2], f"thread {at}")) for at in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = [(node.id, node.text) for node in self.session().path()]
        assert found[: len(self.said)] == self.said
        assert sorted(found[len(self.said) :]) == sorted(added)
        self.model[self.now] = found

    def do_interrupted(self) -> None:
        """The commit of an append fails, or Ctrl-C comes, before or after it is stored. Then it is repeated."""
        self.append()  # there is a connection now
        session, text, id = self.session(), self.text(), ids.text(ids.new_id())
        error = self.random.choice([KeyboardInterrupt(), sqlite3.OperationalError("disk I/O error")])
        fail_next_commit(self.stores[self.first], error, stored=self.random.random() < 0.5)
        with suppress(KeyboardInterrupt, Unavailable):
            session.append(clew.user(text), id=id)
        assert session.append(clew.user(text), id=id).id == id
        self.said.append((id, text))

    def do_reopen(self) -> None:
        at = self.random.randrange(2)
        self.stores[at].close()
        self.stores[at] = self.opened()

    def do_other_process(self) -> None:
        self.first = not self.first

    def do_change_key(self) -> None:
        """One program seals, rotates or unseals. The other one writes nothing under the old key, or in clear text."""
        changing, other = self.random.sample(self.stores, 2)
        behind, text = self.session(other), self.text()
        if self.key is None:
            self.key = clew.keys.generate()
            changing.seal(self.key)
            with pytest.raises(Sealed):
                behind.append(clew.user(text))
        elif self.random.random() < 0.5:
            self.key = clew.keys.generate()
            changing.rotate(self.key, deep=self.random.random() < 0.5)
            with pytest.raises(WrongKey):
                behind.append(clew.user(text))
        else:
            changing.unseal()
            self.key = None
            self.append(behind)
            self.append(behind)
        assert text.encode() not in self.files()
        if self.key is not None:
            self.close()
            self.stores = [self.opened(), self.opened()]
            self.do_append()
            assert self.said[-1][1].encode() not in self.files()


def fail_next_commit(store: clew.Store, error: BaseException, *, stored: bool) -> None:
    """Makes the next commit of a store raise, after it is stored or instead."""
    backend = Parts.of(store).engine.backend
    assert isinstance(backend, SQLiteBackend)
    tx = backend.writer.tx
    assert tx is not None
    run = tx.run_sql

    def fail(sql: str, *values: object) -> object:
        if sql != "COMMIT":
            return run(sql, *values)
        tx.run_sql = run
        if stored:
            run(sql)
        raise error

    tx.run_sql = fail


@pytest.mark.parametrize(("seed", "count"), [(1, 15), (2, 15), *((seed, 120) for seed in range(3, 13))])
def test_appends_among_other_steps(tmp_path: Path, seed: int, count: int) -> None:
    """Each message is stored once and in its place, words that were removed are in no file, and the store is sound."""
    pair, fast = Pair(tmp_path / "s.db", seed), 0
    real: Callable[..., bool] = SQLiteBackend.extend

    def extend(self: SQLiteBackend, *given: object) -> bool:
        nonlocal fast
        done = real(self, *given)
        fast += done
        return done

    with patch.object(SQLiteBackend, "extend", extend):
        for name in pair.random.choices(list(STEPS), list(STEPS.values()), k=count):
            pair.step(name)
            if name != "append":
                pair.check()
        for _ in range(2):
            pair.step("append")
            pair.do_append()
    assert fast
    pair.check()
    for store in pair.stores:
        assert store.verify().ok
    pair.close()
    left = pair.files()
    assert [word for word in pair.gone if word.encode() in left] == []
