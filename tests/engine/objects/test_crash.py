"""A process that is killed while a blob is put or removed: nothing is lost, half there, or forgotten."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew.testing import FakeClock
from tests.engine.objects.server import NodeLocation
from tests.engine.objects.test_outside import KEY, LARGE, attached, each_key, rows
from tests.reliability.tools import ROOT

DAY = 25 * 3600 * 1_000_000
DIE = """
import os, signal, sys
import clew
from clew.engine import blobs, blob_objects
from tests.engine.objects.server import NodeLocation
from tests.engine.objects.test_outside import LARGE

class Server:
    port = int(sys.argv[2])

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

place = NodeLocation(Server, sys.argv[3])
store = clew.open(sys.argv[1], key=bytes.fromhex(sys.argv[4]) or None, blobs=place.open())
session = store.sessions.get(sys.argv[5])
"""
BEFORE_COMMIT = "blobs.Blobs._finish_object = die\nsession.blobs.put(LARGE[::-1])"
IN_THE_MIDDLE = """
def stream():
    yield LARGE * 30
    die()
session.blobs.put(stream())
"""
AFTER_COMMIT = "blob_objects.bucket(store._engine).delete = die\nstore.sessions.purge(session.id)"
AT_THE_END = """
bucket = store._engine.bucket
delete = bucket.delete
bucket.delete = lambda path: (delete(path), die())
store.sessions.purge(session.id)
"""


def killed(code: str, path: Path, place: NodeLocation, key: bytes | None, session: str) -> None:
    arguments = [str(path), str(place.server.port), place.name, (key or b"").hex(), session]
    env = {"PYTHONPATH": f"{Path(clew.__file__).parents[1]}:{ROOT}", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", DIE + code, *arguments], env=env, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


@each_key
@pytest.mark.parametrize(
    ("code", "left"), [(BEFORE_COMMIT, 1), (IN_THE_MIDDLE, 0)], ids=["before the commit", "in the middle"]
)
def test_killed_while_a_blob_is_put(path: Path, place: NodeLocation, key: bytes | None, code: str, left: int) -> None:
    """The blob is not there, the rest is as it was; and what is in the bucket is known, and goes a day later."""
    clock = FakeClock()
    with clew.open(path, key=key, blobs=place.open()) as store:
        session, digest = attached(store)
    killed(code, path, place, key, session.id)
    assert len(place.names()) == 1 + left
    with clew.open(path, key=key, blobs=place.open()) as store:
        again = store.sessions.get(session.id)
        assert again.blobs.get(digest) == LARGE
        assert store.verify().ok
        blob = again.blobs.put(LARGE[::-1])
        assert again.blobs.get(blob.digest) == LARGE[::-1]
    assert len(place.names()) == 2 + left
    assert rows(path)["objects"] == 3
    clock.now = store._engine.clock() + DAY
    with clew.open(path, key=key, blobs=place.open(), clock=clock) as store:
        again = store.sessions.get(session.id)
        again.blobs.put(LARGE[2:])
        assert again.blobs.get(blob.digest) == LARGE[::-1]
        assert store.verify().ok
    assert (len(place.names()), rows(path)["objects"]) == (3, 3)


@pytest.mark.parametrize("code", [AFTER_COMMIT, AT_THE_END], ids=["before it is removed", "before that is noted"])
def test_killed_while_a_blob_is_purged(path: Path, place: NodeLocation, code: str) -> None:
    """The session is gone, the receipt says what is pending, and whoever comes next removes the object."""
    with clew.open(path, key=KEY, blobs=place.open()) as store:
        session, _ = attached(store)
        other, digest = attached(store, LARGE[::-1])
    killed(code, path, place, KEY, session.id)
    assert rows(path)["objects"] == 2
    with clew.open(path, key=KEY) as store:
        (receipt,) = store.sessions.receipts()
        assert receipt.sessions == (session.id,)
        assert receipt.pending
    with clew.open(path, key=KEY, blobs=place.open()) as store:
        assert store.sessions.get(other.id).blobs.get(digest) == LARGE[::-1]
    assert (len(place.names()), rows(path)["objects"]) == (1, 1)
    with clew.open(path, key=KEY, blobs=place.open()) as store:
        (receipt,) = store.sessions.receipts()
        assert receipt.pending == ()
        assert store.verify().ok
