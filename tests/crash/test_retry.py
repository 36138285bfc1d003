"""P12: a commit whose answer is lost is settled by asking again with the same id."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

import clew
from clew.errors import Conflict
from tests.crash import lab
from tests.reliability.tools import need_strace

ID = "0198f000-0000-7000-8000-00000000000a"

APPEND_AND_DIE = """
import os, signal, sys, clew
store = clew.open(sys.argv[1])
store.sessions.get(sys.argv[2]).append(clew.user("said"), id=sys.argv[3])
os.kill(os.getpid(), signal.SIGKILL)
"""

TALK = """
import json, sys, clew
path, session_id = sys.argv[1:]
store = clew.open(path)
session = store.sessions.get(session_id)
answers = []
for number in range(6):
    id = f"0198f000-0000-7000-8000-0000000000{number:02d}"
    said = clew.user(f"message {number} " + "x" * 3000)
    told, hint = "kept", "-"
    try:
        session.append(said, id=id)
    except clew.Unavailable as error:
        told, hint = "failed", error.hint
    with clew.open(path) as other:  # another look, which shares nothing with the first
        there = [node.id for node in other.sessions.get(session_id).path()].count(id)
    for _ in range(3):
        try:
            session.append(said, id=id)
            break
        except clew.Unavailable:
            continue
    answers.append({"told": told, "there": there, "hint": hint})
print(json.dumps({"answers": answers, "stored": [node.id for node in session.path()]}))
"""

UNITS = """
import json, sys, clew
from clew.engine.session_data import SessionData
path, session_id = sys.argv[1:]
store = clew.open(path)
session = store.sessions.get(session_id)
key, name = store.derived_id("key"), store.derived_id("name")
fill = "x" * 3000

def pop(unit):
    (last,) = unit.path(session, last=1)
    unit.move(session, last.parent_id)
    return last.text[:1]

def document(unit):
    return unit.document("document", key)

works = {
    "append": (lambda unit: unit.append(session, [clew.user("a" + fill)])[0].text[:1], "a"),
    "append two": (lambda unit: unit.append(session, [clew.user("b" + fill), clew.user("c")])[1].text, "c"),
    "pop": (pop, "c"),
    "put": (lambda unit: len(unit.put("document", key, b'"%s"' % fill.encode(), owner=session).data), 3002),
    "replace": (lambda unit: unit.put("document", key, b"[2]").data.decode(), "[2]"),
    "log": (lambda unit: unit.log(document(unit), [(None, fill.encode())]), None),
    "label": (lambda unit: unit.label(document(unit), [key]), None),
    "create": (lambda unit: unit.create(SessionData(title="t" + fill), name).title[:1], "t"),
    "save": (lambda unit: unit.save(session, SessionData(title="u" + fill)).title[:1], "u"),
    "delete": (lambda unit: unit.delete(unit.session(name)), None),
}
answers = {}
for what, (work, wanted) in works.items():
    try:
        answers[what] = store.write(work) == wanted
    except clew.Unavailable as error:
        answers[what] = None
        assert error.hint
        break
