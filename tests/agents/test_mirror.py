"""The mirror has the store's content as files, whatever happens to them."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
import uuid
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import clew
from clew import agents
from clew.agents import Mirror, serial
from clew.agents import jsonl as json_lines
from clew.agents.store import store_of
from clew.checkpoints import Checkpoints
from tests.agents.conftest import lines, place, sdk, texts, written
from tests.reliability.tools import need_strace, output, python


def true_to(sessions: agents.SessionStore, root: Path) -> None:
    """Asserts that every file says what the store says, and that there are no others."""
    written(sessions)
    told = [*sessions.list(), *sessions.list(subagents=True)]
    folders = {folder.name: folder for folder in root.glob("*/sessions/*")}
    assert folders.keys() == {one.id for one in told}
    for one in told:
        folder = folders[one.id]
        assert folder.parent.parent.name == one.project_hash
        assert {file.name for file in folder.iterdir()} - {"checkpoints"} == {
            "metadata.json", "messages.jsonl", "transcript.jsonl",
        }  # fmt: skip
        nodes = sessions.load_messages(one.id)
        assert (folder / "messages.jsonl").read_bytes() == b"".join(serial.line(node) + b"\n" for node in nodes)
        events = sessions.transcript(one.id).read()
        assert (folder / "transcript.jsonl").read_bytes() == b"".join(event.raw + b"\n" for event in events)
        about = json.loads((folder / "metadata.json").read_bytes())
        assert about.pop("mirror")["format"] == 1
        assert about == json.loads(one.json())


def test_a_moved_session_is_in_one_place(mirrored, root, path):
    """When its project has moved, its files are in the folder of the new one, and no copy is left in the old."""
    session = mirrored.create(cwd="/src")
    session.append_and_save(clew.user("one"))
    quiet = mirrored.create(cwd="/src")
    subprocess.run([sys.executable, "-m", "clew", "relocate", "/src", "/moved", "--db", path], check=True)
    mirrored.resume(session.id).append_and_save(clew.user("two"))
    assert len(list(root.glob(f"*/sessions/{session.id}"))) == 1
    mirrored.rebuild_mirror()
    assert len(list(root.glob(f"*/sessions/{quiet.id}"))) == 1
    true_to(mirrored, root)


@pytest.mark.checklist("B1")
def test_it_follows_whatever_is_done(mirrored, root):
    """Messages, events, metadata, forks, rewinds, compaction, subagents: the files are those of the store each time."""
    session = mirrored.create(cwd="/src")
    true_to(mirrored, root)
    for number in range(5):
        session.append_and_save(clew.user(f"{number}"))
        session.append_event({"type": "x", "n": number})
        true_to(mirrored, root)
    session.metadata.exit_reason = "done"
    session.metadata.model = "m2"
    session.save()
    true_to(mirrored, root)
    early = mirrored.resume(session.id, at=session.messages[1].id)
    true_to(mirrored, root)
    early.append_and_save(clew.user("instead"))
    true_to(mirrored, root)
    mirrored.fork(session).append_and_save(clew.user("in the fork"))
    mirrored.create(agent_name="helper", parent=session).append_event({"type": "y"})
    true_to(mirrored, root)
    session.conversation.compact(clew.user("in short"))
    mirrored.append_message(session.id, clew.native("openai", b'{"role": "assistant",\n "content": "native"}'))
    true_to(mirrored, root)
    session.conversation.rewind(to=None)
    session.append_event({"type": "the end"})
    true_to(mirrored, root)
    assert mirrored.mirror.error is None


def test_files_are_their_owners_alone(mirrored, root):
    """Folders and files are private under any umask."""
    before = os.umask(0)
    try:
        session = mirrored.create(cwd="/src")
        session.append_and_save(clew.user("one"))
        mirrored.memory("/src").write("x")
    finally:
        os.umask(before)
    for file in [root, *root.rglob("*")]:
        assert stat.S_IMODE(file.stat().st_mode) == (0o700 if file.is_dir() else 0o600), file


def test_files_are_only_added_to(mirrored):
    """Lines that were there stay byte for byte where they were, in the same file."""
    session = mirrored.create()
    session.append_and_save(clew.user("one"))
    session.append_event({"type": "x"})
    files = [place(mirrored, session) / name for name in ("messages.jsonl", "transcript.jsonl")]
    before = [(file.stat().st_ino, file.read_bytes()) for file in files]
    session.append_and_save(clew.user("two"))
    session.append_event({"type": "y"})
    mirrored.flush()
    for file, (inode, was) in zip(files, before, strict=True):
        assert file.stat().st_ino == inode
        assert file.read_bytes().startswith(was) and file.stat().st_size > len(was)


SPOILT: dict[str, Any] = {
    "a torn line": lambda raw: raw + b'{"type":"us',
    "a line without its newline": lambda raw: raw + b'{"type":"user"}',
    "zeros": lambda raw: raw + b"\0" * 5000,
    "lines of another program": lambda raw: raw + b'{"role":"user","content":"x"}\n' * 3,
    "cut off": lambda raw: raw[:-5],
    "its last newline overwritten": lambda raw: raw[:-1] + b"x",
    "empty": lambda raw: b"",
    "gone": None,
}


@pytest.mark.checklist("B15")
@pytest.mark.parametrize("how", SPOILT)
@pytest.mark.parametrize("name", ["messages.jsonl", "transcript.jsonl", "metadata.json"])
def test_a_file_that_was_spoilt_is_mended(mirrored, root, name, how):
    """The next message repairs the file: nothing is appended to a truncated line, and nothing is missing."""
    session = mirrored.create()
    for number in range(3):
        session.append_and_save(clew.user(f"{number}"))
        session.append_event({"type": "x", "n": number})
    file = place(mirrored, session) / name
    if SPOILT[how] is None:
        file.unlink()
    else:
        file.write_bytes(SPOILT[how](file.read_bytes()))
    session.append_event({"type": "x"})
    session.append_and_save(clew.user("more"))
    true_to(mirrored, root)


def test_it_is_rebuilt_from_the_store(mirrored, root):
    """A rebuild restores all files, removes those of deleted sessions, and leaves other files alone."""
    kept, gone = mirrored.create(cwd="/a"), mirrored.create(cwd="/b")
    for session in (kept, gone):
        session.append_and_save(clew.user("one"))
        session.append_event({"type": "x"})
    mirrored.memory("/a").write("remember")
    for file in root.rglob("*.json*"):
        if file.parent != root:
            file.write_bytes(b"nonsense")
    beside = place(mirrored, gone) / "notes.txt"
    beside.write_text("mine")
    store_of(mirrored).sessions.purge(gone.id)
    done = mirrored.rebuild_mirror()
    assert (done.sessions, done.memories, done.removed, done.failures) == (1, 1, 1, ())
    assert [file.name for file in place(mirrored, gone).iterdir()] == ["notes.txt"]
    beside.unlink()
    beside.parent.rmdir()
    true_to(mirrored, root)
    assert b"".join(file.read_bytes() for file in root.rglob("*") if file.is_file()).count(b"one") == 1


def words_in(root):
    """Every file of the mirror that has the word."""
    return [file for file in root.rglob("*") if file.is_file() and b"xylophone" in file.read_bytes()]


@pytest.mark.parametrize("way", ["delete", "cleanup"])
def test_what_goes_with_its_owner_goes_from_the_mirror(mirrored, root, way):
    """A trace is not named by whoever takes its owner away: its words must not stay in the files; nor those of one that
    is in the trash.
    """
    owner = mirrored.create(cwd="/src")
    trace = mirrored.create(cwd="/src", agent_name="searcher", parent=owner)
    thrown = mirrored.create(cwd="/src", agent_name="searcher", parent=trace)
    for one in (owner, trace, thrown):
        one.append_and_save(clew.user("xylophone"))
    mirrored.flush()
    store_of(mirrored).sessions.trash(thrown.id)
    assert len(words_in(root)) == 3
    if way == "delete":
        mirrored.delete(owner.id)
    else:
        mirrored.cleanup(older_than=timedelta(microseconds=1))
    assert words_in(root) == []


def test_a_store_without_a_mirror_has_none_to_rebuild(sessions):
    """And no path of a transcript."""
    with pytest.raises(clew.Invalid):
        sessions.rebuild_mirror()
    assert sessions.transcript_path(sessions.create()) is None


def test_a_folder_that_was_removed_is_made_again(mirrored, root):
    """A flush brings everything back that the store has, and what comes after it is followed."""
    session = mirrored.create(cwd="/src")
    session.append_and_save({"role": "user", "content": "one"})
    mirrored.flush()
    before = {path.relative_to(root): path.read_bytes() for path in Path(root).rglob("*") if path.is_file()}
    shutil.rmtree(root)
    mirrored.flush()
    assert before == {path.relative_to(root): path.read_bytes() for path in Path(root).rglob("*") if path.is_file()}
    session.append_and_save({"role": "user", "content": "two"})
    mirrored.flush()
    assert len(next(Path(root).rglob("messages.jsonl")).read_bytes().splitlines()) == 2


def test_a_transaction_that_is_undone_leaves_no_line(mirrored, root):
    """Files follow what is committed, and only that."""
    session = mirrored.create()
    with pytest.raises(ZeroDivisionError), store_of(mirrored).transaction():
        mirrored.append_message(session.id, clew.user("never"))
        session.append_event({"type": "never"})
        mirrored.create()
        raise ZeroDivisionError
    mirrored.flush()
    true_to(mirrored, root)
    with store_of(mirrored).transaction():
        mirrored.append_message(session.id, clew.user("kept"))
        assert lines(place(mirrored, session) / "messages.jsonl") == []
    mirrored.flush()
    assert len(lines(place(mirrored, session) / "messages.jsonl")) == 1
    true_to(mirrored, root)


def test_a_mirror_is_of_one_workspace(path, root):
    """A workspace that rebuilt another's would take its files away, and write what it remembers over them."""
    with agents.open(path, mirror=root, workspace="a") as sessions:
        session = sessions.create(cwd="/src")
        session.append_and_save(clew.user("xylophone"))
        for workspace in ("b", ""):
            with pytest.raises(clew.Conflict):
                agents.open(path, mirror=root, workspace=workspace)
        with agents.open(path, mirror=root, workspace="a") as again:
            again.rebuild_mirror()
    assert len(words_in(root)) == 1


