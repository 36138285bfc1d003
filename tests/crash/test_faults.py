"""P8: full disk, I/O errors, read-only, too many files: acknowledged data stays, the error says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash import lab

ERRORS = ["EIO", "ENOSPC", "SHORT", "EROFS", "EMFILE"]
OPERATIONS = ["write", "sync", "open", "truncate", "unlink"]
"""SQLite and clew rename nothing; `test_nothing_is_renamed` watches that."""

SHORT_FORM = [
    ("write", "ENOSPC", "once", 11),
    ("write", "ENOSPC", "once", 37),
    ("write", "EIO", "sticky", 17),
    ("write", "SHORT", "sticky", 23),
    ("sync", "EIO", "once", 3),
    ("sync", "EIO", "once", 8),
    ("sync", "EIO", "sticky", 5),
    ("open", "EMFILE", "once", 2),
    ("open", "EMFILE", "once", 5),
    ("open", "EROFS", "sticky", 3),
    ("truncate", "EIO", "sticky", 1),
    ("unlink", "EIO", "once", 1),
]


def sweep(tmp_path: Path, operation: str, error: str, how: str, step: int, messages: int) -> lab.Outcome:
    sticky = ("--sticky",) if how == "sticky" else ()
    options = ("--op", operation, "--errno", error, *sticky, "--step", str(step), "--messages", str(messages))
    outcome = lab.run("sweep", *options, "--size", "3000", base=tmp_path, timeout=10.0)
    # Exit 2 says that no message was ever acknowledged: a fault that stays from before the first one on.
    assert outcome.code == 0 or (how == "sticky" and outcome.code == 2), outcome.said
    assert outcome.failures == 0, outcome.said
    lab.assert_told(outcome)
    return outcome


@pytest.mark.parametrize(("operation", "error", "how", "step"), SHORT_FORM)
def test_a_failing_call_loses_nothing(tmp_path: Path, operation: str, error: str, how: str, step: int) -> None:
    """One system call fails, or all from there on: what was acknowledged stays, and the caller is told."""
    outcome = sweep(tmp_path, operation, error, how, step, messages=5)
    assert outcome.checks > 0, outcome.said
    if how == "once":  # the target asks again with the same id on the same handle, and every message gets in
        assert outcome.report["acked"] == 5 * outcome.checks, outcome.said


def test_nothing_is_renamed(tmp_path: Path) -> None:
    """No rename happens that could fail."""
    outcome = lab.run("sweep", "--op", "rename", "--messages", "3", base=tmp_path)
    assert outcome.checks == 0


@pytest.mark.soak
@pytest.mark.parametrize("how", ["once", "sticky"])
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_call_may_fail(tmp_path: Path, operation: str, error: str, how: str) -> None:
    """The same for every single call of a run."""
    outcome = sweep(tmp_path, operation, error, how, 1, messages=12)
    assert outcome.checks > 0, outcome.said
    if how == "once":
        assert outcome.report["acked"] == 12 * outcome.checks, outcome.said
