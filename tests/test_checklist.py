"""The checklist is read from the tests without running them."""

from __future__ import annotations

from pathlib import Path

from tools import checklist

LISTED = {"Things": {"A1": "It works.", "A2": "It works again."}}
MARKED = """
@pytest.mark.checklist("A1")
def test_one(): ...


class TestMore:
    @pytest.mark.checklist("A1", "B7")
    async def test_two(self): ...
"""


def made(root: Path) -> list[checklist.Mark]:
    """The marks of a made-up suite."""
    (root / "tests").mkdir()
    (root / "tests/test_some.py").write_text(MARKED)
    return checklist.marks(root)


def test_marks_are_found(tmp_path: Path) -> None:
    """A mark of a function or method names its items, each with the test."""
    file = "tests/test_some.py"
    assert made(tmp_path) == [
        (file, "test_one", "A1"),
        (file, "TestMore::test_two", "A1"),
        (file, "TestMore::test_two", "B7"),
    ]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    """An item without a test, and a mark without an item, fail the check."""
    assert list(checklist.problems(LISTED, made(tmp_path))) == [
        "tests/test_some.py::TestMore::test_two is marked with B7, which tests/checklist.toml does not have",
        "no test is marked with A2 of tests/checklist.toml",
    ]


def test_the_page_has_every_item(tmp_path: Path) -> None:
    """Each item has a row with its tests as links."""
    assert checklist.page(LISTED, made(tmp_path)).splitlines()[-2:] == [
        "| A1 | It works. | [test_one](../../tests/test_some.py)<br>[TestMore::test_two](../../tests/test_some.py) |",
        "| A2 | It works again. |  |",
    ]
