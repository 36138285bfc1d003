"""A captured tree can undo shell commands, and unchanged files are not read again."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import clew
from clew.checkpoints import Checkpoints, tree_scan
from clew.checkpoints.filestate import pack_path
from clew.checkpoints.gitignore import IgnoreRules
from clew.checkpoints.repository import CheckpointRepo
from clew.checkpoints.tree_index import TreeIndex, pack, unpack
from clew.errors import Corrupted, Invalid
from tests.checkpoints.conftest import picture
from tests.checkpoints.test_rewind import furnish, sh, upset
from tests.reliability.tools import need


def index_of(repository: CheckpointRepo) -> TreeIndex:
    """The index that is stored."""
    seat = repository.read(repository.worktree)
    assert seat is not None
    return repository.index(seat)


COMMANDS = {
    "a script that changes everything": None,
    "everything removed": "rm -rf * .[a-z]*",
    "a folder moved": "mv deep elsewhere",
    "a folder moved behind a link": "mv deep real; ln -s real deep",
    "a file becomes a folder": "rm text.txt; mkdir -p text.txt/a; echo x > text.txt/a/b",
    "a folder becomes a file": "rm -r deep; echo x > deep",
    "a folder becomes a link": "rm -r deep; ln -s hollow deep",
    "modes alone": "chmod 600 text.txt; chmod 700 deep; chmod +x empty",
    "empty folders": "rmdir hollow; mkdir -p other/hollow",
    "the same size": "touch -r text.txt s; printf 'ONE\\ntwo\\nthree\\n' > text.txt; touch -r s text.txt; rm s",
    "new rules": "echo '*.txt' > .gitignore; echo changed > text.txt",
    "in place": "sed -i s/two/2/ text.txt; mv tool.sh tool; ln -sf tool link",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_shell_command_did_is_undone(command, checkpoints, work, say):
    """A rewind undoes all changes to files, links, folders and modes, and an undo restores them."""
    furnish(work)
    before = picture(work)
    message = say()
    checkpoints.capture_tree(message)
    script = COMMANDS[command]
    upset(work) if script is None else sh(work, script)
    after = picture(work)
    assert after != before
    told = checkpoints.rewind(message, dry_run=True)
    assert picture(work) == after
    done = checkpoints.rewind(message)
    assert (done.can_rewind, done.error) == (True, None)
    assert done.files_changed == told.files_changed
    assert picture(work) == before
    assert checkpoints.undo().can_rewind
    assert picture(work) == after


def test_each_message_has_its_own_state(checkpoints, work, say):
    """After several commands, a rewind to any of the messages works, in any order."""
    pictures, messages = [], []
    furnish(work)
    for number in range(4):
        messages.append(say())
        checkpoints.capture_tree(messages[-1])
        pictures.append(picture(work))
        sh(
            work,
            f"echo {number} >> text.txt; echo {number} > new-{number}; rm -f new-{number - 2}; chmod 64{number} empty",
        )
        checkpoints.capture_tree(messages[-1])
        sh(work, f"echo again >> new-{number}")
    for number in (2, 0, 3, 1, 0):
        assert checkpoints.rewind(messages[number]).can_rewind
        assert picture(work) == pictures[number], number


def test_commands_and_edits_of_one_message(checkpoints, work, say):
    """An edit after a command in the same message: what the command had changed does not pass for the original."""
    (work / "a").write_text("original")
    message = say()
    checkpoints.capture_tree(message)
    (work / "a").write_text("by a command")
    checkpoints.capture(message, ["a"])
    (work / "a").write_text("by an edit")
    checkpoints.rewind(message)
    assert (work / "a").read_text() == "original"


def test_an_undo_leaves_what_came_after_the_rewind(checkpoints, work, say):
    """An undo does not touch changes made after the rewind in a captured tree."""
    (work / "a").write_text("original")
    (work / "b").write_text("original")
    message = say()
    checkpoints.capture_tree(message)
    (work / "a").write_text("changed")
    checkpoints.rewind(message)
    (work / "b").write_text("later")
    assert checkpoints.undo(dry_run=True).files_changed == ("a",)
    checkpoints.capture_tree(say())
    (work / "c").write_text("later")
    assert checkpoints.undo().files_changed == ("a",)
    assert [(work / name).read_text() for name in "abc"] == ["changed", "later", "later"]


def test_any_history_can_be_gone_back_through(session, work, say):
    """Random edits, commands, captures, rewinds and undos: each rewind brings back what was there."""
    chance = random.Random(11)
    checkpoints = Checkpoints(session, work)
    names = [f"{folder}{name}" for folder in ("", "x/", "x/y/") for name in "abc"]
    states = {}

    def scribble() -> None:
        for name in chance.sample(names, 3):
            path = work / name
            if chance.random() < 0.3 and path.exists():
                path.unlink()
                if chance.random() < 0.5 and path.parent != work and not any(path.parent.iterdir()):
                    path.parent.rmdir()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(str(chance.random()))
                path.chmod(chance.choice([0o644, 0o600, 0o755]))

    for _ in range(25):
        message = say()
        checkpoints.capture_tree(message)
        states[message] = picture(work)
        for _ in range(chance.randint(0, 2)):
            scribble()
        if chance.random() < 0.3:
            target = chance.choice([*states])
            before = picture(work)
            assert checkpoints.rewind(target).can_rewind
            assert picture(work) == states[target]
            if chance.random() < 0.5:
                checkpoints.undo()
                assert picture(work) == before


def test_ignored_files_are_left_alone(checkpoints, work, say):
    """Ignored files are neither captured nor restored nor deleted; all others are."""
    (work / "src").mkdir()
    (work / ".gitignore").write_text("*.log\nbuild/\n")
    (work / "src" / ".gitignore").write_text("*\n!keep\n!.gitignore\n!*.log\n")
    message = say()
    checkpoints.capture_tree(message)
    sh(work, "mkdir build; for name in a.log build/out src/other src/keep src/a.log plain; do echo x > $name; done")
    assert checkpoints.rewind(message).files_changed == ("plain", "src/a.log", "src/keep")
    assert {str(path.relative_to(work)) for path in work.rglob("*") if path.is_file()} == {
        ".gitignore", "src/.gitignore", "a.log", "build/out", "src/other",
    }  # fmt: skip


def test_what_is_known_stays_known_when_rules_change(checkpoints, work, say):
    """A captured file is restored even if it is ignored now, as git keeps tracking such a file."""
    (work / "build").mkdir()
    (work / "build" / "a").write_text("original")
    message = say()
    checkpoints.capture_tree(message)
    sh(work, "echo build/ > .gitignore; echo changed > build/a; echo new > build/b")
    checkpoints.capture_tree(message)
    sh(work, "echo again > build/a")
    assert checkpoints.rewind(message).files_changed == (".gitignore", "build/a")
    assert (work / "build" / "a").read_text() == "original"
    assert (work / "build" / "b").exists()


def test_rules_that_are_taken_away(checkpoints, work, say):
    """An ignored file is captured as soon as the rules include it."""
    sh(work, "echo '*.log' > .gitignore; echo one > a.log")
    first = say()
    checkpoints.capture_tree(first)
    sh(work, "rm .gitignore")
    second = say()
    checkpoints.capture_tree(second)
    sh(work, "echo two > a.log")
    checkpoints.rewind(second)
    assert (work / "a.log").read_text() == "one\n"


@pytest.mark.parametrize(
    "rules",
    [
        "*.log\n!keep.log\n", "/top\n", "a/\n", "a/*\n!a/b/\n", "**/c\n", "a/**/d\n", "a/**\n", "\\!odd\n", "#no\n",
        "a/b\n!a/b/d\n", "*\n!*/\n!*.txt\n", "[ab]x?\n", "x\\ \n", "  \n", "a/b/*.txt\n", "!a\n*.txt\n", "d\n!/d\n",
        "*.txt\n!a/\n", "a/*\n!a/b/\na/b/*\n!a/b/d\n", "*/\n", "e/\n!a/e/\n",
    ],
)  # fmt: skip
def test_rules_are_read_as_git_reads_them(rules, work):
    """For every file the library and git agree on whether it is left out."""
    git = need("git")
    names = ["top", "a/top", "keep.log", "x.log", "a/b/c", "a/b/d", "a/d", "a/e/d", "c", "d", "!odd", "#no", "ax1",
             "x ", "a/b/n.txt", "n.txt", "a/keep.log"]  # fmt: skip
    for name in names:
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        if not (work / name).is_dir():
            (work / name).write_text("x")
    (work / ".gitignore").write_text(rules)
    subprocess.run([git, "init", "-q"], cwd=work, check=True)
    found = subprocess.run([git, "ls-files", "-oz", "--exclude-standard"], cwd=work, capture_output=True, check=True)
    expected = {os.fsdecode(name) for name in found.stdout.split(b"\0") if name}
    with clew.open(":memory:") as store:
        session = store.sessions.create()
        checkpoints = Checkpoints(session, work)
        checkpoints.capture_tree(session.append(clew.user("go")))
        index = index_of(CheckpointRepo(session, pack_path(str(work))))
    kept = {f"{path}/{name}".lstrip("/") for path, folder in index.folders.items() for name in folder.files()}
    assert kept == expected


def test_rules_from_above_the_root(work, session, say):
    """A root inside a repository: the rules of the folders above it hold, and the repository's own list of excludes."""
    subprocess.run([need("git"), "init", "-q"], cwd=work, check=True)
    (work / ".gitignore").write_text("*.log\n/sub/local\n")
    (work / ".git" / "info").mkdir(exist_ok=True)
    (work / ".git" / "info" / "exclude").write_text("private\n")
    (work / "sub").mkdir()
    checkpoints = Checkpoints(session, work / "sub")
    message = say()
    checkpoints.capture_tree(message)
    sh(work / "sub", "for name in a.log local private plain; do echo x > $name; done")
    assert checkpoints.rewind(message).files_changed == ("plain",)
    (work / ".gitignore").write_text("")
    sh(work / "sub", "echo x > b.log")
    checkpoints.capture_tree(say())
    sh(work / "sub", "rm b.log")
    assert "b.log" in checkpoints.rewind(checkpoints.list()[-1].message, dry_run=True).files_changed


