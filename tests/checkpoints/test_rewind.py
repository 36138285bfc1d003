"""A rewind is exact or nothing, and can be undone."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import clew
from clew.checkpoints import Checkpoints, rewind
from clew.checkpoints.capture import ContentWriter
from clew.checkpoints.diff import MOST, count
from clew.checkpoints.filestate import MISSING, FileState, HeadChange, Manifest, PathEntry
from clew.checkpoints.rewind import apply
from clew.checkpoints.root import RootFolder
from clew.errors import NotFound, ReadOnly, Unavailable
from clew.store.parts import Parts
from tests.checkpoints.conftest import picture
from tests.checkpoints.test_capture import as_nobody
from tests.reliability.tools import need


def sh(work: Path, command: str) -> None:
    subprocess.run(["sh", "-ec", command], cwd=work, check=True, capture_output=True)


def furnish(work: Path) -> None:
    """Something of everything that a file system has."""
    (work / "text.txt").write_text("one\ntwo\nthree\n")
    (work / "tool.sh").write_text("#!/bin/sh\n")
    (work / "tool.sh").chmod(0o755)
    (work / "secret").write_text("key")
    (work / "secret").chmod(0o600)
    (work / "empty").write_bytes(b"")
    (work / "binary").write_bytes(bytes(range(256)) * 40)
    (work / "link").symlink_to("text.txt")
    (work / "dangling").symlink_to("nowhere")
    (work / "deep" / "er").mkdir(parents=True)
    (work / "deep" / "er" / "file").write_text("deep")
    (work / "hollow").mkdir()


NAMES = ["text.txt", "tool.sh", "secret", "empty", "binary", "link", "dangling", "deep/er/file", "new/one", "new/two"]


def upset(work: Path) -> None:
    """Changes all of it."""
    (work / "text.txt").write_text("one\n2\nthree\nfour\n")
    (work / "tool.sh").chmod(0o644)
    (work / "secret").chmod(0o644)
    (work / "secret").write_text("other")
    (work / "empty").write_text("full")
    (work / "binary").write_bytes(bytes(range(255, -1, -1)))
    (work / "link").unlink()
    (work / "link").write_text("a file now")
    (work / "dangling").unlink()
    (work / "dangling").symlink_to("elsewhere")
    (work / "deep" / "er" / "file").unlink()
    (work / "deep" / "er").rmdir()
    (work / "deep").rmdir()
    (work / "new").mkdir()
    (work / "new" / "one").write_text("new")


@pytest.mark.checklist("B25", "B30")
def test_files_come_back_exactly(checkpoints, work, say):
    """Rewind correctness: content, mode, links as links, empty and binary files, absence, folders above."""
    furnish(work)
    before = picture(work)
    message = say()
    checkpoints.capture(message, NAMES)
    upset(work)
    after = picture(work)
    assert after != before
    done = checkpoints.rewind(message)
    assert (done.can_rewind, done.error) == (True, None)
    assert picture(work) == before
    assert set(done.files_changed) == {*NAMES} - {"new/two"}
    assert checkpoints.undo().can_rewind
    assert picture(work) == after


@pytest.mark.checklist("B28")
def test_a_dry_run_tells_and_touches_nothing(checkpoints, work, say, store):
    """Rewind dry-run: the same figures as the real one, and neither a file nor the store is changed."""
    furnish(work)
    message = say()
    checkpoints.capture(message, NAMES)
    upset(work)
    before, stamps = picture(work), {path: path.lstat().st_ctime_ns for path in work.rglob("*")}
    version = Parts.of(store).engine.read(lambda tx: [(row.ref, row.version) for row in tx.refs_after(0, 100)])
    told = checkpoints.rewind(message, dry_run=True)
    assert picture(work) == before
    assert {path: path.lstat().st_ctime_ns for path in work.rglob("*")} == stamps
    assert Parts.of(store).engine.read(lambda tx: [(row.ref, row.version) for row in tx.refs_after(0, 100)]) == version
    done = checkpoints.rewind(message)
    assert told.dry_run
    assert msgspec.structs.replace(told, dry_run=False) == msgspec.structs.replace(done, undo=None)
    assert (told.insertions, told.deletions) == (5, 7)


@pytest.mark.checklist("B25")
def test_files_created_since_are_deleted(checkpoints, work, say):
    """New file handling: a file that was not there goes, with the folders that were not there; others stay."""
    message = say()
    checkpoints.capture(message, ["a/b/c.txt", "top.txt"])
    (work / "a" / "b").mkdir(parents=True)
    (work / "a" / "b" / "c.txt").write_text("c")
    (work / "top.txt").write_text("t")
    assert checkpoints.rewind(message).files_changed == ("a/b/c.txt", "top.txt")
    assert list(work.iterdir()) == []
    checkpoints.undo()
    (work / "a" / "mine.txt").write_text("not known to any checkpoint")
    done = checkpoints.rewind(message)
    assert (done.can_rewind, done.kept) == (True, ("a",))
    assert picture(work).keys() == {"a", "a/mine.txt"}


@pytest.mark.checklist("B29")
def test_the_state_at_a_message_comes_from_all_checkpoints_after_it(checkpoints, work, say):
    """Going back to N restores what was first changed at N+1 or later as well, each to its earliest state."""
    messages = []
    for name in ("a", "b", "c"):
        (work / name).write_text(f"{name} original")
    for number, names in enumerate([["a"], ["a", "b"], ["b", "c"]]):
        messages.append(say())
        checkpoints.capture(messages[-1], names)
        for name in names:
            (work / name).write_text(f"{name} after {number}")
    checkpoints.rewind(messages[1])
    assert [(work / name).read_text() for name in "abc"] == ["a after 0", "b original", "c original"]
    checkpoints.rewind(messages[0])
    assert [(work / name).read_text() for name in "abc"] == ["a original", "b original", "c original"]


def test_a_message_without_changes_has_the_state_of_the_next(checkpoints, work, say):
    """For a message without a checkpoint, the next checkpoint has the state of its files."""
    (work / "a").write_text("original")
    quiet, busy = say(), say()
    checkpoints.capture(busy, ["a"])
    (work / "a").write_text("changed")
    assert checkpoints.rewind(quiet).can_rewind
    assert (work / "a").read_text() == "original"


@pytest.mark.checklist("B26")
def test_without_a_checkpoint_the_result_says_so(checkpoints, work, say):
    """A missing checkpoint is a result, not an exception: by an unknown id, a handle, or a message after all others."""
    (work / "a").write_text("x")
    checkpoints.capture(say(), ["a"])
    for id in (say(), "0198f000-0000-7000-8000-00000000000a", "zzzzzz"):
        done = checkpoints.rewind(id)
        assert (done.can_rewind, done.error, done.files_changed) == (False, "checkpoint not found", ())


@pytest.mark.checklist("B25")
def test_the_wire_names_are_those_of_the_sdk(checkpoints, work, say):
    """As JSON a result has canRewind, and error, filesChanged, insertions and deletions where they say something."""
    (work / "a").write_text("one\n")
    message = say()
    checkpoints.capture(message, ["a"])
    (work / "a").write_text("one\ntwo\n")
    wire = msgspec.to_builtins(checkpoints.rewind(message, dry_run=True))
    assert {key: wire[key] for key in ("canRewind", "filesChanged", "deletions")} == {
        "canRewind": True, "filesChanged": ("a",), "deletions": 1,
    }  # fmt: skip
    assert "error" not in wire
    assert "insertions" not in wire
    assert msgspec.to_builtins(checkpoints.rewind(say()))["canRewind"] is False


@pytest.mark.checklist("B25")
def test_what_is_as_it_was_is_not_listed(checkpoints, work, say):
    """A file that was captured and not changed is neither listed nor written."""
    (work / "same").write_text("x")
    (work / "other").write_text("x")
    message = say()
    checkpoints.capture(message, ["same", "other"])
    (work / "other").write_text("y")
    number = (work / "same").stat().st_ino
    assert checkpoints.rewind(message).files_changed == ("other",)
    assert (work / "same").stat().st_ino == number


@pytest.mark.checklist("B24", "B27")
@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_missing_content_stops_everything(checkpoints, work, say, store, session, how):
    """Every content is read before any change: if one is missing or damaged, no file is touched."""
    for name in ("a", "b"):
        (work / name).write_text(f"{name} original")
    message = say()
    checkpoints.capture(message, ["a", "b"])
    for name in ("a", "b"):
        (work / name).write_text("changed")
    state = checkpoints.show(message).states["b"]
    row = session.blobs._row(state.blob)

    def spoil(tx):
        if how == "damaged":
            tx.maintenance.set_bodies("chunks", [(b"\x01spoiled", row.blob << 24)])
        else:
            tx.blobs.delete_uses(-(1 << 40), -1)

    Parts.of(store).engine.write(spoil)
    before = picture(work)
    for dry_run in (True, False):
        done = checkpoints.rewind(message, dry_run=dry_run)
        assert done.can_rewind is False
        assert "checkpoint of " in (done.error or "")
    assert picture(work) == before


def test_files_that_someone_else_changed_need_force(checkpoints, work, say):
    """A change after `settle` is someone else's: it is reported, kept, and overwritten only with `force`."""
    for name in ("agent", "mine"):
        (work / name).write_text("original\n")
    message = say()
    with checkpoints.guard(message, ["agent", "mine"]):
        (work / "agent").write_text("by the agent\n")
        (work / "mine").write_text("by the agent\n")
    (work / "mine").write_text("by me\n")
    refused = checkpoints.rewind(message)
    assert (refused.can_rewind, refused.conflicts) == (False, ("mine",))
    assert "someone else" in (refused.error or "")
    assert (work / "agent").read_text() == "by the agent\n"
    assert checkpoints.rewind(message, force=True).can_rewind
    assert (work / "mine").read_text() == "original\n"
    checkpoints.undo()
    assert (work / "mine").read_text() == "by me\n"
    assert checkpoints.rewind(message, dry_run=True).can_rewind, "the undo was asked for: nobody else has changed it"


