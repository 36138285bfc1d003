"""P21: a rewind removes only what it knows was not there; a dry run says what a run does; nothing is left halfway."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pytest

import clew
from clew.checkpoints import Checkpoints
from clew.checkpoints import tree_scan as tree
from clew.checkpoints.root import RootFolder
from clew.checkpoints.tree_index import TreeIndex, pack, unpack
from clew.errors import Invalid, ReadOnly
from tests.checkpoints.conftest import picture
from tests.checkpoints.test_capture import as_nobody
from tests.checkpoints.test_rewind import sh


def both(checkpoints: Checkpoints, message: str, *, force: bool = False) -> clew.checkpoints.Rewound:
    """Rewinds after a dry run, and checks that it did the same."""
    told = checkpoints.rewind(message, dry_run=True, force=force)
    done = checkpoints.rewind(message, force=force)
    assert msgspec.structs.replace(told, dry_run=False) == msgspec.structs.replace(done, undo=None)
    return done


@pytest.mark.parametrize("rules", ["", None, "other\n"])
def test_what_rules_left_out_stays_when_they_change(checkpoints, work, say, rules):
    """A file and a folder that `.gitignore` left out at the capture are not taken for new: they stay, and are named."""
    sh(work, "printf '.env\\nbuild/\\n' > .gitignore; echo secret > .env; mkdir -p build/deep; echo x > build/deep/out")
    message = say()
    before = picture(work)
    with checkpoints.guard(message):
        (work / ".gitignore").unlink() if rules is None else (work / ".gitignore").write_text(rules)
        (work / "new").write_text("new")
    done = both(checkpoints, message)
    assert (done.can_rewind, done.files_changed, done.removed) == (True, (".gitignore", "new"), ("new",))
    assert done.unseen == (".env", "build")
    assert picture(work) == before
    assert checkpoints.undo().can_rewind
    assert (work / "build" / "deep" / "out").exists()


def test_what_comes_while_it_is_left_out_stays(checkpoints, work, say, monkeypatch):
    """An ignored folder that came between two captures, of which no file tells, was there at the second: it stays."""
    monkeypatch.setattr(tree, "RACY", -60_000_000_000)
    sh(work, "echo build/ > .gitignore; echo a > a")
    checkpoints.capture_tree(say())
    sh(work, "mkdir build; echo x > build/out")
    message = say()
    with checkpoints.guard(message):
        sh(work, "rm .gitignore")
    done = both(checkpoints, message)
    assert (done.unseen, (work / "build" / "out").read_text()) == (("build",), "x\n")


def test_a_closed_folder_that_is_opened_stays(lent):
    """A folder that could not be read at the capture is not taken for new when it can be: it stays, and is named."""
    work, checkpoints, message = lent
    for name in ("private/deep", "open"):
        (work / name).mkdir(parents=True)
        (work / name / "old").write_text("old")
    own(work)
    (work / "private").chmod(0)
    before = picture(work)
    with as_nobody(), checkpoints.guard(message):
        (work / "private").chmod(0o755)
        (work / "open" / "new").write_text("new")
    opened = picture(work)
    with as_nobody():
        done = both(checkpoints, message)
        assert (done.can_rewind, done.removed, done.unseen) == (True, ("open/new",), ("private",))
    assert (work / "private" / "deep" / "old").read_text() == "old"
    assert picture(work).keys() == opened.keys() - {"open/new"}
    assert before.keys() <= picture(work).keys()


def test_a_folder_that_is_closed_gets_its_mode_back(lent):
    """A folder closed since can be neither read nor compared: its mode comes back, and an undo closes it again."""
    work, checkpoints, message = lent
    (work / "private").mkdir()
    (work / "private" / "old").write_text("old")
    own(work)
    before = picture(work)
    with as_nobody():
        with checkpoints.guard(message):
            (work / "private").chmod(0)
        after = picture(work)
        done = both(checkpoints, message)
        assert (done.can_rewind, done.unseen) == (True, ("private", "private/old"))
        assert picture(work) == before
        assert checkpoints.undo().can_rewind
        assert picture(work) == after


def test_what_changed_behind_a_closed_folder_is_not_guessed(lent, lent_session):
    """What came into a folder before it was closed was there at the capture that could not read it: it stays."""
    work, checkpoints, message = lent
    (work / "private").mkdir()
    (work / "private" / "old").write_text("old")
    own(work)
    with as_nobody():
        checkpoints.capture_tree(message)
        (work / "private" / "mine").write_text("mine")
        (work / "private").chmod(0)
        second = lent_session.append(clew.user("go")).id
        with checkpoints.guard(second):
            (work / "private").chmod(0o755)
        done = both(checkpoints, second)
        assert done.unseen == ("private",)
        assert (work / "private" / "mine").read_text() == "mine"
        (work / "private" / "old").write_text("changed")
        assert both(checkpoints, message, force=True).unseen == ("private",)
        assert (work / "private" / "old").read_text() == "old"
        assert (work / "private" / "mine").read_text() == "mine"


def own(work: Path) -> None:
    """Makes everything nobody's."""
    for path in work.rglob("*"):
        if os.geteuid() == 0:
            os.chown(path, 65534, -1)


