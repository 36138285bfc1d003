"""Lists that come in pages, read to their end."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import clew
from clew.paging import every, pages
from clew.sessions import Page


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_a_list_is_read_to_its_end(tmp_path: Path, count: int) -> None:
    """Every item comes once and in the list's order, however many pages there are; the last page alone may be short."""
    with clew.open(tmp_path / "s.db") as store:
        made = [store.sessions.create(title=str(number)).id for number in range(count)]
        by_two = partial(store.sessions.list, limit=2)
        assert [session.id for session in every(by_two)] == made[::-1]
        sizes = [len(page.items) for page in pages(by_two)]
        assert sizes == [2] * (count // 2) + [1] * (count % 2) or sizes == [0]


def test_a_page_is_fetched_when_it_is_asked_for(tmp_path: Path) -> None:
    """Who has seen enough causes no further reads."""
    with clew.open(tmp_path / "s.db") as store:
        for _ in range(5):
            store.sessions.create()
        asked: list[str | None] = []

        def fetch(*, cursor: str | None) -> Page:
            asked.append(cursor)
            return store.sessions.list(limit=2, cursor=cursor)

        found = every(fetch)
        assert asked == []
        next(found)
        next(found)
        assert asked == [None]
