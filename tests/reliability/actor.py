"""A process that does what people do to a store, and writes down each call: see `tests.reliability.history`.

``python -m tests.reliability.actor STORE JOURNAL PART SHARED AGAIN``. PART is ``actor``, or ``keys`` for one that
seals, rotates and unseals. SHARED are ids of sessions, with commas between. AGAIN is a call of a process that was
killed, as JSON, to be made again. It begins when it reads on standard input what the clock says at the end.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

import clew
from clew.backends import EpochChanged
from clew.errors import Conflict, Invalid, Sealed, WrongKey
from tests.reliability.history import digest

KEYS = (None, bytes(range(32)), bytes(range(32, 64)))


class Halfway(Exception):
    """Raised if the first of two calls was done and the keys changed before the second."""


class Undone(Exception):
    """Raised inside a transaction, to undo it."""


def opened(path: str) -> clew.Store:
    """The store, with whichever key it has now."""
    until = time.monotonic() + 60
    while True:
        for key in KEYS:
            try:
                return clew.open(path, key=key, create=False)
            except (Sealed, WrongKey):
                assert time.monotonic() < until, "no key opens the store"
            except Invalid as error:
                if "is not sealed" not in error.message:  # else it was unsealed between two tries
                    raise


def refused(error: clew.ClewError) -> bool:
    """True for what is raised while keys change, and promises that nothing was done."""
    return outdated(error) or (isinstance(error, Conflict) and "being unsealed" in error.message)


def outdated(error: Exception) -> bool:
    """True if the store was sealed, or unsealed with a newer key, since it was opened: it has to be opened again."""
    return isinstance(error, Sealed) or (isinstance(error, Conflict) and "was unsealed" in error.message)


class Actor:
    """Makes calls, each written down before and after."""

    def __init__(self, path: str, journal: str, shared: list[str]) -> None:
        self.path, self.name, self.shared = path, os.path.basename(journal).partition(".")[0], shared
        self.file = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.chance = random.Random(journal)
        self.number = self.texts = 0
        self.mine: list[str] = []
        self.store = opened(path)

    def note(self, event: str, **more: Any) -> None:
        at = time.monotonic_ns()
        os.write(self.file, json.dumps({"event": event, "number": self.number, "at": at} | more).encode() + b"\n")

    def call(self, kind: str, work: Callable[[clew.Store], dict[str, Any] | None], **about: Any) -> bool:
        """True if it was done; False if it was undone, or the key has changed, which promises that it was not done."""
        self.number += 1
        self.note("call", kind=kind, **about)
        try:
            found = work(self.store) or {}
        except Halfway:  # no end is written down: it may have been done
            self.store.close()
            self.store = opened(self.path)
            return False
        except (clew.ClewError, EpochChanged, Undone) as error:
            if isinstance(error, clew.ClewError) and not refused(error):
                raise
            self.note("fail")
            if outdated(error):
                self.store.close()
                self.store = opened(self.path)
            return False
        self.note("ok", **found)
        return True

    def said(self, most: int = 3) -> list[str]:
        """New messages, each unlike any other."""
        self.texts += most
        return [f"{self.name}.{self.texts - number}" for number in range(self.chance.randint(1, most))][::-1]

    # -- the shared sessions

    def append(self) -> None:
        session, texts = self.chance.choice(self.shared), self.said()
        ids = [str(uuid.uuid4()) for _ in texts]

        def work(store: clew.Store) -> None:
            self.add(store, session, texts, ids)

        if self.call("append", work, parts={session: texts}, ids=ids) and self.chance.random() < 0.1:
            try:
                work(self.store)  # nothing happens
            except clew.ClewError as error:
                if not refused(error):
                    raise

    def again(self, end: float, parts: dict[str, list[str]], ids: list[str]) -> None:
        """A call whose end nobody knows, made once more; until `end`, while keys change."""
        ((session, texts),) = parts.items()
        while not self.call("again", lambda store: self.add(store, session, texts, ids), parts=parts):
            if time.monotonic() > end:
                return

    def add(self, store: clew.Store, session: str, texts: list[str], ids: list[str] | None = None) -> None:
        nodes = store.sessions.get(session).append([clew.user(text) for text in texts], id=ids)
        assert [node.text for node in nodes] == texts
        assert ids is None or [node.id for node in nodes] == ids

    def pair(self) -> None:
        parts = {session: self.said(2) for session in self.shared}
        undone = self.chance.random() < 0.3

        def work(store: clew.Store) -> None:
            with store.transaction():
                for session, texts in parts.items():
                    self.add(store, session, texts)
                if undone:
                    raise Undone

        self.call("append", work, parts=parts)

    def read(self) -> None:
        session = self.chance.choice(self.shared + self.mine)
        self.call("read", lambda store: {"seen": {session: self.look(store, session)}}, parts={session: []})

    def read_both(self) -> None:
        def work(store: clew.Store) -> dict[str, Any]:
            with store.transaction():
                return {"seen": {session: self.look(store, session) for session in self.shared}}

        self.call("read", work)

    def look(self, store: clew.Store, session: str) -> tuple[int, str]:
        texts = [node.text for node in store.sessions.get(session).path()]
        return len(texts), digest(texts)

    # -- sessions of its own

    def create(self) -> None:
        if len(self.mine) > 4:
            return
        id, source = str(uuid.uuid4()), self.chance.choice(["", *self.shared])

        def work(store: clew.Store) -> dict[str, Any]:
            if source:
                store.sessions.get(source).fork(id=id)
            else:
                store.sessions.create(id=id)
            try:
                return {"seen": {id: self.look(store, id)}}
            except clew.ClewError as error:
                raise Halfway if refused(error) else error from None

        if self.call("fork" if source else "create", work, parts={id: []}, source=source):
            self.mine.append(id)

    def extend(self) -> None:
        if self.mine:
            session, texts = self.chance.choice(self.mine), self.said()
            self.call("append", lambda store: self.add(store, session, texts), parts={session: texts})

    def rewind(self) -> None:
        if not self.mine:
            return
        session = self.chance.choice(self.mine)
        try:
            nodes = self.store.sessions.get(session).path()
        except (Sealed, Conflict) as error:
            if not refused(error):
                raise
            return
        if nodes:
            keep = self.chance.randint(1, len(nodes))

            def work(store: clew.Store) -> None:
                store.sessions.get(session).rewind(nodes[keep - 1].id)

            self.call("rewind", work, parts={session: []}, keep=keep)

    def purge(self) -> None:
        if self.mine:
            session = self.chance.choice(self.mine)

            def work(store: clew.Store) -> None:
                failures = store.sessions.purge(session).failures
                if any("unsealed" in one.error or "sealed with" in one.error for one in failures):
                    raise Undone  # the keys have changed, and nothing was done
                assert failures == (), failures

            if self.call("purge", work, parts={session: []}):
                self.mine.remove(session)

    # -- keys

    def change_keys(self) -> None:
        """Finishes what was cut short, or does something else: seal, rotate, also deep, or unseal."""
        status = self.store.key_status()
        ids = ["" if key is None else clew.keys.key_id(key).hex() for key in KEYS]
        other = KEYS[1] if status.key_ids and status.key_ids[0] == ids[2] else KEYS[2]
        assert KEYS[1] is not None
        assert other is not None
        match status.state:
            case "plain" | "sealing":
                self.store.seal(KEYS[1])
            case "unsealing":
                self.store.unseal()
            case "rotating":
                target = KEYS[ids.index(status.key_ids[0])]
                assert target is not None
                for deep in (False, True):
                    try:
                        self.store.rotate(target, deep=deep)
                        break
                    except Conflict:
                        continue
            case _ if self.chance.random() < 0.3:
                self.store.unseal()
            case _:
                self.store.rotate(other, deep=self.chance.random() < 0.5)


def main(path: str, journal: str, part: str, shared: str, again: str) -> None:
    actor = Actor(path, journal, shared.split(","))
    print("ready", flush=True)
    end = float(sys.stdin.readline())
    if again:
        actor.again(end, **json.loads(again))
    doing = {
        actor.append: 8, actor.pair: 3, actor.read: 4, actor.read_both: 1,
        actor.create: 1, actor.extend: 3, actor.rewind: 1, actor.purge: 0.3,
    }  # fmt: skip
    if part == "keys":
        doing = {actor.change_keys: 1}
    while time.monotonic() < end:
        actor.chance.choices(list(doing), list(doing.values()))[0]()
    actor.store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
