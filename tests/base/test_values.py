"""Lists that come in pages, read to their end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import clew
import clew.aio
from clew.base.values import Page


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_a_list_is_read_to_its_end(tmp_path: Path, count: int) -> None:
    """Every item comes once and in the list's order, however many pages there are; the last page alone may be short."""
    with clew.open(tmp_path / "s.db") as store:
        made = [store.sessions.create(title=str(number)).id for number in range(count)]
        first = store.sessions.list(limit=2, total=True)
        assert [session.id for session in first] == made[::-1][:2]
        assert (len(first), first.total) == (min(count, 2), count)
        assert [session.id for session in first.all()] == made[::-1]
        sizes = [len(page) for page in first.pages()]
        assert sizes == [2] * (count // 2) + [1] * (count % 2) or sizes == [0]


LISTS: dict[str, Callable[[clew.Store], tuple[Page[clew.Session], Page[clew.Session]]]] = {
    "directory": lambda store: (store.sessions.list(limit=1, cwd="/a"), store.sessions.list(cwd="/a")),
    "label": lambda store: (store.sessions.list(limit=1, label="x"), store.sessions.list(label="x")),
    "title": lambda store: (store.sessions.list(limit=1, title="two"), store.sessions.list(title="two")),
    "subagents": lambda store: (store.sessions.list(limit=1, subagents=True), store.sessions.list(subagents=True)),
    "trash": lambda store: (store.sessions.trashed(limit=1), store.sessions.trashed()),
}


@pytest.mark.parametrize("name", LISTS)
def test_the_following_pages_have_the_same_filter(name: str) -> None:
    """`all` passes every filter on to the pages after the first."""
    with clew.open(":memory:") as store:
        for _ in range(3):
            store.sessions.create(title="one", cwd="/a")
            store.sessions.create(title="two", labels=["x"])
            store.sessions.create(agent="a")
            store.sessions.create().trash()
        short, whole = LISTS[name](store)
        assert len(whole) == 3
        assert list(short.all()) == whole.items


def test_nodes_pass_over_the_offset_once() -> None:
    """The offset belongs to the first page."""
    with clew.open(":memory:") as store:
        nodes = store.nodes.save([clew.user(str(number)) for number in range(6)])
        assert list(store.nodes.list(limit=2, offset=1, ascending=True).all()) == nodes[1:]
        assert list(store.nodes.list(limit=2).all()) == nodes[::-1]


def test_a_page_is_read_when_it_is_needed() -> None:
    """A caller that stops early causes no further reads."""
    asked: list[str] = []

    def fetch(cursor: str) -> Page[int]:
        asked.append(cursor)
        return Page([3], None)

    found = Page([1, 2], "next", fetch=fetch).all()
    assert [next(found), next(found)] == [1, 2]
    assert asked == []
    assert list(found) == [3]
    assert asked == ["next"]


@pytest.mark.anyio
async def test_async_pages_have_async_items() -> None:
    """The items of a page, and of all pages after it, are twins."""
    async with clew.aio.open(":memory:") as store:
        made = [await store.sessions.create(title=str(number)) for number in range(5)]
        page = await store.sessions.list(limit=2, total=True)
        assert page.items == list(page) == made[:2:-1]
        assert (len(page), page.total, page.next_cursor is None) == (2, 5, False)
        found = [session async for session in page.all()]
        assert found == made[::-1]
        assert all(isinstance(session, clew.aio.Session) for session in found)