def test_whose_folder_it_is(path, root, tmp_path):
    """A folder that holds other things is refused, and so is another store's mirror; nothing in it is touched."""
    with agents.open(path, mirror=root) as sessions:
        sessions.create()
    with agents.open(path, mirror=root):
        pass  # it is its own
    with pytest.raises(clew.Conflict):
        agents.open(tmp_path / "other.db", mirror=root)
    full = tmp_path / "full"
    full.mkdir()
    (full / "notes.txt").write_text("mine")
    with pytest.raises(clew.Invalid):
        agents.open(path, mirror=full)
    assert [file.name for file in full.iterdir()] == ["notes.txt"]
    (root / ".clew-mirror.json").write_text('{"format": 2, "store": ""}')
    with pytest.raises(clew.Invalid, match="newer"):
        agents.open(path, mirror=root)


def test_a_sealed_store_is_not_mirrored_unasked(tmp_path):
    """Clear text of a sealed store needs permission, also if the store is sealed while open."""
    with clew.open(tmp_path / "s.db", key=clew.keys.generate()) as store:
        with pytest.raises(clew.Invalid, match="clear text"):
            agents.SessionStore(store, mirror=tmp_path / "m")
        assert not (tmp_path / "m").exists()
        asked = agents.SessionStore(store, mirror=Mirror(store, tmp_path / "m", clear=True))
        asked.create().append_and_save(clew.user("one"))
        true_to(asked, tmp_path / "m")
    with agents.open(tmp_path / "t.db", mirror=tmp_path / "n") as sessions:
        session, mirror = sessions.create(), sessions.mirror
        assert mirror is not None
        store_of(sessions).seal(clew.keys.generate())
        session.append_and_save(clew.user("harbour"))
        assert isinstance(mirror.error, clew.Invalid)
        assert texts(sessions.load_messages(session.id)) == ["harbour"]
        assert not any(b"harbour" in file.read_bytes() for file in (tmp_path / "n").rglob("*") if file.is_file())
        mirror._clear = True  # so that closing has nothing to complain of