def test_what_was_unseen_goes_back_to_where_it_was_first_seen(checkpoints, work, say):
    """A file that was ignored, captured later and then removed is restored; a rewind never removes it."""
    sh(work, "printf '.env\\nlog\\n' > .gitignore; echo secret > .env")
    first, second = say(), say()
    with checkpoints.guard(first):
        sh(work, "rm .gitignore")
    with checkpoints.guard(second):
        sh(work, "rm .env; echo log > log")
    done = both(checkpoints, first)
    assert (work / ".env").read_text() == "secret\n"
    assert (done.removed, done.unseen) == (("log",), ())


def test_what_comes_into_what_was_unseen_stays(checkpoints, work, say):
    """A folder was left out, then seen without a file that came later: whether that was there first is not known."""
    sh(work, "echo build/ > .gitignore; mkdir build; echo old > build/old")
    first, second = say(), say()
    with checkpoints.guard(first):
        sh(work, "rm .gitignore")
    with checkpoints.guard(second):
        sh(work, "echo new > build/new; echo changed > build/old")
    done = both(checkpoints, first)
    assert (done.removed, done.unseen) == ((), ("build", "build/new"))
    assert [(work / "build" / name).read_text() for name in ("old", "new")] == ["old\n", "new\n"]
    assert checkpoints.undo().can_rewind
    assert both(checkpoints, second).removed == ("build/new",)


def test_a_capture_by_name_sees_what_a_tree_does_not(checkpoints, work, say):
    """A file that rules leave out and that is named is kept as it is then."""
    sh(work, "echo .env > .gitignore; echo secret > .env")
    message = say()
    with checkpoints.guard(message):
        sh(work, "rm .gitignore")
    with checkpoints.guard(message, [".env", "new"]):
        sh(work, "echo changed > .env; echo new > new")
    done = both(checkpoints, message)
    assert ((work / ".env").read_text(), done.removed, done.unseen) == ("secret\n", ("new",), ())


def test_a_folder_that_was_removed_and_brought_back(checkpoints, work, say):
    """A rewind made a folder again: a later one does not take that for a folder that was not there."""
    (work / "out").mkdir()
    (work / "out" / "e").write_text("e")
    (work / "z").write_text("z")
    first, second = say(), say()
    before = picture(work)
    with checkpoints.guard(first, ["out/e"]):
        sh(work, "rm -r out")
    assert both(checkpoints, first).can_rewind
    with checkpoints.guard(second, ["out/e", "z"]):
        sh(work, "rm out/e; echo changed > z")
    after = picture(work)
    assert both(checkpoints, first).can_rewind
    assert picture(work) == before
    again = checkpoints.rewind(first)
    assert (again.files_changed, again.undo) == ((), None)
    assert checkpoints.undo().can_rewind
    assert picture(work) == after


