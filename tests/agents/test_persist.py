"""`persist=False`: nothing is written in any way, and everything else is the same."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import clew
from clew import agents
from clew.checkpoints import Checkpoints
from tests.agents.conftest import texts
from tests.reliability.tools import need_strace, output, python

LIFE = """
import sys
sys.dont_write_bytecode = True
import clew
from clew import agents
from clew.checkpoints import Checkpoints

def life(sessions):
    session = sessions.create(cwd="/src", model="m")
    for number in range(60):
        session.append_and_save(clew.user(f"harbour {number} " + "x" * 2000))
        session.append_event({"type": "x", "n": number})
    session.metadata.exit_reason = "done"
    session.save()
    child = sessions.create(agent_name="helper", parent=session)
    child.append_event({"type": "y"})
    fork = sessions.fork(session, at=session.messages[3].id)
    fork.append_and_save(clew.user("other"))
    sessions.memory("/src").write("remember")
    session.conversation.attach(b"z" * 3_000_000, mime_type="image/png")
    checkpoints = Checkpoints(session.conversation, clew.agents.__path__[0])
    checkpoints.capture(session.messages[-1], ["__init__.py", "none.py"])
    checkpoints.capture_tree(session.messages[-1])
    checkpoints.settle(session.messages[-1])
    checkpoints.rewind(session.messages[-1])
    told = [
        len(session.messages), session.transcript.count(), session.metadata.turn_count, len(fork.messages),
        sessions.load_latest("/src").id == fork.id, sessions.memory("/src").read(), len(sessions.list()),
        sessions.transcript_path(session) is None, len(sessions._store.search("harbour")), len(checkpoints.list()),
    ]
    sessions.delete(fork.id)
    sessions.cleanup()
    sessions.close()
    return told
"""
RUN = (
    LIFE
    + """
print("BEGIN", flush=True)
print(life(agents.open("s.db", mirror="projects", persist=sys.argv[1] == "yes")))
"""
)
WRITING = (
    "open,openat,creat,write,writev,pwrite64,pwritev,truncate,ftruncate,fallocate,unlink,unlinkat,rename,renameat,"
    "renameat2,link,linkat,mkdir,mkdirat,rmdir,symlink,symlinkat,memfd_create,mknod,mknodat"
)


def traced(tmp_path: Path, persist: str) -> tuple[list[str], str]:
    """The system calls of a process that may write to a disk, and its output."""
    strace, log = need_strace(), tmp_path / "trace"
    work = tmp_path / "work"
    work.mkdir()
    before = os.getcwd()
    os.chdir(work)
    try:
        said = output(python(RUN, persist, wrap=(strace, "-f", "-qq", "-y", "-e", f"trace={WRITING}", "-o", str(log))))
    finally:
        os.chdir(before)
    calls = log.read_text().splitlines()
    begun = next(number for number, call in enumerate(calls) if "BEGIN" in call)
    return [call for call in calls[begun + 1 :] if _writes(call)], said


def _writes(call: str) -> bool:
    """True unless it only reads, writes to a terminal or a pipe, or is a signal."""
    if " --- SIG" in call:
        return False
    if re.search(r"open(at)?\(", call):
        return bool(re.search(r"O_WRONLY|O_RDWR|O_CREAT", call)) and "/dev/null" not in call
    return not re.search(r"write\(\d+<pipe:", call)


@pytest.mark.checklist("B13")
def test_not_one_call_writes(tmp_path):
    """A whole life of sessions makes no system call that could change a disk; with persist=True the same does."""
    calls, said = traced(tmp_path, "no")
    assert calls == []
    assert list((tmp_path / "work").iterdir()) == []
    other = tmp_path / "other"
    other.mkdir()
    calls, also = traced(other, "yes")
    assert any("projects" in call for call in calls) and any("s.db" in call for call in calls)
    assert {file.name for file in (other / "work").iterdir()} >= {"s.db", "projects"}
    # In-memory behaviour is otherwise equal; only the path of the transcript is not there.
    assert said.replace("True, ", "") == also.replace("True, ", "").replace("False, ", "")


@pytest.mark.checklist("B13")
def test_a_run_that_is_not_to_be_kept(mirrored, root, tmp_path):
    """The source session is read; nothing reaches the store, the mirror or the folder."""
    kept = mirrored.create(cwd="/src", model="m")
    one = kept.append_and_save(clew.user("one"))
    media = kept.conversation.attach(b"picture", mime_type="image/png")
    kept.append_and_save(clew.user(media))
    mirrored.flush()

    def state() -> dict[str, bytes]:
        files = (file for file in tmp_path.rglob("*") if file.is_file() and not file.name.endswith("-shm"))
        return {str(file): file.read_bytes() for file in files}

    before = state()
    for options in (
        {"resume": kept.id}, {"continue": True}, {"resume": kept.id, "resumeSessionAt": one.id},
        {"resume": kept.id, "forkSession": True, "sessionId": "00000000-0000-0000-0000-000000000009"}, {},
    ):  # fmt: skip
        run = mirrored.start({**options, "persistSession": False}, cwd="/src", model="m")
        run.append_and_save(clew.user("not kept"))
        run.append_event({"type": "not kept"})
        assert texts(run.messages)[-1] == "not kept"
        assert (run.id == kept.id) == (bool(options) and "forkSession" not in options)
        assert len(run.messages) == (1 if not options else 2 if "resumeSessionAt" in options else 3)
    assert state() == before
    assert len(mirrored.list()) == 1
    assert len(mirrored.load(kept.id).messages) == 2


@pytest.mark.checklist("B13")
def test_opening_without_persisting_touches_nothing(tmp_path):
    """The file that is named is neither made nor read."""
    with agents.open(tmp_path / "no" / "such" / "folder.db", mirror=tmp_path / "m", persist=False) as sessions:
        assert sessions.mirror is None
        sessions.create().append_and_save(clew.user("one"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.checklist("B13")
@pytest.mark.parametrize("way", ["files", "tree"])
@pytest.mark.parametrize("fork", [False, True])
def test_a_run_in_memory_equals_one_that_is_kept(mirrored, tmp_path, way, fork):
    """Metadata, messages, transcript and checkpoints of a continued session are the same in memory."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("old")
    kept = mirrored.create(cwd=work, model="m")
    one = kept.append_and_save(clew.user("one"))
    kept.append_event({"type": "x", "uuid": "e1"})
    kept.metadata.exit_reason = "stop"
    kept.save()
    with Checkpoints(kept.conversation, work).guard(one.id, ["a.txt"] if way == "files" else None):
        (work / "a.txt").write_text("new")
    options = {"resume": kept.id, "forkSession": fork}
    runs = [mirrored.start({**options, "persistSession": persist}, cwd=work) for persist in (False, True)]

    def seen(run: agents.Session) -> object:
        about = run.metadata
        checkpoints = Checkpoints(run.conversation, work)
        would = checkpoints.rewind(one.id, dry_run=True)
        return (
            (about.project_hash, about.cwd, about.model, about.message_count, about.exit_reason, about.parent_id),
            None if fork else (about.id, about.created_at),
            [(node.id, node.created_at) for node in run.messages],
            [event.raw for event in run.transcript.read()],
            [(found.message, found.created_at, found.files) for found in checkpoints.list()],
            (would.can_rewind, would.files_changed, would.insertions, would.deletions),
        )

    assert seen(runs[0]) == seen(runs[1])
    assert runs[0].metadata.parent_id == (kept.id if fork else None)
    assert Checkpoints(runs[0].conversation, work).rewind(one.id).can_rewind
    assert (work / "a.txt").read_text() == "old"
