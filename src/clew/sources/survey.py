"""Lists the histories on this machine, within a budget of bytes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from clew.sources.contract import About, Entry, Home, Source
from clew.sources.items import Item
from clew.sources.registry import Known, find, places, sources

BUDGET = 200 * 1024 * 1024
"""Bytes that are read to count conversations and messages; beyond it the counts are estimates."""


class History(NamedTuple):
    """The history of one program on this machine."""

    source: str
    title: str
    paths: tuple[str, ...]
    """Where it is."""
    files: int
    size: int
    """Bytes of its files."""
    projects: int
    conversations: int
    messages: int
    oldest: datetime | None
    newest: datetime | None
    deletes_after: int | None
    """Days after which the program deletes it."""
    exact: bool
    """False if not all was read: then projects, conversations and messages are estimates, and `oldest` may be older."""


def survey(
    home: Home, *, unreadable: dict[str, str], only: Source | None = None, budget: int = BUDGET
) -> list[History]:
    """The histories that are found where their programs keep them, newest files read first.

    The largest history is first. Sources that are looked for and not found are left out. Paths that cannot be opened
    are added to `unreadable`, with the reasons.
    """
    found: list[History] = []
    for source in sources() if only is None else (only,):
        where = places(source, home)
        there = list(find(where, only=source))
        unreadable |= {one.item.path: one.why for one in there if one.unreadable}
        files = [one.item for one in there if one.source is not None and one.item.size]
        if files:
            history, used = _count(source, where, files, budget)
            found.append(history)
            budget = max(0, budget - used)
    return sorted(found, key=lambda one: -one.size)


def unchanged(home: Home, source: Source, known: Known) -> int:
    """How many files of a history were imported and have not changed since."""
    return sum(one.unchanged for one in find(places(source, home), only=source, known=known))


def _title(source: Source, where: Iterable[str]) -> str:
    """The name of the program; of several that one source reads, those that are here."""
    programs: dict[str, str] = getattr(source, "programs", {})
    here = [title for part, title in programs.items() if any(part in path for path in where)]
    return ", ".join(dict.fromkeys(here)) or source.title


def _count(source: Source, where: Iterable[str], files: list[Item], budget: int) -> tuple[History, int]:
    size = sum(item.size for item in files)
    conversations, traces, projects, used, read = set[str](), set[str](), set[str](), 0, 0
    messages = set[int]()  # hashes of ids: a fork has copies, which an import stores once
    oldest: datetime | None = None
    newest: datetime | None = None
    for item in sorted(files, key=lambda item: -item.modified):
        if used + item.size > budget and read:
            break
        used += item.size
        read += 1
        try:
            for part in source.read(item):
                if isinstance(part, About):
                    projects |= {part.cwd} if part.cwd else set()
                    traces |= {part.conversation} if part.agent is not None or part.owner is not None else set()
                elif isinstance(part, Entry) and part.message is not None:
                    conversations.add(part.conversation)
                    if part.inherited:
                        continue
                    messages.add(hash(part.id))
                    if part.created_at is not None:
                        oldest = part.created_at if oldest is None else min(oldest, part.created_at)
                        newest = part.created_at if newest is None else max(newest, part.created_at)
        except Exception:  # noqa: BLE001 (an import says why)
            continue
    share = size / used if used and read < len(files) else 1

    def whole(count: int) -> int:
        return round(count * share)

    history = History(
        source.name, _title(source, where), tuple(where), len(files), size, len(projects),
        whole(len(conversations - traces)), whole(len(messages)), oldest, newest,
        source.deletes_after, read == len(files),
    )  # fmt: skip
    return history, used
