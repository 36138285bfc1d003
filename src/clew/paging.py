"""Lists that come in pages, read to their end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

Item_co = TypeVar("Item_co", covariant=True)


class Page(Protocol[Item_co]):
    """Some of a list, and where the rest begins."""

    @property
    def items(self) -> Sequence[Item_co]: ...
    @property
    def next_cursor(self) -> str | None: ...


PageT_co = TypeVar("PageT_co", bound=Page[object], covariant=True)


class Fetch(Protocol[PageT_co]):
    """A list that is yet to be told where to begin: ``partial(store.sessions.list, limit=200)``."""

    def __call__(self, *, cursor: str | None) -> PageT_co: ...


def pages(fetch: Fetch[PageT_co]) -> Iterator[PageT_co]:
    """All pages, each fetched by its cursor when it is asked for; the first by None."""
    cursor: str | None = None
    while True:
        page = fetch(cursor=cursor)
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return


def every(fetch: Fetch[Page[Item_co]]) -> Iterator[Item_co]:
    """What is on all pages."""
    for page in pages(fetch):
        yield from page.items