def test_folders_that_come_and_go_are_no_conflict(checkpoints, work, say):
    """Changes of an agent to parent folders of its files are its own."""
    messages = [say() for _ in range(4)]
    with checkpoints.guard(messages[0], ["a/b"]):
        sh(work, "mkdir a; echo 0 > a/b")
    with checkpoints.guard(messages[1], ["a/b"]):
        sh(work, "rm -r a")
    with checkpoints.guard(messages[2], ["a/b"]):
        sh(work, "mkdir a; echo 2 > a/b; chmod 700 a")
    assert both(checkpoints, messages[0]).can_rewind
    assert picture(work) == {}


def test_a_capture_of_nothing_is_no_conflict_later(checkpoints, work, say):
    """Files and folders that were missing when a message's work was noted, and are made for the same message."""
    message = say()
    with checkpoints.guard(message, ["g/h/i"]):
        pass
    with checkpoints.guard(message):
        pass
    with checkpoints.guard(message, ["g/h/i"]):
        sh(work, "mkdir -p g/h; echo i > g/h/i")
    done = both(checkpoints, message)
    assert (done.conflicts, done.removed, picture(work)) == ((), ("g/h/i",), {})


def test_a_folder_captured_again_after_it_went(checkpoints, work, say):
    """A path in a folder was captured, then the folder went: it is no missing folder for the same message."""
    (work / "a").mkdir()
    (work / "a" / "b").write_text("b")
    before, message = picture(work), say()
    with checkpoints.guard(message, ["a/b"]):
        sh(work, "rm -r a")
    with checkpoints.guard(message, ["a/c"]):
        sh(work, "mkdir a; echo c > a/c")
    assert both(checkpoints, message).can_rewind
    assert picture(work) == before


def test_a_folder_that_is_not_empty_is_told_before(checkpoints, work, say):
    """A dry run names what no checkpoint knows, and the folder that stays for it; asked again, nothing is done."""
    message = say()
    with checkpoints.guard(message, ["a/b/c"]):
        sh(work, "mkdir -p a/b; echo c > a/b/c")
    sh(work, "echo mine > a/mine")
    done = both(checkpoints, message)
    assert (done.removed, done.kept, done.unseen) == (("a/b/c",), ("a",), ("a/mine",))
    assert checkpoints.rewind(message).undo is None
    assert checkpoints.undo().can_rewind
    assert (work / "a" / "b" / "c").exists()


@pytest.mark.parametrize("name", [".git/config", "sub/.git/hooks/x", ".GIT/x", ".clew/x", "link"])
def test_what_belongs_to_git_is_not_captured(checkpoints, work, say, name):
    """Nothing inside `.git` or `.clew` is captured, also through links: a rewind could not restore it."""
    (work / ".git").mkdir()
    (work / ".git" / "config").write_text("x")
    (work / "link").symlink_to(".git/config")
    with pytest.raises(Invalid, match="managed by git"):
        checkpoints.capture(say(), [name])
    assert checkpoints.list() == []


def test_the_store_itself_is_not_captured(tmp_path, work):
    """Nor are the files of the store, if they are below the root."""
    with clew.open(work / "s.db") as store:
        session = store.sessions.create(cwd=work)
        message = session.append(clew.user("go")).id
        checkpoints = Checkpoints(session, work)
        for name in ("s.db", "s.db-wal", "s.db-lock"):
            with pytest.raises(Invalid, match="the store itself"):
                checkpoints.capture(message, [name])


@pytest.mark.parametrize("tree", [True, False])
def test_a_rewind_that_fails_leaves_everything_as_it_was(checkpoints, work, say, session, monkeypatch, tree):
    """Some files were put back when one could not be: they are as before again, the conversation too, and nothing
    waits to be finished.
    """
    sh(work, "mkdir d gone; for name in a b d/x gone/y; do echo one > $name; done; ln -s a link")
    message = say()
    names = ["a", "b", "d/x", "gone/y", "link", "new/deep/n"]
    checkpoints.capture_tree(message) if tree else checkpoints.capture(message, names)
    sh(work, "echo two > a; echo two > b; rm -r gone d; echo file > d; rm link; mkdir -p new/deep; echo n > new/deep/n")
    say("and on")
    after, swap = picture(work), RootFolder.swap
    if not tree:
        (work / "d").unlink()
        after = picture(work)

    def refuse(self, path, *rest):
        if path == "gone/y":
            raise PermissionError(errno.EPERM, "not permitted")
        return swap(self, path, *rest)

    monkeypatch.setattr(RootFolder, "swap", refuse)
    with pytest.raises(ReadOnly):
        checkpoints.rewind(message, mode="both")
    monkeypatch.undo()
    assert picture(work) == after
    assert len(session.refresh().path()) == 2
    assert session.branches() == []
    assert checkpoints.finish() is None
    assert checkpoints.undo().error == "there is no rewind to undo"
    assert both(checkpoints, message).can_rewind
    assert (work / "gone" / "y").read_text() == "one\n"
    assert checkpoints.undo().can_rewind
    assert picture(work) == after


