"""`tools/coverage.py`: the gate on how much of a part tests run."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from tools import coverage

ROOT = Path(__file__).parents[1]
TABLE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["clew"]["coverage"]

MODULE = """
def sign(number):
    if number < 0:
        return -1
    return 1
"""
HALF = "import part\n\ndef test_it():\n    assert part.sign(1) == 1\n"
WHOLE = HALF + "    assert part.sign(-1) == -1\n"


@pytest.mark.parametrize(("test", "reached"), [(HALF, False), (WHOLE, True)])
def test_untested_lines_and_branches_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: str, reached: bool):
    """A branch that no test takes is named with its line, and the gate fails; with a test for it the gate passes."""
    (tmp_path / "part.py").write_text(MODULE)
    (tmp_path / "test_part.py").write_text(test)
    monkeypatch.chdir(tmp_path)
    found = coverage.measure(".", ["test_part.py"], ["-q", "-p", "no:cacheprovider", "-c", "/dev/null"])
    parts = [{"name": "part", "lines": 100, "branches": 100, "files": ["part.py"]}]
    judged = list(coverage.judge(parts, found))
    assert [ok for _, ok in judged] == [reached, reached]
    assert all(("part.py:" in said) is not reached for said, _ in judged)


def test_a_failing_test_fails_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Figures of a run with failed tests do not count."""
    (tmp_path / "test_part.py").write_text("def test_it():\n    assert False\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        coverage.measure(".", ["test_part.py"], ["-q", "-p", "no:cacheprovider", "-c", "/dev/null"])


@pytest.mark.checklist("A42", "C41")
def test_the_gate_asks_for_what_is_promised():
    """CI runs the gate, and it asks for these figures of files that exist."""
    asked = {(one["name"], kind): one[kind] for one in TABLE["parts"] for kind in coverage.COUNTED if kind in one}
    assert asked == {
        ("chat", "lines"): 90,
        ("validators", "lines"): 95,
        ("base_url", "branches"): 100,
        ("keys", "lines"): 100,
        ("keys", "branches"): 100,
        ("records", "lines"): 95,
        ("retention", "branches"): 90,
    }
    sources = [path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*.py")]
    for pattern in {file for one in TABLE["parts"] for file in one["files"]}:
        assert any(fnmatchcase(name, pattern) for name in sources), pattern
    assert re.search(r"^make .*\bcoverage\b", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
