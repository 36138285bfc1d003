"""Simple values that every room takes: the clock, numbers of its callers, pages of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from clew.errors import Invalid, clip

Clock = Callable[[], int]
"""Returns microseconds since 1970."""


def whole_number(name: str, value: object, least: int) -> int:
    """`value`, if it is an integer of at least `least`. Invalid."""
    if not isinstance(value, int) or not least <= value <= 1 << 60:
        raise Invalid(f"{name} must be a whole number of at least {least}, not {clip(str(value))}")
    return value


T = TypeVar("T")


class Page(Generic[T]):
    """Some items of a list. It iterates over its items; `all` continues with the pages after it.

    `next_cursor` is where the next page begins, None on the last page. `total` is None unless the list counted.
    """

    __slots__ = ("_fetch", "items", "next_cursor", "total")

    def __init__(
        self,
        items: list[T],
        next_cursor: str | None = None,
        total: int | None = None,
        *,
        fetch: Callable[[str], Page[T]] | None = None,
    ) -> None:
        self.items = items
        self.next_cursor = next_cursor
        self.total = total
        self._fetch = fetch

    def all(self) -> Iterator[T]:
        """The items of this page and of all pages after it; each page is read when its first item is needed."""
        for page in self.pages():
            yield from page.items

    def pages(self) -> Iterator[Page[T]]:
        """The page and all pages after it, each read when it is needed."""
        page = self
        yield page
        while page.next_cursor is not None and page._fetch is not None:
            page = page._fetch(page.next_cursor)
            yield page

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"<Page of {len(self.items)}{', more follow' * (self.next_cursor is not None)}>"