def test_undo_goes_further_back(checkpoints, work, say):
    """Each undo undoes one more rewind, `steps` several at once; to redo one, rewind again."""
    texts, messages = ["zero"], []
    (work / "a").write_text("zero")
    for text in ("one", "two", "three"):
        messages.append(say())
        with checkpoints.guard(messages[-1], ["a"]):
            (work / "a").write_text(text)
        texts.append(text)
    for number in (2, 1, 0):
        assert checkpoints.rewind(messages[number]).can_rewind
    seen: list[str] = []
    while len(seen) < 4 and checkpoints.undo(dry_run=True).can_rewind:
        assert checkpoints.undo().can_rewind
        seen.append((work / "a").read_text())
    assert seen == ["one", "two", "three"]
    assert checkpoints.undo().error == "there is no rewind to undo"
    for number in (2, 1, 0):
        assert checkpoints.rewind(messages[number]).can_rewind
    assert "3 left" in (checkpoints.undo(steps=4).error or "")
    assert checkpoints.undo(steps=2).files_changed == ("a",)
    assert (work / "a").read_text() == "two"
    undone = checkpoints.undo()
    assert (work / "a").read_text() == "three"
    assert checkpoints.rewind(undone.undo).can_rewind, "the state before an undo can be gone back to"
    assert (work / "a").read_text() == "two"
    for bad in (0, -1, "1"):
        with pytest.raises(Invalid):
            checkpoints.undo(steps=bad)


def test_undo_of_several_steps_leaves_what_came_between(checkpoints, work, say):
    """A change between two rewinds is not theirs: undoing needs `force`, at once or one by one."""
    (work / "a").write_text("one")
    (work / "b").write_text("one")
    message = say()
    with checkpoints.guard(message, ["a", "b"]):
        (work / "a").write_text("two")
        (work / "b").write_text("two")
    checkpoints.rewind(message)
    (work / "a").write_text("mine")
    checkpoints.rewind(message, force=True)
    assert checkpoints.undo(steps=2, dry_run=True).conflicts == ("a",)
    assert checkpoints.undo(steps=1).can_rewind
    assert checkpoints.undo(dry_run=True).conflicts == ("a",)
    assert checkpoints.undo(force=True).can_rewind
    assert [(work / name).read_text() for name in "ab"] == ["two", "two"]


def test_undo_of_several_steps_leaves_a_folder_that_someone_changed(checkpoints, work, say):
    """The first rewind set the mode of a folder, the last only passed through it: a mode set since then is kept."""
    (work / "d").mkdir(0o700)
    first, second = say(), say()
    with checkpoints.guard(first):
        (work / "d").chmod(0o750)
    assert checkpoints.rewind(first).can_rewind
    (work / "d").chmod(0o711)
    with checkpoints.guard(second, ["d/a"]):
        (work / "d" / "a").write_text("a")
    assert checkpoints.rewind(second).can_rewind
    undone = checkpoints.undo(steps=2)
    assert (undone.can_rewind, undone.conflicts) == (False, ("d",))
    assert picture(work) == {"d": ("dir", 0o711)}


