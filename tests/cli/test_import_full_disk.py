"""An import that needs more space than there is."""

from __future__ import annotations

import json
import os
import resource
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.sources.made import an_id, claude_line, jsonl

SMALL = 10_000_000
"""No file of the store can grow beyond this, as on a full disk."""


def full() -> None:
    """For `preexec_fn`: limits the size of files."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, resource.RLIM_INFINITY))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """30 small conversations, one of 12 MB after the tenth, in a folder of Claude Code."""
    folder = tmp_path / "home" / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    for number in range(31):
        name, many, text = an_id(1000 + number), 3, "few words"
        if number == 10:
            many, text = 1200, os.urandom(5120).hex()
        lines = (
            claude_line(
                100_000 * number + n,
                None if n == 1 else 100_000 * number + n - 1,
                "user",
                f"{n} {text}",
                sessionId=name,
            )
            for n in range(1, many + 1)
        )
        path = folder / f"{name}.jsonl"
        path.write_bytes(jsonl(lines))
        os.utime(path, (number + 1, number + 1))
    return folder


def stored(program: Run) -> tuple[int, int]:
    """How many messages and conversations the store has."""
    total = program("stats", "--json").json["total"]
    return total["messages"], total["sessions"]


@pytest.mark.parametrize("form", [[], ["--json"], ["--jsonl"]])
def test_it_stops_at_once(program: Run, project: Path, form: list[str]) -> None:
    """One message, exit code 1, and every message that is stored is counted, also of a conversation stored in part."""
    done = program("import", str(project), *form, preexec_fn=full)
    assert done.code == 1, done
    assert done.err.count("limit on file sizes") == 1, done.err
    assert "21 files not imported" in done.err
    messages, sessions = stored(program)
    if not form:
        assert f"{messages:,} new messages in {sessions} conversations imported\n" in done.out
        assert f"{an_id(1010)}.jsonl: only {messages - 30:,} of its messages were imported" in done.err
    else:
        files = json.loads(done.out)["files"] if form == ["--json"] else done.lines
        assert [one["state"] for one in files] == ["imported"] * 10 + ["stopped"]
        assert sum(each["messages"] for one in files for each in one["conversations"]) == messages
    assert messages > 30, "a part of the large one is stored"


def test_the_rest_comes_with_the_next_import(program: Run, project: Path) -> None:
    """With space again, the same command imports what is missing, and nothing twice."""
    assert program("import", str(project), preexec_fn=full).code == 1
    assert program("import", str(project)).code == 0
    assert stored(program) == (30 * 3 + 1200, 31)


def test_need_and_free_space_are_compared_before(program: Run, project: Path, db: str) -> None:
    """What cannot fit is refused before anything is stored; --force tries it anyway."""
    large = project / f"{an_id(2000)}.jsonl"
    large.write_bytes(jsonl([claude_line(1, None, "user", "hello", sessionId=an_id(2000))]))
    with large.open("r+b") as file:
        file.truncate(2 * shutil.disk_usage(project).free)
    for what in ([str(project)], ["--yes"]):
        done = program("import", *what)
        assert (done.code, "free" in done.err, "--force" in done.err) == (1, True, True), done
        assert program("ls", "--json").json["sessions"] == []
    assert program("import", str(project), "--dry-run", "--exclude", large.name).code == 0