def test_a_change_between_two_messages_is_someone_elses(checkpoints, work, say):
    """A file left one way and found another way at the next message was changed in between."""
    (work / "a").write_text("original")
    first, second = say(), say()
    with checkpoints.guard(first, ["a"]):
        (work / "a").write_text("agent")
    (work / "a").write_text("me")
    with checkpoints.guard(second, ["a"]):
        (work / "a").write_text("agent again")
    assert checkpoints.rewind(second, dry_run=True).conflicts == ()
    assert checkpoints.rewind(first, dry_run=True).conflicts == ("a",)


def test_a_folder_in_the_way_is_never_emptied(checkpoints, work, say):
    """A folder with unknown content in place of a file is refused, even with `force`."""
    (work / "a").write_text("original")
    (work / "b").write_text("original")
    message = say()
    checkpoints.capture(message, ["a", "b"])
    (work / "a").unlink()
    (work / "a").mkdir()
    (work / "a" / "mine").write_text("x")
    (work / "b").write_text("changed")
    done = checkpoints.rewind(message, force=True)
    assert (done.can_rewind, "the folder contains files" in (done.error or "")) == (False, True)
    assert (work / "b").read_text() == "changed"
    (work / "a" / "mine").unlink()
    assert checkpoints.rewind(message).can_rewind
    assert (work / "a").read_text() == "original"