def test_an_old_index_is_read_safely(checkpoints, repository, work, say, monkeypatch):
    """An index of the first form does not tell which folders could not be read: what it does not have was unseen."""
    (work / "a").write_text("a")
    message = say()
    monkeypatch.setattr(tree, "TreeIndex", lambda version=1, *rest: TreeIndex(1, *rest))
    checkpoints.capture_tree(message)
    monkeypatch.undo()
    seat = repository.read(repository.worktree)
    assert unpack(pack(repository.index(seat))).version == 1
    (work / "private").mkdir()
    (work / "private" / "old").write_text("old")
    done = both(checkpoints, message)
    assert (done.unseen, done.removed) == (("private",), ())
    (work / "new").write_text("new")
    second = say()
    with checkpoints.guard(second):
        (work / "newer").write_text("new")
    assert both(checkpoints, second).removed == ("newer",)


def test_what_comes_into_a_folder_that_is_left_out_later_stays_out(checkpoints, work, say, monkeypatch):
    """A folder that was seen is left out by new rules: what comes into it is left out by every later look."""
    monkeypatch.setattr(tree, "RACY", -60_000_000_000)
    sh(work, "mkdir build; echo old > build/old")
    with checkpoints.guard(say()):
        sh(work, "echo build/ > .gitignore")
    message = say()
    with checkpoints.guard(message):
        sh(work, "echo secret > build/secret; echo changed > build/old")
    assert "build/secret" not in checkpoints.show(message).states
    assert both(checkpoints, message).removed == ()
    assert [(work / "build" / name).read_text() for name in ("old", "secret")] == ["old\n", "secret\n"]


def test_what_was_made_in_a_folder_closed_since_is_no_conflict(lent, lent_session):
    """A path came into a folder, or with it, before the folder was closed: nobody else is said to have made it."""
    work, checkpoints, first = lent
    with as_nobody():
        (work / "d").mkdir()
        (work / "d" / "a").write_text("a")
        with checkpoints.guard(first):
            (work / "d" / "a").unlink()
        with checkpoints.guard(lent_session.append(clew.user("go")).id):
            (work / "d" / "a").mkdir()
            (work / "d").chmod(0)
        assert both(checkpoints, first).unseen == ("d", "d/a")
        assert both(checkpoints, first).conflicts == ()
        assert (work / "d" / "a").read_text() == "a"


def test_a_closed_folder_that_is_new_is_no_conflict(lent, lent_session):
    """A folder that is made again and closed, all for one message, is that message's doing."""
    work, checkpoints, first = lent
    with as_nobody():
        (work / "d").mkdir()
        with checkpoints.guard(first):
            (work / "d").rmdir()
        with checkpoints.guard(lent_session.append(clew.user("go")).id):
            (work / "d").mkdir()
            (work / "d").chmod(0)
        done = both(checkpoints, first)
        assert (done.can_rewind, done.conflicts) == (True, ())


def test_a_file_in_the_place_of_a_folder_is_someone_elses(checkpoints, work, say):
    """Two rewinds went through a folder; a file that has its name since is not overwritten by an undo of both."""
    (work / "d").symlink_to("nowhere")
    first, second = say(), say()
    with checkpoints.guard(first):
        sh(work, "rm d; mkdir d; echo x > d/x")
    with checkpoints.guard(second):
        sh(work, "mkdir d/y; rm d/x")
    third = say()
    with checkpoints.guard(third):
        sh(work, "rm -r d; ln -s elsewhere d")
    assert checkpoints.rewind(third).can_rewind
    assert checkpoints.rewind(second).can_rewind
    sh(work, "rm -r d; echo mine > d")
    assert checkpoints.undo(steps=2).conflicts == ("d",)
    assert (work / "d").read_text() == "mine\n"


def test_a_file_found_in_the_place_of_a_folder_is_someone_elses(checkpoints, work, say):
    """A capture by name passed through a folder; a file that the next capture found there is not overwritten."""
    (work / "d").mkdir()
    (work / "d" / "a").write_text("a")
    first, second = say(), say()
    with checkpoints.guard(first, ["d/a"]):
        (work / "d" / "a").write_text("b")
    sh(work, "rm -r d; echo mine > d")
    with checkpoints.guard(second):
        (work / "d").write_text("changed")
    assert "d" in checkpoints.rewind(first).conflicts
    assert (work / "d").read_text() == "changed"
    assert checkpoints.rewind(second).can_rewind
    assert (work / "d").read_text() == "mine\n"


