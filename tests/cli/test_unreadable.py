"""Files that exist and cannot be read are named and counted, and the exit code says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.permissions import obey, unenforced
from tests.sources.made import SESSION, claude_line, jsonl

pytestmark = pytest.mark.skipif(bool(unenforced()), reason=unenforced() or "permissions count here")
OTHER = SESSION[:-1] + ("0" if SESSION[-1] != "0" else "1")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of Claude Code with two conversations."""
    folder = tmp_path / "home" / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    for name in (SESSION, OTHER):
        (folder / f"{name}.jsonl").write_bytes(jsonl([claude_line(1, None, "user", f"Hello {name}", sessionId=name)]))
    return folder


@pytest.fixture
def closed(project: Path) -> Path:
    """One of the two files, which may not be read."""
    path = project / f"{OTHER}.jsonl"
    path.chmod(0)
    return path


def test_one_of_two_histories(program: Run, project: Path, closed: Path) -> None:
    """It is named with the reason, the other one is imported, and the exit code is 8, in each form."""
    for what in (["--yes"], [str(project)], [str(project.parent)]):
        done = program("import", *what, preexec_fn=obey)
        assert (done.code, f"skipped {closed}: " in done.err, "Permission denied" in done.err) == (8, True, True), what
    rows = program("import", "--yes", "--json", preexec_fn=obey).json["files"]
    assert {(row["path"], row["state"]) for row in rows} == {
        (str(project / f"{SESSION}.jsonl"), "unchanged"),
        (str(closed), "skipped"),
    }
    assert len(program("ls", "--json").json["sessions"]) == 1


def test_a_history_named_by_its_path(program: Run, closed: Path) -> None:
    """It is refused with the reason, and not as a format that nothing reads."""
    done = program("import", str(closed), preexec_fn=obey)
    assert (done.code, f"{closed}" in done.err, "Permission denied" in done.err) == (8, True, True)
    assert "internal error" not in done.err


@pytest.mark.parametrize("above", [1, 2, 3])
def test_a_folder_of_histories(program: Run, project: Path, above: int) -> None:
    """A folder that cannot be entered is named once, and is not taken for a missing one."""
    folder = [project, *project.parents][above - 1]
    folder.chmod(0)
    try:
        for options in (["--yes"], [str(project)]):
            done = program("import", *options, preexec_fn=obey)
            assert (done.code, "Permission denied" in done.err) == (8, True), (options, done)
            assert len([line for line in done.err.splitlines() if line.startswith("skipped ")]) == 1, done.err
    finally:
        folder.chmod(0o700)


def test_the_table_of_histories(program: Run, closed: Path, project: Path) -> None:
    """The table of histories names what it could not count, and the exit code is 8; `sources` too."""
    for command in (["import"], ["sources", "claude-code"]):
        done = program(*command, preexec_fn=obey)
        assert (done.code, str(closed) in done.err, "Permission denied" in done.err) == (8, True, True), done


def test_a_watch(program: Run, closed: Path) -> None:
    """Watching names what it cannot read, once."""
    command = [sys.executable, "-m", "clew", "import", "--watch"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=obey) as watch:
        assert watch.stderr is not None
        said = [watch.stderr.readline()]
        while "Watching" not in said[-1] and said[-1]:
            said.append(watch.stderr.readline())
        watch.send_signal(signal.SIGINT)
        said += watch.stderr.readlines()
    assert sum(f"skipped {closed}: " in line for line in said) == 1, said
    assert watch.wait(60) == 0


@pytest.fixture
def shut(program: Run, tmp_path: Path) -> Path:
    """A store, in the default folder, which may then not be entered."""
    folder = tmp_path / "data" / "clew"
    os.environ.pop("CLEW_DB")
    assert program("append", input=b'{"text": "hello"}\n').code == 0
    assert (folder / "clew.db").exists()
    folder.chmod(0)
    return folder


@pytest.mark.parametrize("command", [["ls"], ["search", "hello"], ["show", "@last"], ["stats"], ["append"], ["doctor"]])
def test_a_store_in_a_closed_folder(program: Run, shut: Path, command: list[str]) -> None:
    """No command takes it for an empty or a missing store: permission denied, exit code 1."""
    try:
        for more in ([], ["--db", str(shut / "clew.db")]):
            done = program(*command, *more, preexec_fn=obey, input=b'{"text": "hello"}\n')
            assert (done.code, "Permission denied" in done.err + done.out) == (1, True), done
            assert "does not exist" not in done.out + done.err
            assert "Check the permissions" in done.out + done.err
    finally:
        shut.chmod(0o700)


@pytest.mark.parametrize("command", [["ls"], ["doctor"]])
def test_a_store_that_may_not_be_read(program: Run, tmp_path: Path, db: str, command: list[str]) -> None:
    """The message says that permission is denied, with exit code 1."""
    assert program("append", input=b'{"text": "hello"}\n').code == 0
    Path(db).chmod(0)
    done = program(*command, preexec_fn=obey)
    assert (done.code, "ermission denied" in done.err + done.out) == (1, True), done
    assert json.loads(program("ls", "--json", preexec_fn=obey).err)["error"]["type"] == "Forbidden"