def test_a_file_where_a_folder_was_is_in_the_way(checkpoints, work, say):
    """A file that no checkpoint knows has the name of a folder that is needed: refused, nothing is changed."""
    (work / "a").mkdir()
    (work / "a" / "file").write_text("original")
    message = say()
    checkpoints.capture(message, ["a/file"])
    (work / "a" / "file").unlink()
    (work / "a").rmdir()
    (work / "a").write_text("a file")
    done = checkpoints.rewind(message)
    assert (done.can_rewind, "is not a folder" in (done.error or "")) == (False, True)
    assert (work / "a").read_text() == "a file"


def test_conversation_and_files_together(checkpoints, work, say, session):
    """Mode "both" puts the conversation back to the message too; undo brings the rest of it back."""
    (work / "a").write_text("original")
    first = say("first")
    checkpoints.capture(first, ["a"])
    (work / "a").write_text("changed")
    session.append([clew.assistant("done"), clew.user("second"), clew.assistant("done")])
    texts = [node.text for node in session.path()]
    done = checkpoints.rewind(first, mode="both")
    assert (done.can_rewind, done.files_changed) == (True, ("a",))
    assert [node.text for node in session.path()] == ["first"]
    assert len(session.branches()) == 1
    session.append(clew.assistant("another way"))
    assert checkpoints.undo().can_rewind
    assert [node.text for node in session.path()] == texts
    assert (work / "a").read_text() == "changed"
    assert [[node.text for node in session.fork(at=one.head_id).path()] for one in session.branches()] == [
        ["first", "another way"]
    ]


