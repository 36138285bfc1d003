"""Runs pytest, and tests that failed once more: `python tools/repeat.py ARGUMENTS`.

Prints "a fault to find: NODEID" for each test that was repeated. Fails if one fails again, or if there are more than
three. Name folders with options (`--confcutdir=tests`): an argument that begins with `tests/` is not repeated.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

MOST = 3
"""Tests that may need to be repeated: a busy machine can fail a test that waits."""


class Failures:
    """The node ids of tests that failed."""

    def __init__(self) -> None:
        self.found: dict[str, None] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for each phase of a test, also for tests of other workers."""
        if report.failed:
            self.found[report.nodeid] = None


def main(args: list[str]) -> int:
    """The exit code of pytest, of the second run if there was one."""
    failures = Failures()
    code = int(pytest.main(args, plugins=[failures]))
    if code != pytest.ExitCode.TESTS_FAILED:
        return code
    for one in failures.found:
        print(f"a fault to find: {one}")
    if not 0 < len(failures.found) <= MOST:
        print(f"{len(failures.found)} tests failed; at most {MOST} are repeated")
        return code
    options = [arg for arg in args if not arg.startswith("tests/")]
    return subprocess.run([sys.executable, "-m", "pytest", *options, *failures.found], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
