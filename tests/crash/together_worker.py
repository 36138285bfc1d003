"""A process that uses a store in one way, again and again, and notes what was acknowledged, until it is killed.

``python -m tests.crash.together_worker KIND STORE FOLDER NAME KEY…``. A line of FOLDER/NAME.jsonl is a JSON array: what
happened, and the texts of the messages. ``kept``: a call that stored them has returned. ``going``: a call begins that
removes them. ``gone``: that call has returned. Every text is used once.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import clew
from clew import agents, sources
from clew.backends import EpochChanged
from clew.errors import Conflict, Sealed, Unavailable, WrongKey

KEYS = [bytes(range(32)), bytes(range(32, 64))]


def opened(path: str, sealed: bool) -> clew.Store:
    """The store, with whichever key it has now."""
    while True:
        for key in KEYS if sealed else [None]:
            try:
                return clew.open(path, key=key)
            except (WrongKey, Unavailable):
                continue


class Worker:
    """One way of using a store."""

    def __init__(self, store: clew.Store, folder: Path, name: str) -> None:
        self.store, self.folder, self.name = store, folder, name
        self.chance = random.Random(name)
        self.file = os.open(folder / f"{name}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.count = 0

    def note(self, what: str, texts: list[str]) -> None:
        os.write(self.file, json.dumps([what, texts]).encode() + b"\n")

    def texts(self, most: int = 4) -> list[str]:
        """New texts."""
        count = self.chance.randint(1, most)
        self.count += count
        return [f"{self.name}.{os.getpid()}.{self.count - number}" for number in range(count)]

    def say(self, session: clew.Session) -> list[str]:
        texts = self.texts()
        session.append([clew.user(text) for text in texts])
        self.note("kept", texts)
        return texts

    # -- ways of using it

    def append(self) -> None:
        session = self.store.sessions.create(title=self.name)
        for _ in range(10):
            self.say(session)

    def fork(self) -> None:
        session = self.store.sessions.create()
        for _ in range(3):
            self.say(session)
        nodes = session.path()
        session.rewind(self.chance.choice(nodes).id)
        self.say(session)
        fork = session.fork(at=self.chance.choice(session.path()).id)
        self.say(fork)
        session.refresh().rename(self.name)

    def purge(self) -> None:
        session = self.store.sessions.create()
        said = self.say(session) + self.say(session)
        self.note("going", said)
        receipt = self.store.sessions.purge(session.id)
        if not receipt.failures:
            self.note("gone", said)

    def write_log(self, path: Path, texts: list[str]) -> None:
        """Lets a log of Claude Code grow."""
        path.parent.mkdir(parents=True, exist_ok=True)
        before = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        last = before[-1]["uuid"] if before else None
        with path.open("a") as file:
            for text in texts:
                id = str(uuid.uuid4())
                line = {
                    "type": "user", "uuid": id, "parentUuid": last, "sessionId": path.stem, "cwd": "/work",
                    "timestamp": "2026-11-01T00:00:00.000Z", "message": {"role": "user", "content": text},
                }  # fmt: skip
                file.write(json.dumps(line) + "\n")
                last = id

    def take(self, path: Path) -> sources.ImportRecorder:
        run = sources.ImportRecorder(self.store)
        for one in sources.import_all(self.store, sources.find([str(path)]), recorder=run):
            assert one.state in ("imported", "unchanged"), one
        return run

    def imports(self) -> None:
        path = self.folder / "logs" / self.name / f"{uuid.uuid4()}.jsonl"
        for _ in range(4):
            texts = self.texts()
            self.write_log(path, texts)
            self.take(path)
            self.note("kept", texts)

    def undo(self) -> None:
        path = self.folder / "undone" / self.name / f"{uuid.uuid4()}.jsonl"
        texts = self.texts()
        self.write_log(path, texts)
        run = self.take(path)
        self.note("going", texts)
        if not sources.undo(self.store, run.id).left:
            self.note("gone", texts)
        path.unlink()

    def agents(self) -> None:
        with agents.SessionStore(self.store) as sessions:
            session = sessions.create(cwd="/work")
            for _ in range(4):
                texts = self.texts(1)
                sessions.append_message(session, {"role": "user", "content": texts[0]})
                self.note("kept", texts)

    def adapter(self) -> None:
        from pydantic_ai.conversation import Conversation
        from pydantic_ai.messages import ModelRequest, UserPromptPart

        from clew.adapters.pydantic_ai import ClewConversationStore

        talk = Conversation(conversation_id=str(uuid.uuid4()))
        saving = ClewConversationStore(self.store)
        for _ in range(4):
            texts = self.texts()
            talk.messages.extend(ModelRequest(parts=[UserPromptPart(text)]) for text in texts)
            asyncio.run(saving.save(talk))
            self.note("kept", texts)

    def page(self) -> None:
        from clew.web.server import Server, listen
        from tests.web.conftest import Client

        session = self.store.sessions.create(title="page")
        self.say(session)
        server = Server(lambda _: self.store, listen(0), allow_write=True)
        with server.in_background():
            client = Client(server)
            for number in range(5):
                client.get(f"/c/{session.id}")
                done = client.write(f"/c/{session.id}/rename", {"title": f"page {number}"})
                assert done.status in (200, 409, 503), done.text
                client.get("/")
                self.say(session.refresh())

    def rotate(self) -> None:
        """Resumes an interrupted rotation, or starts one."""
        status = self.store.key_status()
        names = [clew.keys.key_id(key).hex() for key in KEYS]
        at = names.index(status.key_ids[0])
        self.store.rotate(KEYS[at if status.state == "rotating" else 1 - at], deep=True)
        self.note("rotated", [])


def main(kind: str, path: str, folder: str, name: str, sealed: str) -> None:
    """Works until it is killed or its input ends."""
    worker = Worker(opened(path, bool(sealed)), Path(folder), name)
    print("ready", flush=True)
    work: Callable[[], Any] = getattr(worker, kind)
    while True:
        try:
            work()
        except (Sealed, WrongKey, EpochChanged, Conflict, Unavailable):  # keys change: open it again
            worker.store.close()
            worker.store = opened(path, bool(sealed))


if __name__ == "__main__":
    main(*sys.argv[1:])