def test_the_conversation_alone(checkpoints, work, say, session):
    """Mode "conversation" leaves the files; a message that is not in the conversation is refused."""
    (work / "a").write_text("original")
    first = say("first")
    checkpoints.capture(first, ["a"])
    (work / "a").write_text("changed")
    say("second")
    assert checkpoints.rewind(first, mode="conversation", dry_run=True).can_rewind
    assert len(session.path()) == 2
    assert checkpoints.rewind(first, mode="conversation").can_rewind
    assert len(session.path()) == 1
    assert (work / "a").read_text() == "changed"
    checkpoints.undo()
    assert len(session.path()) == 2
    for mode in ("conversation", "both"):
        refused = checkpoints.rewind("0198f000-0000-7000-8000-00000000000a", mode=mode)
        assert (refused.can_rewind, refused.error) == (False, "the message is not in the conversation")


@pytest.mark.checklist("B30")
def test_the_files_alone_leave_the_conversation(checkpoints, work, say, session):
    """Mode "files", the default, changes no message."""
    (work / "a").write_text("original")
    first = say()
    checkpoints.capture(first, ["a"])
    (work / "a").write_text("changed")
    say()
    checkpoints.rewind(first)
    assert len(session.path()) == 2
    assert session.branches() == []


@pytest.mark.parametrize("mode", ["files", "both"])
def test_a_rewind_asked_for_twice_is_undone_once(checkpoints, work, say, mode):
    """A repeated rewind changes nothing, and `undo` still undoes the first."""
    message = say("change it")
    with checkpoints.guard(message, ["a.txt"]):
        (work / "a.txt").write_text("changed")
    say("and on")
    assert checkpoints.rewind(message, mode=mode).undo is not None
    again = checkpoints.rewind(message, mode=mode)
    assert (again.can_rewind, again.files_changed, again.undo) == (True, (), None)
    assert not (work / "a.txt").exists()
    assert checkpoints.undo().files_changed == ("a.txt",)
    assert (work / "a.txt").read_text() == "changed"


def test_undo_without_a_rewind(checkpoints):
    """There is nothing to undo, and that is a result."""
    assert checkpoints.undo().error == "there is no rewind to undo"


def test_a_fork_goes_back_to_before_it_was_forked(store, session, work, say):
    """A fork has the checkpoints of what it shares with its source, and its own; not what its source did later."""
    (work / "a").write_text("original")
    first = say()
    Checkpoints(session, work).capture(first, ["a"])
    (work / "a").write_text("one")
    fork = session.fork()
    later = say()
    Checkpoints(session, work).capture(later, ["b"])
    mine = fork.append(clew.user("other way")).id
    Checkpoints(fork, work).capture(mine, ["a"])
    (work / "a").write_text("two")
    checkpoints = Checkpoints(fork, work)
    assert [one.message for one in checkpoints.list()] == [first, mine]
    checkpoints.rewind(mine)
    assert (work / "a").read_text() == "one"
    checkpoints.rewind(first)
    assert (work / "a").read_text() == "original"


