"""`make test` touches every promise: no lane takes all tests of one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import lanes

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/reliability.md"


def promises() -> dict[str, set[str]]:
    """The numbers of the promises, each with the test files that the page names for it."""
    rows = re.findall(r"^\| (P\d+) \|(.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {number: set(re.findall(r"\]\(\.\./(tests/[\w/]+/test_\w+\.py)\)", row)) for number, row in rows}


def untouched(promised: dict[str, set[str]], node_ids: list[str]) -> list[str]:
    """The promises of which none of these tests is left."""
    files = {node_id.partition("::")[0] for node_id in node_ids}
    return [number for number, tests in promised.items() if not tests & files]


def test_every_line_names_a_test(pytestconfig: pytest.Config) -> None:
    """No pattern of tests/lanes.py is left over from a test that is gone."""
    if pytestconfig.option.file_or_dir:
        pytest.skip("needs the whole suite to be collected")
    assert lanes.unused(pytestconfig.stash[lanes.COLLECTED]) == []


def test_every_promise_names_tests() -> None:
    """Each row of the page links to test files, and they exist."""
    found = promises()
    assert len(found) >= 19
    assert [number for number, tests in found.items() if not tests] == []
    assert [name for tests in found.values() for name in tests if not (ROOT / name).exists()] == []


def test_a_promise_without_a_test_is_named() -> None:
    """The check below can fail."""
    promised = {"P1": {"tests/a.py", "tests/b.py"}, "P2": {"tests/b.py"}}
    assert untouched(promised, ["tests/a.py::test_x[1]"]) == ["P2"]
    assert untouched(promised, ["tests/b.py::test_y"]) == []


def test_make_test_touches_every_promise(request: pytest.FixtureRequest) -> None:
    """Of each promise's tests at least one is neither in the full lane nor in the soak."""
    if request.config.option.file_or_dir or request.config.option.keyword:
        pytest.skip("needs the whole suite to be collected")
    kept = [
        item.nodeid
        for item in request.session.items
        if not item.get_closest_marker("soak") and not lanes.is_full(item.nodeid)
    ]
    assert untouched(promises(), kept) == []
