"""Files that an export brings along: pictures, recordings, documents, in its archive or beside its JSON."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress

from clew.errors import ClewError
from clew.sources.contract import Attachment
from clew.sources.items import Item, items

_ID = re.compile(r"file[-_][A-Za-z0-9]{6,}")
MOST = 200_000
"""Files that are looked at beside an export."""


def file_id(reference: str) -> str | None:
    """The id of a file in a reference to it, or in its name: ``file-service://file-abc`` and ``file-abc-cat.png``."""
    found = _ID.search(os.path.basename(reference))
    return None if found is None else found[0]


class ExportFiles:
    """The files of one export, by their ids. Looked up when the first is asked for."""

    def __init__(self, item: Item) -> None:
        self._item = item
        self._found: dict[str, Item] | None = None

    def attachment(self, reference: str, name: str | None, mime_type: str | None) -> Attachment | None:
        """The file that a message refers to; None if the export does not have it."""
        id = file_id(reference)
        if id is None:
            return None
        if self._found is None:
            self._found = {}
            with suppress(ClewError, OSError, zipfile.BadZipFile):
                for one in self._items():
                    if (named := file_id(one.member or one.path)) is not None:
                        self._found.setdefault(named, one)
        found = self._found.get(id)
        return None if found is None else Attachment(reference, name, mime_type, found.open)

    def _items(self) -> Iterator[Item]:
        if self._item.member is not None:
            yield from items(self._item.path)
            return
        count = 0
        for place, _, names in os.walk(os.path.dirname(self._item.path)):
            for name in names:
                count += 1
                path = os.path.join(place, name)
                if count <= MOST and file_id(name) is not None and not os.path.islink(path):
                    yield Item(path, 0, 0)