@pytest.mark.parametrize("way", ["trash", "purge"])
def test_a_fork_whose_source_is_gone(store, session, work, say, way):
    """Checkpoints go with their session: its fork does not go back to a shared message without them, unless forced."""
    (work / "a").write_text("0")
    first = say("one")
    with Checkpoints(session, work).guard(first, ["a"]):
        (work / "a").write_text("1")
    answer = session.append(clew.assistant("Done")).id
    fork = session.fork()
    mine = fork.append(clew.user("two")).id
    checkpoints = Checkpoints(fork.fork(), work)
    with Checkpoints(fork, work).guard(mine, ["a"]):
        (work / "a").write_text("2")
    assert checkpoints.rewind(first, dry_run=True).can_rewind
    session.trash() if way == "trash" else store.sessions.purge(session.id)
    for one in (Checkpoints(fork, work), checkpoints):
        refused = one.rewind(first)
        assert (refused.can_rewind, session.id in (refused.error or "")) == (False, True)
        assert one.rewind(answer, dry_run=True).files_changed == ("a",)
    assert (work / "a").read_text() == "2"
    assert Checkpoints(fork, work).rewind(first, force=True, dry_run=True).can_rewind
    assert Checkpoints(fork, work).rewind(mine).can_rewind
    assert (work / "a").read_text() == "1"
    if way == "trash":
        store.sessions.restore(session.id)
        assert Checkpoints(fork, work).rewind(first, force=True).can_rewind
        assert (work / "a").read_text() == "0"


def test_a_checkpoint_by_handle(checkpoints, work, session):
    """A message is named by its handle as well, or given as a node."""
    (work / "a").write_text("original")
    node = session.append(clew.user("go"))
    checkpoints.capture(node, ["a"])
    (work / "a").write_text("changed")
    assert checkpoints.show(node.handle) == checkpoints.show(node)
    assert checkpoints.rewind(node.handle).can_rewind


def test_a_diff_shows_what_would_change(checkpoints, work, say):
    """Each file that would change, with what it is and what it was."""
    (work / "a").write_text("one\n")
    message = say()
    checkpoints.capture(message, ["a", "b"])
    (work / "a").write_text("two\n")
    (work / "b").write_text("new\n")
    found = {one.path: (one.before, one.after) for one in checkpoints.diff(message)}
    assert found == {"a": (b"two\n", b"one\n"), "b": (b"new\n", None)}
    with pytest.raises(NotFound):
        checkpoints.diff(say())


def test_in_memory(work):
    """A store that is never written to disk has checkpoints too."""
    with clew.open(":memory:") as store:
        session = store.sessions.create()
        message = session.append(clew.user("go")).id
        (work / "a").write_text("original")
        checkpoints = Checkpoints(session, work)
        checkpoints.capture_tree(message)
        (work / "a").write_text("changed")
        assert checkpoints.rewind(message).can_rewind
        assert (work / "a").read_text() == "original"


def test_a_sealed_store_has_nothing_readable(tmp_path, work):
    """Names, contents and targets are sealed with the store: none of them is in its files."""
    path = tmp_path / "sealed.db"
    (work / "canary-name.txt").write_text("canary-content")
    (work / "link").symlink_to("canary-target")
    with clew.open(path, key=bytes(range(32))) as store:
        session = store.sessions.create()
        message = session.append(clew.user("go")).id
        checkpoints = Checkpoints(session, work)
        checkpoints.capture(message, ["canary-name.txt", "link"])
        checkpoints.capture_tree(message)
        (work / "canary-name.txt").write_text("canary-other")
        checkpoints.rewind(message)
        assert store.verify().ok
        for file in tmp_path.glob("sealed.db*"):
            assert b"canary" not in file.read_bytes(), file
    assert (work / "canary-name.txt").read_text() == "canary-content"