@pytest.mark.parametrize("place", [".", "sub", "linked"])
def test_what_git_tracks_is_kept_although_rules_leave_it_out(work, session, say, place):
    """Files added by force, or before the rules: git has them, and so has a checkpoint; what is beside them is left."""
    git = [need("git"), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], cwd=work, check=True)
    sh(work, "printf '*.log\nbuild/\n' > .gitignore; mkdir -p sub/build/in; echo o | tee sub/a.log sub/build/in/gen")
    subprocess.run([*git, "add", "-f", "."], cwd=work, check=True)
    subprocess.run([*git, "commit", "-qm", "x"], cwd=work, check=True)
    if place == "linked":
        subprocess.run([*git, "worktree", "add", "-q", "linked"], cwd=work, check=True)
    root = work / place
    under = root if place == "sub" else root / "sub"
    checkpoints = Checkpoints(session, root)
    first = say()
    checkpoints.capture_tree(first)
    sh(under, "echo changed > a.log; rm build/in/gen; echo new > b.log; echo new > build/new; echo new > build/in/new")
    checkpoints.capture_tree(say())
    sh(under, "echo again > a.log; echo more > build/in/more")
    assert len(checkpoints.rewind(first).files_changed) == 2
    assert (under / "a.log").read_text() == (under / "build" / "in" / "gen").read_text() == "o\n"
    assert {path.name for path in under.rglob("*") if path.is_file()} == {
        "a.log", "gen", "b.log", "new", "more",
    }  # fmt: skip