def test_a_mirror_that_cannot_be_written_fails_no_append(mirrored, root, monkeypatch):
    """A failed mirror write is no error of the call: `error` and `flush` report it, and later writes catch up."""
    session = mirrored.create()
    mirror = mirrored.mirror
    real = os.open

    def full(path, flags, *args, **kwargs):
        if str(path).startswith(str(root)) and flags & os.O_WRONLY:
            raise OSError(28, "No space left on device", str(path))
        return real(path, flags, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", full)
        session.append_and_save(clew.user("one"))
        session.append_event({"type": "x"})
        assert isinstance(mirror.error, clew.StorageFull)
        with pytest.raises(clew.StorageFull):
            mirrored.flush()
    mirrored.append_message(session.id, clew.user("two"))
    assert mirror.error is None
    true_to(mirrored, root)


def test_a_mirror_that_someone_keeps_is_waited_for(path, root):
    """Waiting has an end, and the end is an error, not silence."""
    from clew.base import files

    with clew.open(path) as store:
        mirror = Mirror(store, root, patience=0.05)
        with agents.SessionStore(store, mirror=mirror) as sessions:
            with files.lock(str(root / ".lock"), 1):
                session = sessions.create()
                assert isinstance(mirror.error, clew.Unavailable)
                with pytest.raises(clew.Unavailable):
                    sessions.flush()
            session.append_event({"type": "x"})
            true_to(sessions, root)


def test_links_are_not_followed(mirrored, root, tmp_path):
    """A link in place of a file does not redirect the mirror."""
    session = mirrored.create()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    file = place(mirrored, session) / "messages.jsonl"
    file.unlink()
    file.symlink_to(victim)
    session.append_and_save(clew.user("one"))
    assert victim.read_text() == "mine"
    assert mirrored.mirror.error is not None
    mirrored.rebuild_mirror()
    true_to(mirrored, root)
    assert victim.read_text() == "mine"


def test_a_name_of_a_project_cannot_lead_elsewhere(mirrored, root):
    """Free data of a session may say anything; what is no name of a folder is not used as one."""
    for bad in ("../../up", "/etc", ".hidden", "a/b", "", "x" * 200, 5, "a\n"):
        made = store_of(mirrored).sessions.create(cwd="/src", extra={"project_hash": bad})
        mirrored.mirror.sync(made.id)
    assert {file.name for file in root.iterdir() if file.is_dir()} == {agents.project_hash("/src")}
    true_to(mirrored, root)


def test_a_message_too_long_for_a_line_is_told(mirrored, monkeypatch):
    """A message that cannot be written as a line is replaced by a note; the rest is complete."""
    session = mirrored.create()
    session.conversation.append(clew.user("x" * json_lines.LINE_LIMIT))
    session.append_and_save(clew.user("two"))
    first, second = lines(place(mirrored, session) / "messages.jsonl")
    assert first["uuid"] == second["parent_uuid"] and first["omitted"].endswith(" bytes")


@pytest.mark.checklist("B1")
def test_checkpoints_are_written_beside(mirrored, root, tmp_path):
    """A manifest and contents by their hash, in the session's folder; they grow, are rebuilt, and go with it."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.py").write_bytes(b"before\0")
    session = mirrored.create(cwd=work)
    first = session.append_and_save(clew.user("change it"))
    checkpoints = Checkpoints(session.conversation, work)
    checkpoints.capture(first, ["a.py", "new.py"])
    checkpoints.capture(str(uuid.uuid4()), ["a.py"])
    session.append_event({"type": "x"})
    at = place(mirrored, session) / "checkpoints"
    manifest = json.loads((at / first.id / "manifest.json").read_bytes())
    digest = sha256(b"before\0").hexdigest()
    assert (manifest["user_message_uuid"], manifest["created_at"][-1]) == (first.id, "Z")
    assert [(one["path"], one["exists"], one.get("hash"), one.get("size")) for one in manifest["files"]] == [
        ("a.py", True, digest, 7), ("new.py", False, None, None),
    ]  # fmt: skip
    assert (at / first.id / "files" / digest).read_bytes() == b"before\0"
    assert len(list(at.iterdir())) == 2
    (work / "b.py").write_text("b")
    checkpoints.capture(first, ["b.py"])
    session.append_event({"type": "y"})
    mirrored.flush()
    assert len(json.loads((at / first.id / "manifest.json").read_bytes())["files"]) == 3
    true_to(mirrored, root)
    before = {file: file.read_bytes() for file in at.rglob("*") if file.is_file()}
    (at / first.id / "files" / digest).write_bytes(b"spoilt")
    mirrored.rebuild_mirror()
    assert {file: file.read_bytes() for file in at.rglob("*") if file.is_file()} == before
    assert {stat.S_IMODE(file.stat().st_mode) for file in before} == {0o600}
    mirrored.delete(session.id)
    assert not at.exists()


# -- crashes

WRITER = """
import sys, clew
from clew import agents
sessions = agents.open(sys.argv[1], mirror=sys.argv[2])
session = sessions.resume(sys.argv[3])
print("ready", flush=True)
number = 0
while True:
    session.append_and_save(clew.user(f"{number} " + "x" * 3000))
    session.append_event({"type": "x", "n": number})
    print(number, flush=True)
    number += 1
"""


def crash(path: Path, root: Path, rounds: int, seed: int) -> None:
    """Kills a writer at any moment, again and again: lines before stay, the next writer mends what was cut."""
    rng = random.Random(seed)
    with agents.open(path, mirror=root) as sessions:
        session = sessions.create()
        folder = place(sessions, session)
    acknowledged = 0
    for _ in range(rounds):
        before = (folder / "transcript.jsonl").read_bytes()
        writer = python(WRITER, path, root, session.id)
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
        time.sleep(rng.random() * 0.15)
        writer.send_signal(signal.SIGKILL)
        acknowledged += len(writer.stdout.readlines())  # `communicate` would miss what was read ahead with "ready"
        _, err = writer.communicate()
        assert err == "" and writer.returncode == -signal.SIGKILL
        good = before[: before.rfind(b"\n") + 1]
        assert (folder / "transcript.jsonl").read_bytes().startswith(good)
        skipped = [line for line in json_lines.read(str(folder / "messages.jsonl")) if line.why]
        assert len(skipped) <= 1  # at most the one that was cut short
    with agents.open(path, mirror=root) as sessions:
        sessions.append_event(session.id, {"type": "the last"})
        assert acknowledged <= sessions.load(session.id).metadata.message_count <= acknowledged + rounds
        true_to(sessions, root)


def test_a_writer_that_is_killed(path, root):
    """Acknowledged messages are stored, and the next writer repairs the files."""
    crash(path, root, rounds=6, seed=1)


@pytest.mark.soak
def test_a_writer_that_is_killed_often(path, root):
    """The same, two hundred times."""
    crash(path, root, rounds=200, seed=2)


ONE = """
import sys, clew
from clew import agents
sessions = agents.open(sys.argv[1], mirror=sys.argv[2])
sessions.resume(sys.argv[3]).append_and_save(clew.user("x" * 9000))
sessions.flush()
sessions.append_event(sys.argv[3], {"type": "x", "text": "y" * 9000})
sessions.flush()
print("done", flush=True)
"""


@pytest.mark.parametrize("call", ["write", "ftruncate", "rename", "fsync", "openat"])
def test_cut_off_at_each_call(path, root, call, tmp_path):
    """Killed at the first, second, … write, rename or sync of the mirror: the next writer makes it right."""
    strace = need_strace()
    with agents.open(path, mirror=root) as sessions:
        session = sessions.create(cwd="/src")
        session.append_and_save(clew.user("first"))
        folder = place(sessions, session)
    names = ["messages.jsonl", "transcript.jsonl", "metadata.json", "metadata.json.part"]
    watched = [part for name in names for part in ("-P", str(folder / name))]
    for when in range(1, 6):
        if call == "ftruncate":  # there is something to be cut away
            for name in names[:2]:
                with (folder / name).open("ab") as file:
                    file.write(b'{"torn')
        wrap = (strace, "-f", "-qq", "-o", str(tmp_path / "trace"), *watched, "-e", f"trace={call}",
                "-e", f"inject={call}:signal=KILL:when={when}")  # fmt: skip
        process = python(ONE, path, root, session.id, wrap=wrap)
        out, _ = process.communicate(timeout=60)
        with agents.open(path, mirror=root) as sessions:
            sessions.append_event(session.id, {"type": "after"})
            true_to(sessions, root)
        if out:
            assert when > 1, "nothing was cut off"
            break


def test_lines_are_synced_before_they_are_counted(path, root, tmp_path):
    """A file is synced before the metadata that says how far it has grown, and a folder after a name in it is new."""
    strace = need_strace()
    with agents.open(path, mirror=root) as sessions:
        session = sessions.create(cwd="/src")
        folder = place(sessions, session)
    log = tmp_path / "trace"
    wrap = (strace, "-f", "-qq", "-y", "-e", "trace=write,fsync,fdatasync,rename", "-o", str(log))
    output(python(ONE, path, root, session.id, wrap=wrap))
    calls = [call for call in log.read_text().splitlines() if str(root) in call]

    def find(start: int, *words: str) -> int:
        found = [n for n, call in enumerate(calls) if n >= start and all(word in call for word in words)]
        assert found, (words, calls)
        return found[0]

    at = 0
    for step in (
        ("write(", "messages.jsonl>"), ("fsync(", "messages.jsonl>"), ("write(", "metadata.json.part>"),
        ("fsync(", "metadata.json.part>"), ("rename(", "metadata.json"), ("fsync(", f"{folder}>"),
        ("write(", "transcript.jsonl>"), ("fsync(", "transcript.jsonl>"), ("rename(", "metadata.json"),
        ("fsync(", f"{folder}>"),
    ):  # fmt: skip
        at = find(at, *step) + 1


def test_two_processes_keep_one_mirror(path, root):
    """One process writes what another has stored but not mirrored."""
    with clew.open(path) as store, agents.open(path, mirror=root) as sessions:
        session = sessions.create()
        store.sessions.get(session.id).append(clew.user("by the other, which has no mirror"))
        session.append_event({"type": "x"})
        true_to(sessions, root)


def test_sdk_messages_in_the_mirror_read_as_such(mirrored):
    """A program that knows SDK messages finds type, uuid and message where it expects them."""
    session, name = mirrored.create(), str(uuid.uuid4())
    given = sdk("user", "hello", name)
    session.append_and_save(given)
    (line,) = lines(place(mirrored, session) / "messages.jsonl")
    assert (line["type"], line["uuid"], line["message"]) == ("user", name, given["message"])
    assert subprocess.run(["tail", "-n1", mirrored.transcript_path(session)], capture_output=True).stdout == b""


BACK = """
import sys, clew
from clew import agents
sessions = agents.open(sys.argv[1], mirror=sys.argv[2])
sessions.resume(sys.argv[3], at=sys.argv[4]).append_and_save(clew.user("z" * 9000))
"""


def test_a_rewind_that_is_cut_off(path, root, tmp_path):
    """Killed after the new file has its place and before the metadata speaks of it: the next writer makes it right."""
    strace = need_strace()
    with agents.open(path, mirror=root) as sessions:
        session = sessions.create(cwd="/src")
        nodes = [session.append_and_save(clew.user(f"{number}" * 300)) for number in range(9)]
        folder = place(sessions, session)
    for call, name in (("rename", "messages.jsonl.part"), ("openat", "metadata.json.part")):
        wrap = (strace, "-f", "-qq", "-o", str(tmp_path / "trace"), "-P", str(folder / name), "-e", f"trace={call}",
                "-e", f"inject={call}:signal=KILL:when=1")  # fmt: skip
        python(BACK, path, root, session.id, nodes[1].id, wrap=wrap).communicate(timeout=60)
        with agents.open(path, mirror=root) as sessions:
            sessions.append_message(session.id, clew.user("after"))
            true_to(sessions, root)