@pytest.mark.checklist("B28")
def test_lines_are_counted_as_git_counts_them(tmp_path):
    """Insertions and deletions are those of a minimal diff, for any two texts."""
    chance, git = random.Random(5), need("git")
    old, new = tmp_path / "old", tmp_path / "new"
    for _ in range(25):
        texts = [
            b"".join(chance.choice([b"a\n", b"b\n", b"c\n", b"\n", b"d"]) for _ in range(chance.randint(0, 14)))
            for _ in range(2)
        ]
        old.write_bytes(texts[0])
        new.write_bytes(texts[1])
        command = [git, "diff", "--no-index", "--minimal", "--numstat", str(old), str(new)]
        said = subprocess.run(command, capture_output=True, text=True).stdout.split()
        assert count(*texts) == (tuple(map(int, said[:2])) if said else (0, 0)), texts
    assert count(b"a\0b", b"c") == (0, 0)
    long = b"".join(b"%d\n" % number for number in range(MOST + 1))
    assert count(long, long.replace(b"\n", b"x\n")) == (MOST + 1, MOST + 1)
    assert count(long, long + b"last\n") == (1, 0)


def test_what_a_rewind_wrote_is_read_by_the_next_version():
    """The forms that manifests have in the store are fixed: known bytes decode, and encode the same."""
    from clew.checkpoints.filestate import read, write

    known = (
        b'\x02{"message":"m","root":"/r","files":[{"path":"a","state":{"kind":"file","mode":420,"size":1,'
        b'"digest":"d","blob":"b"},"after":{"kind":"missing"}},{"path":"\\u0000\xc3\xbf","state":{"kind":"skipped",'
        b'"why":"w","stamp":[1,2,3,4]}}],"also":["n"],"to":"t","heads":{"before":"x","after":null}}'
    )
    value = Manifest(
        "m", "/r",
        (
            PathEntry("a", FileState("file", 0o644, 1, "d", "b"), MISSING),
            PathEntry("\0\xff", FileState("skipped", why="w", stamp=(1, 2, 3, 4))),
        ),
        ("n",), "t", HeadChange("x", None),
    )  # fmt: skip
    assert write(value) == known
    assert read(known, Manifest, "a checkpoint") == value
    for bad in (b"", b"\x03{}", b"\x02{", b'\x02{"message":1}'):
        with pytest.raises(clew.Corrupted):
            read(bad, Manifest, "a checkpoint")


def test_a_folder_that_cannot_be_written_is_told_before(lent):
    """A rewind that would fail halfway is refused at the start."""
    if os.geteuid() != 0:
        pytest.skip("needs a folder of someone else")
    work, checkpoints, message = lent
    (work / "closed").mkdir()
    (work / "closed" / "a").write_text("original")
    checkpoints.capture(message, ["closed/a"])
    (work / "closed" / "a").write_text("changed")
    with as_nobody():
        done = checkpoints.rewind(message)
    assert (done.can_rewind, "is not writable" in (done.error or "")) == (False, True)


@pytest.mark.parametrize("tree", [True, False])
def test_folders_that_are_closed_are_opened_for_a_moment(lent, tree):
    """Of one's own a read-only folder keeps nothing from going back, and from being undone; its mode is exact then."""
    work, checkpoints, message = lent
    for name in ("open", "shut/deep", "gone"):
        (work / name).mkdir(parents=True)
        (work / name / "a").write_text("one")
    close(work, "shut/deep")
    before = picture(work)
    with as_nobody():
        if tree:
            checkpoints.capture_tree(message)
        else:
            checkpoints.capture(message, ["open/a", "shut/deep/a", "shut/deep/new", "gone/a"])
    for name in ("open/a", "shut/deep/a", "shut/deep/new"):
        (work / name).write_text("two")
    (work / "gone" / "a").unlink()
    (work / "new" / "in").mkdir(parents=True)
    (work / "new" / "in" / "n").write_text("new")
    close(work, "shut/deep", "shut", "open", "gone", "new/in", "new")
    after = picture(work)
    with as_nobody():
        assert checkpoints.rewind(message).can_rewind
        done = picture(work)
        if tree:
            assert done == before
        else:
            assert {path: one for path, one in done.items() if one[0] == "dir"} == {
                path: one for path, one in after.items() if one[0] == "dir"
            }
            assert {path: one for path, one in done.items() if one[0] == "file" and path != "new/in/n"} == {
                path: one for path, one in before.items() if one[0] == "file"
            }
        assert checkpoints.undo().can_rewind
        assert picture(work) == after