def test_what_git_begins_to_track_is_kept_from_then_on(work, checkpoints, say, monkeypatch):
    """Git is asked again when its index has changed, and only then; without git nothing fails."""
    git = need("git")
    subprocess.run([git, "init", "-q"], cwd=work, check=True)
    sh(work, "echo '*.log' > .gitignore; echo one > a.log")
    asked, run = [], subprocess.run

    def noted(command, **rest):
        asked.append(command)
        return run(command, **rest)

    monkeypatch.setattr("subprocess.run", noted)
    checkpoints.capture_tree(say())
    run([git, "add", "-f", "a.log"], cwd=work, check=True)
    second = say()
    for _ in range(3):
        checkpoints.capture_tree(second)
    assert len(asked) == 1
    sh(work, "echo two > a.log")
    asked.clear()
    assert checkpoints.rewind(second).files_changed == ("a.log",)
    run([git, "add", "."], cwd=work, check=True)
    sh(work, "echo three > a.log")
    monkeypatch.setenv("PATH", "")  # git is not found
    assert checkpoints.rewind(second).files_changed == ("a.log",)


def test_a_repository_is_left_alone(checkpoints, work, say):
    """`.git` is never kept nor changed: commits made since stay."""
    git = [need("git"), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], cwd=work, check=True)
    (work / "a").write_text("one")
    message = say()
    checkpoints.capture_tree(message)
    (work / "a").write_text("two")
    subprocess.run([*git, "add", "a"], cwd=work, check=True)
    subprocess.run([*git, "commit", "-qm", "x"], cwd=work, check=True)
    assert checkpoints.rewind(message).files_changed == ("a",)
    said = subprocess.run([*git, "log", "--oneline"], cwd=work, check=True, capture_output=True)
    assert len(said.stdout.splitlines()) == 1


