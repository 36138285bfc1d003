"""A source of which only the conversations of one project are read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from clew.sources.contract import About, Entry, Home, Part, Skip, Source
from clew.sources.items import Item

WAITING = 1000
"""Entries that wait until the directory of their conversation is known; after so many it is taken for unknown."""


class OfProject:
    """The conversations of a source whose directory is a project's, or below it; see `clew.sources.contract.Source`."""

    def __init__(self, source: Source, project: str) -> None:
        self._source = source
        self._project = os.path.abspath(project)
        self.name = source.name
        self.title = source.title
        self.deletes_after = source.deletes_after

    def discover(self, home: Home) -> Iterable[str]:
        return self._source.discover(home)

    def resume(self, conversation: str) -> str | None:
        return self._source.resume(conversation)

    def recognise(self, path: str, head: bytes) -> bool:
        return self._source.recognise(path, head)

    def read(self, item: Item) -> Iterator[Part]:
        wanted: dict[str, bool] = {}
        waiting: dict[str, list[Part]] = {}
        for part in self._source.read(item):
            if isinstance(part, Skip):
                yield part
                continue
            name = part.conversation
            if name in wanted:
                if wanted[name]:
                    yield part
                continue
            waiting.setdefault(name, []).append(part)
            if isinstance(part, About) and part.cwd is not None:
                wanted[name] = self._is_below(part.cwd)
                if wanted[name]:
                    yield from waiting[name]
                del waiting[name]
            elif isinstance(part, Entry) and len(waiting[name]) > WAITING:
                wanted[name] = False
                del waiting[name]

    def _is_below(self, folder: str) -> bool:
        return folder == self._project or folder.startswith(self._project.rstrip(os.sep) + os.sep)
