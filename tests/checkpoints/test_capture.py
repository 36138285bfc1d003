"""Checkpoints are taken before a change, of exactly what is there, and of nothing outside the root."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import clew
from clew.checkpoints import Checkpoints
from clew.checkpoints.filestate import pack, pack_path, unpack, unpack_path
from clew.errors import Invalid, NotFound, Unavailable
from clew.store.session import delete_session
from tests.checkpoints.conftest import picture


@pytest.mark.checklist("B21")
def test_a_checkpoint_has_what_was_there_before_the_tool_ran(checkpoints, work, say):
    """Checkpoint creation: files are kept as they are before a tool changes them, under the user message."""
    (work / "a.txt").write_text("before")
    message = say()
    made = checkpoints.capture(message, ["a.txt", "b.txt"])
    (work / "a.txt").write_text("after")
    assert made.message == message
    assert {path: state.kind for path, state in made.states.items()} == {"a.txt": "file", "b.txt": "missing"}
    assert checkpoints.show(message) == made
    assert checkpoints.content(made.states["a.txt"]) == b"before"
    wire = made.manifest()
    assert wire["user_message_uuid"] == message
    assert [(one["path"], one["exists"], one.get("size")) for one in wire["files"]] == [
        ("a.txt", True, 6), ("b.txt", False, None),
    ]  # fmt: skip


@pytest.mark.checklist("B22")
def test_the_first_state_of_a_path_is_the_one_that_counts(checkpoints, work, say):
    """A second change under the same message does not overwrite the original; under the next message it is kept."""
    file = work / "a.txt"
    file.write_text("one")
    first = say()
    checkpoints.capture(first, [file])
    file.write_text("two")
    checkpoints.capture(first, [file, "b.txt"])
    second = say()
    checkpoints.capture(second, ["a.txt"])
    file.write_text("three")
    assert checkpoints.show(first).states["a.txt"].size == 3
    assert len(checkpoints.show(first).files) == 2
    checkpoints.rewind(second)
    assert file.read_text() == "two"
    checkpoints.rewind(first)
    assert file.read_text() == "one"


def test_a_late_capture_does_not_replace_what_a_later_message_has(checkpoints, work, say):
    """A subagent that still works for an old message must not make its own change pass for the original."""
    (work / "a.txt").write_text("original")
    old, new = say(), say()
    checkpoints.capture(old, ["other.txt"])
    checkpoints.capture(new, ["a.txt"])
    (work / "a.txt").write_text("changed")
    checkpoints.capture(old, ["a.txt"])
    checkpoints.rewind(old)
    assert (work / "a.txt").read_text() == "original"


@pytest.mark.checklist("B23")
def test_only_no_such_file_means_missing(checkpoints, work, say):
    """A file that cannot be read, a folder, and a file in the way are errors, never "missing"; nothing is kept."""
    (work / "file").write_text("x")
    (work / "folder").mkdir()
    message = say()
    for path, error in [("folder", Invalid), ("file/below", Unavailable)]:
        with pytest.raises(error):
            checkpoints.capture(message, ["file", path])
    assert checkpoints.list() == []


@pytest.mark.checklist("B23")
def test_what_may_not_be_read_is_an_error():
    """Permission denied is an error, for a file and for a parent folder; a rewind must never delete such a file."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        work = Path(made) / "work"
        (work / "closed").mkdir(parents=True)
        (work / "closed" / "file").write_text("x")
        (work / "secret").write_text("x")
        for path in (work / "secret", work / "closed"):
            path.chmod(0)
        for path in (Path(made), work):
            path.chmod(0o777)
        with clew.open(":memory:") as store:
            session = store.sessions.create()
            checkpoints, message = Checkpoints(session, work), session.append(clew.user("go"))
            checkpoints.capture(message, ["none"])
            with as_nobody():
                for name in ("secret", "closed/file", "closed/none"):
                    with pytest.raises(Unavailable, match="Permission denied"):
                        checkpoints.capture(message, [name])
                checkpoints.capture(message, ["new"])
            assert set(checkpoints.show(message).states) == {"none", "new"}
        (work / "closed").chmod(0o700)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of root, for whom no file is closed."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.checklist("B31")
