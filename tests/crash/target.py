"""The two verbs by which the simulator drives clew: ``target.py append DIR`` and ``target.py read DIR``.

One session per store. A message's id is derived from the simulator's, which is kept in the message's extra. A call that
fails is made again with the same id on the same handle, as a careful program does; ``--errors FILE`` notes what failed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
import uuid
from collections.abc import Callable
from typing import TypeVar

import clew
from clew.errors import ClewError, Conflict, NotFound

T = TypeVar("T")

NAMESPACE = uuid.UUID("6f0a6d5e-6b1c-5f0e-9f5f-0d6c657700aa")
SESSION = str(uuid.uuid5(NAMESPACE, "session"))
TRIES = 3


def node_id(key: str) -> str:
    """The id of the message that the simulator calls `key`."""
    return str(uuid.uuid5(NAMESPACE, key))


def session_of(store: clew.Store) -> clew.Session:
    """The one session, made by whoever comes first."""
    try:
        return store.sessions.get(SESSION)
    except NotFound:
        pass
    try:
        return store.sessions.create(id=SESSION, title="crash test")
    except Conflict:
        return store.sessions.get(SESSION)


def say(session: clew.Session, key: str, text: str) -> clew.Node:
    """Appends one of the simulator's messages."""
    return session.append(clew.user(text, extra={"id": key}), id=node_id(key))


class Stubborn:
    """Makes a call again when it failed; notes each failure as a JSON line: type, hint, text."""

    def __init__(self, notes: str | None) -> None:
        # Opened before the first fault can strike, and never inside the store's folder.
        self._notes = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if notes else -1

    def __call__(self, call: Callable[[], T]) -> T:
        for left in reversed(range(TRIES)):
            try:
                return call()
            except ClewError as error:
                self._note(type(error).__name__, error.hint, str(error))
                if not left:
                    raise
            except Exception as error:
                self._note("RAW " + type(error).__name__, "", traceback.format_exc())
                raise
        raise AssertionError

    def _note(self, kind: str, hint: str, text: str) -> None:
        if self._notes >= 0:
            os.write(self._notes, (json.dumps({"type": kind, "hint": hint, "text": text}) + "\n").encode())


def append(path: str, durability: str, timeout: float, notes: str | None) -> int:
    stubborn = Stubborn(notes)
    try:
        store = stubborn(lambda: clew.open(path, durability=durability, timeout=timeout))  # type: ignore[arg-type]
    except ClewError as error:
        print("ERR open", type(error).__name__, flush=True)
        return 3
    with store:
        session: clew.Session | None = None
        for line in sys.stdin:
            item = json.loads(line)
            key, text = item["id"], item["text"]
            try:
                if session is None:
                    session = stubborn(lambda: session_of(store))
                node = stubborn(lambda session=session, key=key, text=text: say(session, key, text))  # type: ignore[misc]
            except ClewError as error:
                print("ERR", key, type(error).__name__, flush=True)
                return 3
            assert node.id == node_id(key)
            print("ACK", key, flush=True)
    return 0


def read(path: str) -> int:
    """Prints what is stored. A store that does not verify counts as unreadable."""
    try:
        store = clew.open(path, create=False)
    except NotFound:
        return 0
    with store:
        try:
            nodes = store.sessions.get(SESSION).path()
        except NotFound:
            nodes = []
        for node in nodes:
            message = node.message
            print(json.dumps({"id": (message.extra or {})["id"], "text": message.text}))
        report = store.verify()
        if not report.ok:
            print(f"verify: {report.damage[:3]}", file=sys.stderr)
            return 7
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["append", "read"])
    parser.add_argument("dir")
    parser.add_argument("--durability", default="full")
    parser.add_argument("--timeout", type=float, default=60.0)
    parser.add_argument("--errors", help="a file that collects what failed, one JSON line each")
    args = parser.parse_args()
    path = os.path.join(args.dir, "store.db")
    if args.verb == "read":
        return read(path)
    return append(path, args.durability, args.timeout, args.errors)


if __name__ == "__main__":
    sys.exit(main())
