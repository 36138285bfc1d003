"""The two verbs by which the simulator drives autosaved clients: ``snapshots.py append KIND DIR``, and ``read``.

A client that repeats what it hears is saved after each answer, to files, to encrypted files or to a store. Now and then
it is told a picture, which has a file of its own until the conversation has another.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from contextlib import suppress

import clew
from clew.chat.recording import autosave
from clew.errors import NotFound
from clew.snapshots import FileStore, Messages, Snapshot, SnapshotStore, new_snapshot

ID = "7d444840-9dc0-41d1-b245-5ffdce74fad2"
KEY = bytes(range(32))
PICTURE = base64.b64encode(bytes(range(256)) * 256).decode()


class Client:
    """Answers with what it is told."""

    def __init__(self) -> None:
        self.messages = Messages()

    def chat(self, said: str) -> str:
        self.messages.append(said.encode())
        return said

    def save(self) -> Snapshot:
        return new_snapshot(provider="claude", messages=self.messages)


def place(kind: str, folder: str) -> SnapshotStore:
    if kind == "store":
        return clew.open(os.path.join(folder, "talks.db")).snapshots
    return FileStore(os.path.join(folder, "talks"), KEY if kind == "sealed" else None)


def append(store: SnapshotStore) -> None:
    client = Client()
    with suppress(NotFound):
        client.messages.extend(store.load(ID).parts)
    talk = autosave(client, store, id=ID)
    for number, line in enumerate(sys.stdin):
        said = json.loads(line)
        picture = {"picture": PICTURE} if number % 3 == 0 else {}
        talk.chat(json.dumps({**said, **picture}))
        print("ACK", said["id"], flush=True)


def read(store: SnapshotStore) -> None:
    with suppress(NotFound):
        for raw in store.load(ID).parts:
            said = json.loads(raw)
            assert said.pop("picture", PICTURE) == PICTURE
            print(json.dumps(said))
    store.list()


if __name__ == "__main__":
    {"append": append, "read": read}[sys.argv[1]](place(*sys.argv[2:4]))