def test_nothing_outside_the_root_is_taken(checkpoints, work, say, tmp_path):
    """Paths that lead out are refused: absolute ones, dots, links in the way, links at the end, no names."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("secret")
    (work / "out").symlink_to(tmp_path / "outside")
    (work / "link").symlink_to(tmp_path / "outside" / "file")
    message = say()
    paths = ["../outside/file", str(tmp_path / "outside" / "file"), "out/file", "out/new", "link", "a\0b", "", ".", "/"]
    for path in [*paths, "out/../../x", work, b"bytes", "a\ud800"]:
        with pytest.raises(Invalid):
            checkpoints.capture(message, [path])
    assert checkpoints.list() == []


def test_a_link_inside_is_kept_with_what_it_leads_to(checkpoints, work, say):
    """Writing to a link changes its target: a rewind restores both, the link as a link."""
    (work / "real").mkdir()
    (work / "real" / "file").write_text("one")
    (work / "link").symlink_to("real/file")
    (work / "folder").symlink_to("real")
    before = picture(work)
    message = say()
    checkpoints.capture(message, ["link", "folder/new"])
    (work / "link").write_text("two")
    (work / "folder" / "new").write_text("new")
    (work / "link").unlink()
    (work / "link").write_text("not a link any more")
    assert set(checkpoints.show(message).states) == {"link", "real/file", "real/new"}
    assert checkpoints.rewind(message).can_rewind
    assert picture(work) == before


def test_a_file_beyond_the_limit_is_skipped_by_name(session, work, say):
    """A skipped file is reported. A rewind that needs its content is refused; with `force` it restores the rest."""
    checkpoints = Checkpoints(session, work, max_file=10)
    (work / "large").write_text("x" * 11)
    (work / "small").write_text("x" * 10)
    message = say()
    made = checkpoints.capture(message, ["large", "small"])
    assert made is not None
    assert list(made.skipped) == ["large"]
    assert "10 bytes" in made.skipped["large"]
    (work / "small").write_text("y")
    assert checkpoints.rewind(message, dry_run=True).can_rewind, "the large one is as it was"
    (work / "large").write_text("z" * 11)
    refused = checkpoints.rewind(message)
    assert (refused.can_rewind, refused.skipped) == (False, ("large",))
    assert (work / "small").read_text() == "y"
    assert checkpoints.rewind(message, force=True).can_rewind
    assert (work / "small").read_text() == "x" * 10
    assert (work / "large").read_text() == "z" * 11


def test_a_pipe_is_skipped_and_not_waited_for(checkpoints, work, say):
    """A path that is neither a file nor a link is skipped."""
    os.mkfifo(work / "pipe")
    assert "neither" in checkpoints.capture(say(), ["pipe"]).skipped["pipe"]


@pytest.mark.checklist("B21")
def test_disabled_means_nothing_is_kept(session, store, work, say):
    """With checkpoints off, capturing does nothing, and a rewind says that there is no checkpoint."""
    checkpoints = Checkpoints(session, work, enabled=False)
    (work / "a.txt").write_text("one")
    message = say()
    refs = store.verify().counts["refs"]
    assert checkpoints.capture(message, ["a.txt"]) is None
    assert checkpoints.capture_tree(message) is None
    checkpoints.settle(message)
    assert checkpoints.list() == []
    assert checkpoints.rewind(message).error == "checkpoint not found"
    assert store.verify().counts["refs"] == refs


@pytest.mark.checklist("B24")
def test_contents_are_kept_once_and_compressed(store, session, work, say, path):
    """The same content under many names and messages is one blob; text takes less room than it has."""
    text = "the same line\n" * 20_000
    for number in range(20):
        (work / f"{number}.txt").write_text(text)
        Checkpoints(session, work).capture(say(), [f"{number}.txt"])
    assert store.verify().counts["blobs"] == 1
    assert os.path.getsize(path) + os.path.getsize(f"{path}-wal") < 2_000_000


@pytest.mark.checklist("B32")
def test_checkpoints_go_with_their_session(store, session, work, say, sound):
    """Deleting a session deletes its checkpoints and their contents completely."""
    (work / "a.txt").write_text("one")
    checkpoints = Checkpoints(session, work)
    checkpoints.capture(say(), ["a.txt"])
    checkpoints.capture_tree(say())
    delete_session(session)
    counts = store.verify().counts
    assert (counts["refs"], counts["blobs"], counts["uses"]) == (1, 0, 0)  # what was purged
    sound(store)
    with pytest.raises(NotFound):
        checkpoints.list()


def test_purged_checkpoints_leave_no_trace(store, session, work, say, path):
    """Names and contents of files go with a purge, from every byte of the store."""
    (work / "canary-name").write_text("canary-content")
    (work / "link").symlink_to("canary-target")
    checkpoints = Checkpoints(session, work)
    checkpoints.capture(say(), ["canary-name", "link"])
    checkpoints.capture_tree(say())
    (work / "canary-name").write_text("canary-other")
    checkpoints.rewind(checkpoints.list()[0].message)
    files = sorted(path.parent.glob("chats.db*"))
    assert any(b"canary-content" in file.read_bytes() for file in files)
    store.sessions.purge(session.id)
    assert [file.name for file in files if b"canary" in file.read_bytes()] == []


def test_a_session_in_the_trash_brings_its_checkpoints_back(store, session, work, say):
    """Checkpoints go to the trash with the session, and are restored with it."""
    (work / "a.txt").write_text("one")
    message = say()
    Checkpoints(session, work).capture(message, ["a.txt"])
    session.trash()
    back = store.sessions.restore(session.id)
    (work / "a.txt").write_text("two")
    assert Checkpoints(back, work).rewind(message).can_rewind
    assert (work / "a.txt").read_text() == "one"


def test_two_roots_do_not_mix(session, work, say):
    """Checkpoints of one session in two folders are two histories."""
    for name in ("one", "two"):
        (work / name).mkdir()
        (work / name / "file").write_text(name)
    message = say()
    Checkpoints(session, work / "one").capture(message, ["file"])
    assert Checkpoints(session, work / "two").list() == []
    (work / "one" / "file").write_text("x")
    Checkpoints(session, work / "one").rewind(message)
    assert (work / "one" / "file").read_text() == "one"


def test_the_store_itself_is_left_out(session, store, say, tmp_path, work):
    """A store below the root is never captured, by name or with the tree."""
    checkpoints = Checkpoints(session, tmp_path)
    message = say()
    with pytest.raises(Invalid, match="the store itself"):
        checkpoints.capture(message, ["chats.db-wal"])
    (work / "a.txt").write_text("x")
    checkpoints.capture_tree(message)
    (work / "a.txt").write_text("y")
    assert checkpoints.rewind(message).files_changed == ("work/a.txt",)


def test_many_threads_capture_at_once(store, session, work, say):
    """Several workers capture under one message: nothing is lost, and each path is kept once."""
    for number in range(40):
        (work / f"{number}").write_text(f"content {number}")
    message, errors = say(), []

    def run(part: int) -> None:
        try:
            Checkpoints(store.sessions.get(session.id), work).capture(
                message, [str(n) for n in range(part, 40, 4)] + ["0"]
            )
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(Checkpoints(session, work).show(message).files) == 40


def test_names_that_are_not_utf8(checkpoints, work, say):
    """Any file name and any link target is restored."""
    name = os.fsdecode(b"caf\xe9.txt")
    (work / name).write_text("one")
    (work / "link").symlink_to(os.fsdecode(b"nowhere-\xff"))
    before = picture(work)
    message = say()
    checkpoints.capture_tree(message)
    checkpoints.capture_tree(message)
    (work / name).unlink()
    (work / "link").unlink()
    done = checkpoints.rewind(message)
    assert (done.can_rewind, done.files_changed) == (True, ("caf\\xe9.txt", "link"))
    assert picture(work) == before
    for path in (name, "plain", "ä", "\udcff"):
        assert unpack_path(pack_path(path)) == path


@pytest.mark.checklist("B24")
def test_a_content_is_what_its_hash_says():
    """A blob that is not the content a checkpoint names is not taken for it."""
    from clew.checkpoints.filestate import FileState, sha256_hex

    for data in (b"", b"x", b"text " * 1000, os.urandom(1000)):
        state = FileState("file", size=len(data), digest=sha256_hex(data))
        payload = pack(data)
        assert unpack(payload, state) == data
        for other in (b"", b"\x09" + payload[1:], payload[:1] + b"other" + payload[1:]):
            assert unpack(other, state) is None


@pytest.mark.checklist("B31")
def test_bad_arguments_are_told(session, work, checkpoints, say):
    """A missing root, a string for a list, an invalid id and an invalid mode are refused."""
    with pytest.raises(Invalid):
        Checkpoints(session, work / "none")
    with pytest.raises(Invalid):
        Checkpoints("session", work)  # type: ignore[arg-type]
    with pytest.raises(Invalid):
        Checkpoints(session, work, max_file=-1)
    with pytest.raises(Invalid):
        checkpoints.capture(say(), "a.txt")
    for id in ("../../etc/passwd", "x", ""):
        with pytest.raises((Invalid, NotFound)):
            checkpoints.capture(id, ["a.txt"])
    with pytest.raises(Invalid):
        checkpoints.rewind(say(), mode="all")
    with pytest.raises(NotFound):
        checkpoints.show(say())