@pytest.mark.parametrize("then", ["finish", "undo"])
def test_an_opened_folder_is_closed_whatever_happens(lent, monkeypatch, then):
    """If a rewind is interrupted while a folder is opened, finishing or undoing it closes the folder."""
    work, checkpoints, message = lent
    (work / "shut").mkdir()
    (work / "shut" / "a").write_text("one")
    (work / "shut" / "b").write_text("one")
    close(work)
    swap, broken, seen = RootFolder.swap, [True], list[str]()

    def refuse(self, path, *rest):
        seen.append(path)
        if path == "shut/b" or (broken[0] and "shut/b" in seen):
            raise OSError(errno.EIO, "broken")
        return swap(self, path, *rest)

    with as_nobody():
        checkpoints.capture(message, ["shut/a", "shut/b"])
        (work / "shut" / "a").write_text("two")
        (work / "shut" / "b").write_text("two")
        (work / "shut").chmod(0o555)
        after = picture(work)
        monkeypatch.setattr(RootFolder, "swap", refuse)
        with pytest.raises(clew.ClewError):
            checkpoints.rewind(message)
        assert picture(work) != after
        broken[0] = False
        if then == "undo":
            assert checkpoints.undo().can_rewind
            assert picture(work) == after
        else:
            monkeypatch.undo()
            assert checkpoints.finish() is not None
            assert picture(work)["shut"] == ("dir", 0o555)
            assert (work / "shut" / "b").read_text() == "one"


def close(work: Path, *names: str) -> None:
    """Makes everything nobody's, and some folders read-only."""
    for path in work.rglob("*"):
        if os.geteuid() == 0:
            os.chown(path, 65534, -1)
    for name in names:
        (work / name).chmod(0o555)


@pytest.mark.parametrize("what", ["large", "pipe"])
def test_what_cannot_be_kept_stays_and_does_not_stop_the_rest(session, work, say, what):
    """Something too large, or no file, came since: it could not be brought back, so it is never removed. It is named,
    and by force everything else goes back.
    """
    checkpoints = Checkpoints(session, work, max_file=1000)
    (work / "a").write_text("one")
    message = say()
    checkpoints.capture_tree(message)
    (work / "a").write_text("two")
    (work / "new").mkdir()
    (work / "new" / "b").write_text("b")
    if what == "large":
        (work / "new" / "x").write_bytes(b"x" * 2000)
    else:
        os.mkfifo(work / "new" / "x")
    refused = checkpoints.rewind(message)
    assert (refused.can_rewind, refused.skipped, refused.files_changed) == (False, ("new/x",), ("a", "new/b"))
    assert (work / "a").read_text() == "two"
    done = checkpoints.rewind(message, force=True)
    assert (done.can_rewind, done.skipped, done.kept) == (True, ("new/x",), ("new",))
    assert (work / "a").read_text() == "one"
    assert [path.name for path in (work / "new").iterdir()] == ["x"]
    assert checkpoints.undo(force=True).can_rewind
    assert (work / "new" / "b").read_text() == "b"


def test_a_rewind_that_can_never_be_finished(checkpoints, work, say, monkeypatch):
    """Nor taken back, for a while: captures go on, and an undo takes back what was done of it. Nobody is stuck."""
    for name in ("a", "b"):
        (work / name).write_text("one")
    message = say()
    checkpoints.capture(message, ["a", "b"])
    for name in ("a", "b"):
        (work / name).write_text("two")
    swap, broken, seen = RootFolder.swap, [True], list[str]()

    def refuse(self, path, *rest):
        seen.append(path)
        if path == "b" or (broken[0] and "b" in seen):
            raise PermissionError(errno.EPERM, "not permitted")
        return swap(self, path, *rest)

    monkeypatch.setattr(RootFolder, "swap", refuse)
    for _ in range(2):
        with pytest.raises(ReadOnly):
            checkpoints.rewind(message)
    assert ((work / "a").read_text(), (work / "b").read_text()) == ("one", "two")
    after = say()
    assert checkpoints.capture(after, ["b", "c"]) is not None
    assert checkpoints.capture_tree(after) is not None
    broken[0] = False
    assert checkpoints.undo().can_rewind
    assert ((work / "a").read_text(), (work / "b").read_text()) == ("two", "two")
    assert checkpoints.finish() is None
    monkeypatch.undo()
    assert checkpoints.rewind(message).can_rewind
    assert (work / "b").read_text() == "one"