def test_a_file_written_within_the_same_tick_is_read_again(checkpoints, repository, work, say, monkeypatch):
    """Racy timestamps: a change that leaves size and times as they were is found, because the file was too fresh."""
    file = work / "a"
    file.write_text("one")
    message = say()
    checkpoints.capture_tree(message)
    said = file.stat()
    assert index_of(repository).folders[""].files()["a"].stamp[0] == 0, (
        "it was just written: its stamp is not to be trusted"
    )
    file.write_text("two")
    os.utime(file, ns=(said.st_atime_ns, said.st_mtime_ns))
    assert checkpoints.rewind(message).files_changed == ("a",)
    assert file.read_text() == "one"


def test_a_file_that_has_not_changed_is_not_read_again(session, repository, work, say, monkeypatch):
    """A file with a trusted stamp is not read again; an equal index is not stored again."""
    monkeypatch.setattr(tree_scan, "RACY", -60_000_000_000)
    (work / "a").write_text("one")
    (work / "b").write_text("one")
    checkpoints = Checkpoints(session, work)
    message = say()
    checkpoints.capture_tree(message)
    looked: list[str] = []
    real = checkpoints._root.observe_in

    def look(fd, name, path):
        looked.append(path)
        return real(fd, name, path)

    monkeypatch.setattr(checkpoints._root, "observe_in", look)
    before = repository.read(repository.worktree)
    checkpoints.capture_tree(message)
    assert looked == []
    assert repository.read(repository.worktree) == before
    (work / "b").write_text("two")
    checkpoints.capture_tree(message)
    assert looked == ["b"]


def test_old_indexes_are_not_kept(store, session, work, say):
    """An index replaces the one before: the store does not grow by one for every look."""
    checkpoints = Checkpoints(session, work)
    message = say()
    for number in range(10):
        (work / "a").write_text(str(number))
        checkpoints.capture_tree(message)
    assert store.verify().counts["blobs"] == 10 + 1


def test_what_cannot_be_read_is_never_taken_for_missing(checkpoints, work, say, monkeypatch):
    """A folder that cannot be listed is taken to be as it was; a file that cannot be read is skipped by name."""
    furnish(work)
    message = say()
    checkpoints.capture_tree(message)
    before = picture(work)
    real = tree_scan._list_folder

    def broken(fd, left_out):
        if os.path.basename(os.readlink(f"/proc/self/fd/{fd}")) == "er":
            raise PermissionError(13, "Permission denied")
        return real(fd, left_out)

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    monkeypatch.setattr(tree_scan, "_list_folder", broken)
    checkpoints.capture_tree(message)
    monkeypatch.setattr(tree_scan, "_list_folder", real)
    assert checkpoints.rewind(message).files_changed == ()
    assert picture(work) == before


def test_a_tree_that_is_too_large_is_told(checkpoints, work, say, monkeypatch):
    """A home folder taken for a project is refused before everything in it is stored."""
    monkeypatch.setattr(tree_scan, "MOST", 3)
    for number in range(5):
        (work / str(number)).write_text("x")
    with pytest.raises(Invalid, match="more than 3 files"):
        checkpoints.capture_tree(say())