def test_an_undo_of_two_takes_back_what_came_into_a_closed_folder(lent):
    """One rewind opened a folder, the next created a file in it: undoing both removes the file."""
    work, checkpoints, message = lent
    with as_nobody():
        (work / "d").mkdir()
        (work / "d" / "a").write_text("a")
        with checkpoints.guard(message):
            (work / "d" / "a").unlink()
            (work / "d").chmod(0)
        assert both(checkpoints, message).can_rewind
        assert both(checkpoints, message).files_changed == ("d/a",)
        assert checkpoints.undo(steps=2).removed == ("d/a",)
        (work / "d").chmod(0o755)
        assert picture(work).keys() == {"d"}


@pytest.mark.parametrize("closed", [True, False])
def test_what_was_hidden_and_removed_is_not_known_to_have_been_missing(lent, lent_session, closed):
    """A folder was hidden at the checkpoint, then removed, then made again: it stays, and is named."""
    work, checkpoints, first = lent
    with as_nobody():
        (work / "d").mkdir()
        (work / "d").chmod(0) if closed else (work / ".gitignore").write_text("d\n")
        with checkpoints.guard(first):
            (work / "d").rmdir()
            (work / ".gitignore").unlink(missing_ok=True)
        with checkpoints.guard(lent_session.append(clew.user("go")).id):
            (work / "d").mkdir()
            (work / "d" / "new").write_text("new")
        done = both(checkpoints, first)
        assert (done.removed, done.unseen) == ((), ("d", "d/new"))
        assert (work / "d" / "new").read_text() == "new"


@pytest.mark.parametrize("closed", [True, False])
def test_what_was_hidden_in_a_folder_that_was_removed_is_not_known_to_have_been_missing(lent, lent_session, closed):
    """A folder went with a hidden one in it. A file that is made there later stays, and is reported."""
    work, checkpoints, first = lent
    with as_nobody():
        (work / "d" / "e").mkdir(parents=True)
        (work / "d" / "a").write_text("a")
        (work / "d" / "e").chmod(0) if closed else (work / ".gitignore").write_text("e/\n")
        with checkpoints.guard(first):
            (work / "d" / "e").chmod(0o755)
            sh(work, "rm -r d")
        with checkpoints.guard(lent_session.append(clew.user("go")).id, ["d/e/new"]):
            (work / "d" / "e").mkdir(parents=True)
            (work / "d" / "e" / "new").write_text("new")
        done = both(checkpoints, first)
        assert (done.files_changed, done.removed, done.unseen) == (("d/a",), (), ("d/e", "d/e/new"))
        assert (work / "d" / "e" / "new").read_text() == "new"


def test_what_went_with_its_folder_out_of_sight_is_not_someone_elses(checkpoints, work, say):
    """An agent's own file is ignored, and then goes with its folder, which was captured: that is no conflict."""
    (work / "d").mkdir()
    (work / "d" / "e").symlink_to("nowhere")
    first, second = say(), say()
    with checkpoints.guard(first):
        sh(work, "rm d/e; mkdir d/e; echo e > .gitignore")
    with checkpoints.guard(second):
        sh(work, "rm -r d; ln -s nowhere d")
    assert both(checkpoints, first).can_rewind
    assert picture(work).keys() == {"d", "d/e"}
    assert (work / "d" / "e").is_symlink()


@pytest.mark.parametrize("closed", [True, False])
def test_what_was_made_in_a_folder_after_it_came_into_sight_stays(lent, lent_session, closed):
    """A folder was hidden at the checkpoint, and seen after the command. What another message made there stays."""
    work, checkpoints, first = lent
    with as_nobody():
        (work / "d").mkdir()
        (work / "d").chmod(0) if closed else (work / ".gitignore").write_text("d\n")
        with checkpoints.guard(first):
            (work / "d").chmod(0o755)
            (work / ".gitignore").unlink(missing_ok=True)
        second = lent_session.append(clew.user("go")).id
        with checkpoints.guard(second, ["d/new"]):
            (work / "d" / "new").write_text("new")
        done = both(checkpoints, first)
        assert (done.removed, done.unseen) == ((), ("d", "d/new"))
        assert (work / "d" / "new").read_text() == "new"
        assert "d/new" in both(checkpoints, second).removed