def test_a_root_that_was_removed_or_exchanged(checkpoints, work, say, tmp_path):
    """A rewind refuses to follow a link; once the folder is restored, everything is."""
    (work / "deep").mkdir()
    (work / "deep" / "a").write_text("one")
    message = say()
    checkpoints.capture_tree(message)
    before = picture(work)
    work.rename(tmp_path / "other")
    work.symlink_to(tmp_path / "other")
    (tmp_path / "other" / "deep" / "a").write_text("two")
    for call in (checkpoints.rewind, checkpoints.capture_tree):
        with pytest.raises(Unavailable, match="work"):
            call(message)
    assert (tmp_path / "other" / "deep" / "a").read_text() == "two"
    work.unlink()
    with pytest.raises(Unavailable, match="No such file"):
        checkpoints.rewind(message)
    work.mkdir()
    assert checkpoints.rewind(message).can_rewind
    assert picture(work) == before


def test_several_processes_rewind_at_once(store, session, work, say, path):
    """Rewinds to different messages side by side: each is whole, and the tree is one of the states."""
    states, messages = [], []
    for number in range(3):
        messages.append(say())
        checkpoints = Checkpoints(session, work)
        checkpoints.capture(messages[-1], [f"f{one}" for one in range(30)])
        states.append(picture(work))
        for one in range(30):
            (work / f"f{one}").write_text(f"{number} {one}")
    states.append(picture(work))
    code = (
        "import sys, clew\n"
        "from clew.checkpoints import Checkpoints\n"
        "store = clew.open(sys.argv[1])\n"
        "checkpoints = Checkpoints(store.sessions.get(sys.argv[2]), sys.argv[3])\n"
        "for _ in range(4):\n"
        "    done = checkpoints.rewind(sys.argv[4], force=True)\n"
        "    assert done.can_rewind and not done.left, done\n"
        "    print(done.undo or '')\n"
    )
    command = [sys.executable, "-c", code, str(path), session.id, str(work)]
    pipe = subprocess.PIPE
    running = [subprocess.Popen([*command, one], stdout=pipe, stderr=pipe, text=True) for one in messages]
    told = [one.communicate(timeout=60) for one in running]
    assert [errors for _, errors in told] == [""] * 3
    assert picture(work) in states[:3]
    points = [one.message for one in Checkpoints(session, work).list() if one.rewound_to is not None]
    assert len(points) >= 3
    assert sorted(points) == sorted("".join(done for done, _ in told).split())  # those that had something to do
    store.verify()


def test_a_session_that_is_trashed_during_a_rewind(store, session, checkpoints, repository, work, say, monkeypatch):
    """The record of a finished rewind is removed also if the session is in the trash by then: nothing is redone."""
    message = say()
    checkpoints.capture(message, ["a"])
    (work / "a").write_text("changed")

    def trash(*args):
        done = apply(*args)
        session.trash()
        return done

    monkeypatch.setattr(rewind, "apply", trash)
    assert checkpoints.rewind(message).removed == ("a",)
    store.sessions.restore(session.id)
    assert repository.read(repository.journal) is None


def test_contents_of_a_deleted_session_are_not_stored(store, session, repository, say):
    """A capture that continues after its session was deleted stores nothing, even if a fork has the same messages."""
    say()
    session.fork()
    keep = ContentWriter(repository)
    keep(b"a file")
    session.trash()
    with pytest.raises(clew.NotFound):
        keep.flush()
    store.sessions.purge(session.id)
    keep(b"a file")
    with pytest.raises(clew.NotFound):
        keep.flush()