def test_changes_after_all_was_done_are_someone_elses(checkpoints, work, say):
    """A change after `settle` in a captured tree needs `force`; a change of the command does not."""
    for name in ("agent", "mine"):
        (work / name).write_text("original")
    message = say()
    with checkpoints.guard(message):
        (work / "agent").write_text("by a command")
    (work / "mine").write_text("by me")
    refused = checkpoints.rewind(message)
    assert (refused.can_rewind, refused.conflicts) == (False, ("mine",))
    second = say()
    checkpoints.capture_tree(second)
    assert checkpoints.rewind(message, dry_run=True).conflicts == ("mine",)
    assert checkpoints.rewind(message, force=True).can_rewind
    assert (work / "mine").read_text() == "original"


def test_several_processes_capture_one_tree(store, session, work, path):
    """Concurrent hooks: each capture succeeds, and the state before all of them can be restored."""
    furnish(work)
    before = picture(work)
    message = session.append(clew.user("go")).id
    Checkpoints(session, work).capture_tree(message)
    code = (
        "import sys, clew; from clew.checkpoints import Checkpoints; store = clew.open(sys.argv[1]);"
        "checkpoints = Checkpoints(store.sessions.get(sys.argv[2]), sys.argv[3]);\n"
        "for n in range(3):\n"
        "    open(f'{sys.argv[3]}/of-{sys.argv[5]}', 'a').write('x'); checkpoints.capture_tree(sys.argv[4])"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(clew.__file__).parents[1])}
    command = [sys.executable, "-c", code, str(path), session.id, str(work), message]
    running = [subprocess.Popen([*command, str(n)], env=env) for n in range(4)]
    assert [one.wait(timeout=60) for one in running] == [0, 0, 0, 0]
    assert Checkpoints(session, work).rewind(message).can_rewind
    assert picture(work) == before


def test_an_index_survives_its_form(work):
    """An index is equal after encoding and decoding; other bytes are Corrupted."""
    index = TreeIndex(1, ((1, 2),), {})
    assert unpack(pack(index)) == index
    for bad in (b"", b"\x02", b"\x01\xff", b"\x01\x93\x01\x90\x91"):
        with pytest.raises(Corrupted):
            unpack(bad)
    assert not IgnoreRules(None, "", None).ignores("x", folder=False)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_five_hundred_changed_files_of_twenty_thousand(store, session, work, say):
    """In a work tree of 20,000 files, 500 changed ones are restored exactly, by hash and mode."""
    _large(work, 20_000)
    subprocess.run([need("git"), "init", "-q"], cwd=work, check=True)
    _changed_and_back(session, work, say, 500)


def test_fifty_changed_files_of_a_thousand(session, work, say):
    """In a work tree of 1,000 files, 50 changed, removed and new ones are restored exactly, by hash and mode."""
    _large(work, 1_000)
    _changed_and_back(session, work, say, 50)


def _large(work: Path, count: int) -> None:
    chance = random.Random(3)
    for number in range(count):
        path = work / f"p{number % 20}" / f"m{number // 20 % 25}" / f"f{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(chance.randint(0, 600)).hex().encode())


def _changed_and_back(session, work, say, count: int) -> None:
    chance = random.Random(4)
    checkpoints = Checkpoints(session, work)
    message = say()
    began = time.monotonic()
    checkpoints.capture_tree(message)
    before = picture(work)
    files = sorted(path for path in work.rglob("*.py"))
    for number, path in enumerate(chance.sample(files, count)):
        if number % 5 == 0:
            path.unlink()
        elif number % 5 == 1:
            path.chmod(0o755)
        else:
            path.write_text(f"changed {number}")
    shutil.move(work / "p3", work / "moved")
    after = picture(work)
    done = checkpoints.rewind(message)
    assert done.can_rewind, done.error
    assert len(done.files_changed) >= count
    assert picture(work) == before
    assert checkpoints.undo().can_rewind
    assert picture(work) == after
    assert time.monotonic() - began < 600