def test_a_file_that_is_made_in_an_ignored_folder_goes_only_with_its_own_message(checkpoints, work, say):
    """A walk did not look there, so a rewind to it leaves the file; the capture that named it did look."""
    (work / "d").mkdir()
    (work / ".gitignore").write_text("d/\n")
    first, second = say(), say()
    with checkpoints.guard(first):
        (work / "x").write_text("x")
    with checkpoints.guard(second, ["d/new"]):
        (work / "d" / "new").write_text("new")
    done = both(checkpoints, first)
    assert (done.removed, done.unseen) == (("x",), ("d/new",))
    assert both(checkpoints, second).removed == ("d/new",)


def test_what_a_rewind_has_put_out_of_sight_stays(lent, lent_session):
    """A file was removed while its folder was hidden. A rewind brings it back; the next, to a walk that did not see
    the folder, does not remove it.
    """
    work, checkpoints, first = lent
    second = lent_session.append(clew.user("go")).id
    with as_nobody():
        (work / "d" / "e").mkdir(parents=True)
        (work / "d" / "e" / "b").write_text("b")
        with checkpoints.guard(first):
            (work / "d").chmod(0)
            (work / ".gitignore").write_text("d/\n")
        with checkpoints.guard(second):
            (work / "d").chmod(0o755)
            sh(work, "rm -r d/e")
        assert both(checkpoints, first).files_changed == (".gitignore", "d/e/b")
        done = both(checkpoints, second)
        assert (done.files_changed, done.removed) == ((".gitignore",), ())
        assert {"d/e", "d/e/b"} <= {*done.unseen}
        assert (work / "d" / "e" / "b").read_text() == "b"


def test_an_undo_of_two_does_not_drop_what_came_between_them(checkpoints, work, say):
    """The first rewind made a folder of a link, the second removed a new file in it: undo cannot bring back both."""
    (work / "d").mkdir()
    first, second = say(), say()
    with checkpoints.guard(first):
        sh(work, "rmdir d; ln -s nowhere d")
    assert checkpoints.rewind(first).can_rewind
    with checkpoints.guard(second):
        (work / "d" / "x").write_text("x")
    assert checkpoints.rewind(second).removed == ("d/x",)
    undone = checkpoints.undo(steps=2)
    assert (undone.can_rewind, undone.conflicts) == (False, ("d/x",))
    assert checkpoints.undo().files_changed == ("d/x",)
    assert not checkpoints.undo(dry_run=True).can_rewind, "one by one it is the same"


@pytest.mark.checklist("B25")
@pytest.mark.parametrize("rules", [None, "*.log\n"])
def test_what_was_made_and_ignored_for_one_message_is_named(checkpoints, work, say, rules):
    """New paths that a `.gitignore` of the same turn ignores stay and are reported; those ignored before are not."""
    sh(work, "mkdir -p sub/old out; echo 1 > sub/old/a; echo 1 > out/b; echo out/ > sub/.gitignore")
    if rules is not None:
        (work / ".gitignore").write_text(rules)
    (work / "sub" / "out").mkdir()
    message = say()
    with checkpoints.guard(message):
        sh(
            work,
            "printf '*.log\\n*.csv\\nbuild/\\nsub/old/\\n' > .gitignore; echo 1 > other.csv; echo 1 > sub/old/deep.csv",
        )
        sh(work, "mkdir -p build sub/out; echo 1 > build/x; echo 1 > a.log; echo 1 > sub/out/x.csv; echo 1 > new")
    done = both(checkpoints, message)
    assert (done.can_rewind, done.files_changed) == (True, (".gitignore", "new"))
    assert done.unseen == (*(() if rules else ("a.log",)), "build", "other.csv", "sub/old/deep.csv")
    assert [(work / name).exists() for name in ("build/x", "other.csv", "sub/old/deep.csv", "a.log")] == [True] * 4