print(json.dumps(answers))
"""


@pytest.fixture
def session(tmp_path: Path) -> clew.Session:
    """A session with one message, in a store that nobody has open."""
    with clew.open(tmp_path / "s.db") as store:
        made = store.sessions.create()
        made.append(clew.user("before"))
    return made


def texts(path: Path, session: str) -> list[str]:
    with clew.open(path) as store:
        return [node.text for node in store.sessions.get(session).path()]


def test_a_kill_between_commit_and_answer(tmp_path: Path, session: clew.Session) -> None:
    """The process dies with the message stored and nobody told: the same call, made again, finds it."""
    path = tmp_path / "s.db"
    done = subprocess.run([sys.executable, "-c", APPEND_AND_DIE, str(path), session.id, ID])
    assert done.returncode == -9
    with clew.open(path) as store:
        again = store.sessions.get(session.id)
        assert again.append(clew.user("said"), id=ID).id == ID
        assert again.append(clew.user("said"), id=ID).id == ID
        with pytest.raises(Conflict):
            again.append(clew.user("something else"), id=ID)
    assert texts(path, session.id) == ["before", "said"]


def test_a_kill_in_the_middle_of_the_commit(tmp_path: Path, session: clew.Session) -> None:
    """Killed at each sync of the append in turn: asking again gives one message, stored or not before."""
    need_strace()
    path = tmp_path / "s.db"
    expected = ["before"]
    for when in (1, 2):
        id = str(uuid.uuid4())
        inject = f"inject=fdatasync:signal=SIGKILL:when={when}"
        script = APPEND_AND_DIE.replace('"said"', f'"said {when}"')
        command = ["strace", "-f", "-qq", "-o", os.devnull, "-e", "trace=fdatasync", "-e", inject, sys.executable]
        subprocess.run([*command, "-c", script, str(path), session.id, id], capture_output=True)
        with clew.open(path) as store:
            store.sessions.get(session.id).append(clew.user(f"said {when}"), id=id)
        expected.append(f"said {when}")
    assert texts(path, session.id) == expected


def talk(path: Path, session: str, *, env: dict[str, str] | None = None, prefix: tuple[str, ...] = ()) -> int:
    """Runs TALK under a fault, checks every answer it got, and returns how many calls failed."""
    command = [*prefix, sys.executable, "-c", TALK, str(path), session]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})}, timeout=60)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    for answer in said["answers"]:
        assert answer["told"] == "failed" or answer["there"] == 1, "told that it is kept, and it is not there"
        assert answer["hint"], "the error does not say what to do"
    stored = said["stored"][1:]
    assert len(stored) == 6, "a message is missing, or there twice"
    assert stored == sorted(stored)
    return sum(answer["told"] == "failed" for answer in said["answers"])


@pytest.mark.parametrize("nth", range(1, 9, 2))
def test_a_sync_that_fails_at_commit(tmp_path: Path, session: clew.Session, nth: int) -> None:
    """A commit whose sync fails is not acknowledged unless it is found again; the retry stores it once."""
    env = {"LD_PRELOAD": str(lab.shim()), "PC_ROOT": str(tmp_path), "PC_LOG": str(tmp_path.parent / f"log{nth}")}
    failed = talk(tmp_path / "s.db", session.id, env={**env, "PC_FAULT": f"sync,EIO,{nth}"})
    assert failed <= 1
    assert len(texts(tmp_path / "s.db", session.id)) == 7


@pytest.mark.parametrize("when", ["1..2", "2..3", "3..5"])
def test_several_syncs_that_fail(tmp_path: Path, session: clew.Session, when: str) -> None:
    """The sync of the recovery may fail as well: the answers stay true."""
    need_strace()
    inject = f"inject=fsync,fdatasync:error=EIO:when={when}"
    prefix = ("strace", "-f", "-qq", "-o", os.devnull, "-e", "trace=fsync,fdatasync", "-e", inject)
    talk(tmp_path / "s.db", session.id, prefix=prefix)
    assert len(texts(tmp_path / "s.db", session.id)) == 7


@pytest.mark.parametrize("nth", range(1, 12))
def test_a_unit_whose_commit_fails(tmp_path: Path, session: clew.Session, nth: int) -> None:
    """A unit whose sync fails is settled: what it returned is stored, and exactly once, whatever it wrote last."""
    path = tmp_path / "s.db"
    env = {"LD_PRELOAD": str(lab.shim()), "PC_ROOT": str(tmp_path), "PC_LOG": str(tmp_path.parent / f"log{nth}")}
    done = subprocess.run(
        [sys.executable, "-c", UNITS, str(path), session.id],
        capture_output=True, text=True, env={**os.environ, **env, "PC_FAULT": f"sync,EIO,{nth}"}, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.splitlines()[-1])
    told = [what for what, answer in answers.items() if answer is not None]
    assert all(answers[what] for what in told)
    assert len(answers) - len(told) <= 1
    with clew.open(path) as store:
        assert store.verify().ok
        (kept,) = [one for one in store.sessions.list() if one.id == session.id]
        if len(told) == 10:
            assert [text[:1] for text in texts(path, session.id)] == ["b", "a", "b"]
            assert [text[:1] for text in map(str, (kept.title, len(kept.branches())))] == ["u", "1"]
            (document,) = store.documents("document", label=store.derived_id("key"))
            assert (document.data, len(document.log)) == (b"[2]", 1)
            assert len(store.sessions.list().items) == 1
